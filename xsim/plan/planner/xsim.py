"""Ours: the best plan by an exact balance of layers and data, proven on small clusters, and judged by simulation."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.forms import plain
from xsim.plan.kinds import Sketch
from xsim.plan.search.exact import Proof, small_enough
from xsim.plan.search.hunt import Hunt
from xsim.plan.search.orders import Space
from xsim.plan.search.others import asked_planners, check_others, rivals
from xsim.plan.search.price import fits
from xsim.plan.search.refinement import Refinement
from xsim.plan.search.shortage import nothing_fits, nothing_holds
from xsim.plan.search.survivors import check_lost
from xsim.plan.search.tables import tables
from xsim.plan.search.trials import Trials
from xsim.plan.search.worth import Objective, check_objective
from xsim.plan.sketch import check_uncut, sketch_of
from xsim.spec.checks import MOST_TRIES, at_least, at_most
from xsim.spec.cluster import rank_devices
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Xsim"]

OBJECTIVES = ("time", "cost", "energy", "pareto")


@dataclass(frozen=True, slots=True)
class Xsim:
    """Groups unlike devices to pipelines, cuts the layers and deals out the batch, all at once.

    Layers are cut so that the slowest stage is as fast as memory lets it be, where need be with operators computed
    again; a knapsack finds the pipelines that get the batch done soonest, each with a local batch of its own, and may
    leave devices idle; this for many caps on what a stage has to sum, since gradients are summed at the end. The name
    of the plan says how far its price is from a bound that no plan of these pipelines beats. ``docs/planner_xsim.md``
    has the method.

    Attributes:
        objective: ``time`` of an iteration, ``cost`` by hourly prices of the devices used, ``energy``, or ``pareto``:
            plans that no other beats in all three.
        point: Which plan of the Pareto set, the fastest first, from 0.
        top: How many are simulated, the best of which is taken: the first of those with the best prices, ordered by
            what they take action by action; 0 goes by the price alone.
        stages: Most stages of a pipeline.
        width: Most data-parallel copies of a stage inside a pipeline, a power of two, as all that are tried.
        micro_batch: Most samples that a copy takes at once, a power of two, as all that are tried.
        recompute: Let stages that do not fit compute operators again.
        sequence_parallel: Cut activations between operators over the sequence.
        proof: Cut pipelines that may be listed to prove a small cluster's plan best, and sets of them that may be
            looked at, a price counting as 20; 0: no proof.
        budget: Knapsacks, prices and steps of the ``others`` after which the best plan so far is taken; 0: no limit.
        lost: Ranks that have failed, and are not used.
        others: Planners whose plans compete too, each by simulation, those that shard states if they come near,
            unless ``top`` is 0 or devices are lost; they search what is left out here, such as unlike copies.
        warm_start: Begin with the scenario's own deployment, which stays unless there is better; simulated besides
            the ``top``.
    """

    objective: Objective = "time"
    point: int = 0
    top: int = 6
    stages: int = 16
    width: int = 4
    micro_batch: int = 8
    recompute: bool = True
    sequence_parallel: bool = False
    proof: int = 20_000
    budget: int = 0
    lost: tuple[int, ...] = ()
    others: tuple[str, ...] = ("cephalo", "eth", "hexiscale", "malleus", "metis", "sailor", "uniform")
    warm_start: bool = False

    def __post_init__(self) -> None:
        for name in ("point", "top", "proof", "budget"):
            at_least(self, name, 0)
        for name in ("proof", "budget"):
            at_most(self, name, MOST_TRIES)
        if self.point and self.objective != "pareto":
            fix = "leave it out, or write objective: pareto"
            raise SpecError("point", self.point, f"objective: {self.objective} has one best plan", fix)
        for name in ("stages", "width", "micro_batch"):
            at_least(self, name, 1)
        for name in ("width", "micro_batch"):
            value = getattr(self, name)
            if value & (value - 1):
                below = 1 << value.bit_length() - 1
                problem = "powers of two are tried"
                raise SpecError(name, value, problem, f"write {below} or {2 * below}")
        check_others(self.others)
        if self.objective not in OBJECTIVES:
            fix = f"choose one of {', '.join(OBJECTIVES)}"
            raise SpecError("objective", self.objective, "it is unknown", fix)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        try:
            check_lost(self.lost, scenario.cluster)
            check_objective(self.objective, rank_devices(scenario.cluster))
        except SpecError as error:
            raise error.under("planner") from None
        asked = asked_planners(self.others if self.top and not self.lost else (), site)
        own = tables(
            scenario,
            site,
            sequence_parallel=self.sequence_parallel,
            lost=self.lost,
            largest_copy=self.micro_batch,
        )
        space = Space(stages=self.stages, width=self.width, micro_batch=self.micro_batch)
        hunt = Hunt(
            own,
            space,
            recompute=self.recompute,
            budget=self.budget,
            progress=lambda done, of: site.progress(done, of, "caps of the search"),
        )
        kept = self._given(scenario, hunt)
        hunt.look()
        trials = Trials(
            scenario,
            site,
            Refinement(hunt, site.schedule.order, lambda done, of: site.progress(done, of, "rounds near the best")),
            self.objective,
            self.lost,
            kept,
            rivals(asked, scenario, site, hunt),
        )
        if self.top:
            trials.refined.search()
        if self.objective == "time" and self.proof and small_enough(hunt, self.proof):
            Proof.of(hunt, self.proof).search()
        elif self.objective != "time":
            devices = [kind.device for kind in own.kinds]
            for rates in ([d.price_usd_per_hour for d in devices], [d.power_w for d in devices], [1.0] * len(devices)):
                hunt.thrifty(rates)
        if not (hunt.found or trials.rivals.sharded or trials.rivals.cut):
            devices = [kind.device for kind in own.kinds for _ in range(kind.count)]
            raise nothing_fits("xsim", scenario, devices, nothing_holds(scenario, hunt.listed()))
        if self.objective == "pareto":
            return trials.on_front(self.point)
        return trials.fastest(self.top) if self.top else trials.first()

    def _given(self, scenario: Scenario, hunt: Hunt) -> Sketch | None:
        """The scenario's own deployment as the plan to beat, if that is asked for."""
        if not self.warm_start:
            return None
        given = scenario.deployment
        if given is None:
            problem = "there is no deployment to begin with"
            raise SpecError("planner.warm_start", True, problem, "name a deployment, or write false")
        gone = sorted({rank for _, group in given.groups() for rank in group.ranks} & set(self.lost))
        if gone:
            problem = f"the deployment uses rank {gone[0]}, which is lost"
            raise SpecError("planner.warm_start", True, problem, "write false, or choose planner=repair")
        for number in range(len(given.replicas)):
            check_uncut(given, number)
        sketch = plain(sketch_of(given, scenario), scenario.model.layers)
        if fits(sketch, hunt.tables):
            hunt.price(sketch)
        return sketch
