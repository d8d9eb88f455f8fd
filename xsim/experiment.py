"""The whole program: scenario, deployment, workload, timeline, metrics.

``run(experiment)`` is a function of its argument: same experiment, same result, to the picosecond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xsim.account import Account, account
from xsim.errors import SpecError, XsimError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.fallbacks import fallbacks
from xsim.families import Members, build
from xsim.iterations import Iterations
from xsim.metrics import Metrics, measure
from xsim.optimality import Optimality, optimality
from xsim.plan.comm import CommPlan, in_bytes
from xsim.plan.contracts import (
    CollectiveAlgorithm,
    ComputeModel,
    Elsewhere,
    Estimate,
    Planner,
    PlannerSite,
    Reshard,
    Schedule,
    unheard,
)
from xsim.plan.lower import Lowered, lower
from xsim.plan.memory import Verdict, deployment_memory
from xsim.plan.noted import Noted, Taken, Timed
from xsim.plan.recompute import check_recompute
from xsim.plan.walk import walk
from xsim.plan.wires import lower_comm
from xsim.plan.workload import Workload
from xsim.question import Experiment
from xsim.repeated import simulated
from xsim.sim.contracts import NetworkBackend, NetworkStats
from xsim.sim.timeline import Timeline
from xsim.spec.cluster import ClusterSpec, DeviceSpec, rank_devices
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import check_deployment

__all__ = ["DoesNotFitError", "Experiment", "Planned", "Result", "planned", "run", "site_of"]


class DoesNotFitError(XsimError):
    """Some rank needs more memory than its device has; the message names it, the shortfall and a way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came out, and all that explains it: of several iterations, the one with the median time.

    Attributes:
        fabric: As it was in that iteration.
        speeds: Of the device of each rank of the cluster in that iteration.
        iterations: What all of them took.
    """

    metrics: Metrics
    account: Account
    timeline: Timeline
    workload: Workload
    deployment: DeploymentPlan
    memory: Verdict
    fabric: Fabric
    network: NetworkStats
    optimality: Optimality
    collectives: tuple[Taken, ...]
    stand_ins: tuple[str, ...]
    speeds: tuple[float, ...]
    iterations: Iterations


def _unwatched(_: int) -> None:
    """Nobody wants to know."""


def run(
    experiment: Experiment,
    begins: Callable[[int], None] = _unwatched,
    plans: Callable[[bool], None] = _unwatched,
    progress: Callable[[int, int, str], None] = unheard,
) -> Result:
    """The iterations of the experiment's scenario.

    Args:
        begins: Is told the number of each iteration, from 0, before it is simulated; the one with the median time is
            simulated again if it is not the last.
        plans: Is told True before the planner begins, and False once it has its plan.
        progress: Is told how far the planner is: see ``Site``.

    Raises:
        SpecError: The input is contradictory.
        DoesNotFitError: A rank lacks memory, and ``memory`` is ``enforce``.
        PlanError: A planner, schedule or strategy broke its contract.
    """
    scenario = experiment.scenario
    site = _site(experiment, progress)
    found = _planned(experiment, site, plans)
    deployment, memory = found.deployment, found.memory
    if experiment.memory == "enforce" and not memory.fits:
        raise DoesNotFitError(memory.text)
    collective = Noted(experiment.collective)
    compute = Timed(experiment.compute)
    lowered = _lowered(experiment, deployment, site, collective, compute)
    estimate_ps = experiment.estimate.time_ps(scenario, deployment, site)
    iterations, median = simulated(experiment, lowered, site.fabric, begins)
    workload, timeline, fabric = median.workload, median.timeline, median.fabric
    accounts, stats = account(workload, timeline), median.network.stats()
    exchanges, collectives = optimality(workload, median.network), collective.taken()
    stand_ins = (*fallbacks(scenario, accounts.ranks.tolist(), collectives), *compute.doubts())
    others = (memory, stand_ins, iterations, estimate_ps, deployment)
    return Result(
        metrics=measure(scenario, accounts, fabric, stats, exchanges, *others),
        account=accounts,
        timeline=timeline,
        workload=workload,
        deployment=deployment,
        memory=memory,
        fabric=fabric,
        network=stats,
        optimality=exchanges,
        collectives=collectives,
        stand_ins=stand_ins,
        speeds=median.speeds,
        iterations=iterations,
    )


@dataclass(frozen=True, slots=True)
class Planned:
    """A deployment with its ends, and what its ranks need: all that is known before it is simulated."""

    deployment: DeploymentPlan
    memory: Verdict


def planned(
    experiment: Experiment,
    plans: Callable[[bool], None] = _unwatched,
    progress: Callable[[int, int, str], None] = unheard,
) -> Planned:
    """What ``run`` would simulate, whether it fits or not; ``plans`` and ``progress`` as there.

    Raises:
        SpecError: As ``run``.
    """
    return _planned(experiment, _site(experiment, progress), plans)


def site_of(experiment: Experiment) -> PlannerSite:
    """What its planner may ask."""
    return _site(experiment, unheard)


def _site(experiment: Experiment, progress: Callable[[int, int, str], None]) -> _Site:
    scenario = experiment.scenario
    return _Site(experiment, experiment.topology.build(scenario.cluster), scenario.dtype_bytes, progress)


def _planned(experiment: Experiment, site: _Site, plans: Callable[[bool], None]) -> Planned:
    scenario = experiment.scenario
    plans(True)
    try:
        plan = experiment.planner.plan(scenario, site)
    except SpecError as error:
        raise _of_batch(error, scenario.batch) from None
    plans(False)
    deployment = check_deployment(plan, scenario)
    try:
        check_recompute(scenario, deployment)
        return Planned(deployment, deployment_memory(scenario, deployment, experiment.schedule.order))
    except SpecError as error:
        raise error if plan is scenario.deployment else _of_planner(error, experiment.planner) from None


def _of_batch(error: SpecError, batch: int) -> SpecError:
    """What is wrong with micro-batches that nobody wrote, by the batch that was asked for."""
    if not error.field.startswith("replicas["):
        return error
    return SpecError("batch", batch, error.problem, "lower it, or ask for larger micro-batches")


def _of_planner(error: SpecError, planner: Planner) -> SpecError:
    """What is wrong with a deployment that nobody wrote, by the option of the planner that made it so."""
    last = error.field.rpartition(".")[2]
    option = {"layers": "chunks", "stages": "pp", "operator": "recompute"}.get(last, last)
    if not hasattr(planner, option):
        return SpecError(f"planner: {error.field}", error.value, error.problem, error.fix)
    return SpecError(f"planner.{option}", getattr(planner, option), error.problem, error.fix)


def _lowered(
    experiment: Experiment, deployment: DeploymentPlan, site: _Site, collective: Noted, compute: Timed
) -> Lowered:
    lowered = lower(
        experiment.scenario,
        deployment,
        schedule=experiment.schedule,
        reshard=experiment.reshard,
        collective=collective,
        compute=compute,
        site=site,
        gradient_site=replace(site, element_bytes=experiment.scenario.gradient_dtype_bytes),
        verify=experiment.verify,
    )
    shapes = {
        (len(replica.stages), replica.micro_batches, len(replica.stages[0].layers)) for replica in deployment.replicas
    }
    for stages, micro_batches, chunks in sorted(shapes):
        orders = [experiment.schedule.order(stage, stages, micro_batches, chunks) for stage in range(stages)]
        walk(orders, micro_batches, chunks)
    return lowered


@dataclass(frozen=True, slots=True)
class _Site(Members):
    """What the members of the families may ask."""

    experiment: Experiment
    fabric: Fabric
    element_bytes: int
    heard: Callable[[int, int, str], None] = unheard

    def progress(self, done: int, of: int, what: str) -> None:
        self.heard(done, of, what)

    @property
    def compute(self) -> ComputeModel:
        return self.experiment.compute

    @property
    def algorithm(self) -> CollectiveAlgorithm:
        return self.experiment.collective

    @property
    def strategy(self) -> Reshard:
        return self.experiment.reshard

    @property
    def schedule(self) -> Schedule:
        return self.experiment.schedule

    def device(self, rank: int) -> DeviceSpec:
        return rank_devices(self.experiment.scenario.cluster)[rank]

    def price(self, plan: CommPlan, element_bytes: int = 1) -> int:
        graph = lower_comm(
            plan,
            [plan.participants()],
            collective=self.experiment.collective,
            site=replace(self, element_bytes=element_bytes),
        )
        return self.experiment.network.open(self.fabric, self.experiment.seed).solo(graph)

    def fair_ps(self, graph: TransferGraph) -> int:
        fair: NetworkBackend = build("network", {"name": "flow"})
        return fair.open(self.fabric, self.experiment.seed).solo(in_bytes(graph, self.element_bytes))

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        given, silent = build("planner", {"name": "given"}), build("noise", {"name": "none"})
        unasked = build("estimate", {"name": "none"})
        scenario = replace(self.experiment.scenario, deployment=deployment)
        usual = replace(self.experiment, noise=silent, iterations=1, planner=given, estimate=unasked, memory="report")
        result = run(replace(usual, scenario=scenario))
        return Estimate(training_time_ps=result.timeline.makespan_ps, fits=result.memory.fits)

    def lowered(self, deployment: DeploymentPlan, cluster: ClusterSpec) -> Elsewhere:
        scenario = replace(self.experiment.scenario, cluster=cluster, deployment=None)
        experiment = replace(self.experiment, scenario=scenario)
        site = _Site(experiment, experiment.topology.build(cluster), self.element_bytes)
        fair: NetworkBackend = build("network", {"name": "flow"})
        lowered = _lowered(experiment, deployment, site, Noted(experiment.collective), Timed(experiment.compute))
        return Elsewhere(lowered.workload, fair.open(site.fabric, experiment.seed).solo)
