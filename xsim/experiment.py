"""The whole program: scenario, deployment, workload, timeline, metrics.

``run(experiment)`` is a function of its argument: same experiment, same result, to the picosecond.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from xsim.account import Account, account
from xsim.errors import SpecError, XsimError
from xsim.fabric.fabric import Fabric, Topology
from xsim.fabric.transfers import TransferGraph
from xsim.fallbacks import fallbacks
from xsim.families import Members, build
from xsim.metrics import Metrics, measure
from xsim.optimality import Optimality, optimality
from xsim.plan.comm import CommPlan, in_bytes
from xsim.plan.contracts import (
    CollectiveAlgorithm,
    ComputeModel,
    Estimate,
    Estimator,
    Lowered,
    Planner,
    Reshard,
    Schedule,
)
from xsim.plan.lower import lower, lower_comm
from xsim.plan.memory import Verdict, deployment_memory
from xsim.plan.noted import Noted, Taken
from xsim.plan.recompute import check_recompute
from xsim.plan.walk import walk
from xsim.plan.workload import Workload
from xsim.sim.contracts import Background, Fault, NetworkBackend, NetworkStats
from xsim.sim.executor import execute
from xsim.sim.timeline import Timeline
from xsim.spec.cluster import ClusterSpec, DeviceSpec, rank_devices
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario, check_deployment

__all__ = ["DoesNotFitError", "Experiment", "Result", "run"]


class DoesNotFitError(XsimError):
    """Some rank needs more memory than its device has; the message names it, the shortfall and a way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A scenario and one member of every family: all that a result depends on.

    Attributes:
        seed: For backends and background traffic that draw random numbers.
        faults: Links that fail during the run; they work while collectives and deployments are priced.
        memory: ``enforce`` raises ``DoesNotFitError`` before simulating, ``report`` simulates all the same.
        verify: Let the judge prove every communication plan, its transfers, and every collective of the run.
        fold: False walks every action step by step: slower, and no number may change.
    """

    scenario: Scenario
    planner: Planner = field(default_factory=partial(build, "planner", {"name": "given"}))
    reshard: Reshard = field(default_factory=partial(build, "reshard", {"name": "lcm"}))
    collective: CollectiveAlgorithm = field(default_factory=partial(build, "collective", {"name": "ring"}))
    schedule: Schedule = field(default_factory=partial(build, "schedule", {"name": "one_f_one_b"}))
    compute: ComputeModel = field(default_factory=partial(build, "compute", {"name": "roofline"}))
    topology: Topology = field(default_factory=partial(build, "topology", {"name": "clos"}))
    network: NetworkBackend = field(default_factory=partial(build, "network", {"name": "flow"}))
    background: Background = field(default_factory=partial(build, "background", {"name": "none"}))
    estimate: Estimator = field(default_factory=partial(build, "estimate", {"name": "none"}))
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    memory: Literal["enforce", "report"] = "enforce"
    verify: bool = False
    fold: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came out, and all that explains it."""

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


def run(experiment: Experiment) -> Result:
    """One iteration of the experiment's scenario.

    Raises:
        SpecError: The input is contradictory.
        DoesNotFitError: A rank lacks memory, and ``memory`` is ``enforce``.
        PlanError: A planner, schedule or strategy broke its contract.
    """
    scenario = experiment.scenario
    site = _Site(experiment, experiment.topology.build(scenario.cluster), scenario.dtype_bytes)
    plan = experiment.planner.plan(scenario, site)
    deployment = check_deployment(plan, scenario)
    try:
        check_recompute(scenario, deployment)
        memory = deployment_memory(scenario, deployment, experiment.schedule.order)
    except SpecError as error:
        raise error if plan is scenario.deployment else _of_planner(error, experiment.planner) from None
    if experiment.memory == "enforce" and not memory.fits:
        raise DoesNotFitError(memory.text)
    collective = Noted(experiment.collective)
    workload = _workload(experiment, deployment, site, collective)
    network = experiment.network.open(site.fabric, experiment.seed, experiment.faults)
    background = experiment.background.traffic(site.fabric, experiment.seed)
    timeline = execute(workload, network, site.fabric, fold=experiment.fold, background=background)
    accounts, stats = account(workload, timeline), network.stats()
    exchanges, collectives = optimality(workload, network), collective.taken()
    stand_ins = fallbacks(scenario, accounts.ranks.tolist(), collectives)
    estimate_ps = experiment.estimate.time_ps(scenario, deployment, site)
    return Result(
        metrics=measure(scenario, accounts, site.fabric, stats, exchanges, memory, stand_ins, estimate_ps),
        account=accounts,
        timeline=timeline,
        workload=workload,
        deployment=deployment,
        memory=memory,
        fabric=site.fabric,
        network=stats,
        optimality=exchanges,
        collectives=collectives,
    )


def _of_planner(error: SpecError, planner: Planner) -> SpecError:
    """What is wrong with a deployment that nobody wrote, by the option of the planner that made it so."""
    last = error.field.rpartition(".")[2]
    option = {"layers": "chunks", "stages": "pp", "operator": "recompute"}.get(last, last)
    if not hasattr(planner, option):
        return SpecError(f"planner: {error.field}", error.value, error.problem, error.fix)
    return SpecError(f"planner.{option}", getattr(planner, option), error.problem, error.fix)


def _workload(experiment: Experiment, deployment: DeploymentPlan, site: _Site, collective: Noted) -> Workload:
    workload = lower(
        experiment.scenario,
        deployment,
        schedule=experiment.schedule,
        reshard=experiment.reshard,
        collective=collective,
        compute=experiment.compute,
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
    return workload


@dataclass(frozen=True, slots=True)
class _Site(Members):
    """What the members of the families may ask."""

    experiment: Experiment
    fabric: Fabric
    element_bytes: int

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
        given, unasked = build("planner", {"name": "given"}), build("estimate", {"name": "none"})
        scenario = replace(self.experiment.scenario, deployment=deployment)
        result = run(replace(self.experiment, scenario=scenario, planner=given, memory="report", estimate=unasked))
        return Estimate(training_time_ps=result.timeline.makespan_ps, fits=result.memory.fits)

    def lowered(self, deployment: DeploymentPlan, cluster: ClusterSpec) -> Lowered:
        scenario = replace(self.experiment.scenario, cluster=cluster, deployment=None)
        experiment = replace(self.experiment, scenario=scenario)
        site = _Site(experiment, experiment.topology.build(cluster), self.element_bytes)
        fair: NetworkBackend = build("network", {"name": "flow"})
        workload = _workload(experiment, deployment, site, Noted(experiment.collective))
        return Lowered(workload, fair.open(site.fabric, experiment.seed).solo)
