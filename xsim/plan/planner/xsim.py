"""Ours: the best plan by an exact balance of layers and data, proven on small clusters, and judged by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from xsim.errors import NoSeatError, SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.kinds import Sketch
from xsim.plan.memory import deployment_memory
from xsim.plan.search.course import course_ps
from xsim.plan.search.exact import Proof, small_enough
from xsim.plan.search.hunt import Hunt
from xsim.plan.search.orders import Space
from xsim.plan.search.others import plans_of_others
from xsim.plan.search.price import fits
from xsim.plan.search.relaxed import bound_ps
from xsim.plan.search.shortage import nothing_fits, nothing_holds
from xsim.plan.search.survivors import check_lost, place_without
from xsim.plan.search.tables import tables
from xsim.plan.search.worth import Objective, Worth, front, worth
from xsim.plan.sketch import check_uncut, sketch_of
from xsim.spec.checks import MOST_TRIES, at_least, at_most
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Xsim"]

SURELY = 2  # plans of others that are simulated whatever their price
RANKED = 24  # plans besides those that are simulated
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
        budget: Knapsacks and prices after which the best plan so far is taken; 0: no limit.
        lost: Ranks that have failed, and are not used.
        others: Planners whose plans compete too, the best two of them by simulation, unless ``top`` is 0 or devices are
            lost; they search what is left out here, such as copies of a stage on unlike devices.
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
    others: tuple[str, ...] = ("hexiscale", "malleus", "metis", "sailor", "uniform")
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
        if self.objective not in OBJECTIVES:
            fix = f"choose one of {', '.join(OBJECTIVES)}"
            raise SpecError("objective", self.objective, "it is unknown", fix)

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        try:
            check_lost(self.lost, scenario.cluster)
        except SpecError as error:
            raise error.under("planner") from None
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
        rivals = self._rivals(scenario, site, hunt)
        if self.objective == "time" and self.proof and small_enough(hunt, self.proof):
            Proof.of(hunt, self.proof).search()
        elif self.objective != "time":
            devices = [kind.device for kind in own.kinds]
            for rates in ([d.price_usd_per_hour for d in devices], [d.power_w for d in devices], [1.0] * len(devices)):
                hunt.thrifty(rates)
        if not hunt.found:
            devices = [kind.device for kind in own.kinds for _ in range(kind.count)]
            raise nothing_fits("xsim", scenario.batch, devices, nothing_holds(scenario, hunt.listed()))
        return self._judged(scenario, site, hunt, kept, rivals)

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
        sketch = sketch_of(given, scenario)
        if fits(sketch, hunt.tables):
            hunt.price(sketch)
        return sketch

    def _rivals(self, scenario: Scenario, site: PlannerSite, hunt: Hunt) -> list[Sketch]:
        """What the ``others`` find and the tables can price, the best by what it takes action by action first."""
        if not self.top or self.lost:
            return []
        found = [
            sketch
            for sketch in plans_of_others(self.others, scenario, site)
            if not sketch.zero and fits(sketch, hunt.tables)
        ]
        for sketch in found:
            hunt.price(sketch)
        order = site.schedule.order
        return sorted(dict.fromkeys(found), key=lambda sketch: (course_ps(sketch, hunt.tables, order), repr(sketch)))

    def _judged(
        self, scenario: Scenario, site: PlannerSite, hunt: Hunt, kept: Sketch | None, rivals: Sequence[Sketch]
    ) -> DeploymentPlan:
        """The best of the first few that there is room for, simulated if that is asked for; of equals ``kept``."""
        each = [(sketch, worth(sketch, priced, hunt.tables)) for sketch, priced in hunt.found.items()]
        if self.objective == "pareto":
            return self._on_front(scenario, site, hunt, each, kept)
        priced = sorted(each, key=lambda entry: (entry[1].of(self.objective), entry[0] != kept, repr(entry[0])))
        ranked, most = priced, self.top
        if self.top:
            surely = (kept, *rivals[:SURELY])
            first = sorted((entry for entry in priced if entry[0] in surely), key=lambda entry: entry[0] != kept)
            others = [entry for entry in priced if entry[0] not in surely]
            ranked, most = first + self._ranked(hunt, site, others), self.top + len(first)
        placed = self._placed(scenario, site, hunt, ranked, kept)
        best: tuple[float, DeploymentPlan] | None = None
        for number, (plan, own) in enumerate(placed):
            if not self.top:
                return plan
            if number == most:
                break
            site.progress(number, most, "plans simulated")
            found = own.taking(site.simulate(plan).training_time_ps).of(self.objective)
            if best is None or found < best[0]:
                best = (found, plan)
        if best is None:
            problem = "no plan that was found has room in the hosts for its groups and memory for its stages"
            raise SpecError("planner", "xsim", problem, "add devices or memory, or raise stages")
        return best[1]

    def _ranked(self, hunt: Hunt, site: PlannerSite, each: list[tuple[Sketch, Worth]]) -> list[tuple[Sketch, Worth]]:
        """The first by price, ordered by what they take action by action."""
        near = each[: RANKED + self.top]
        order = site.schedule.order
        times = [own.taking(course_ps(sketch, hunt.tables, order)).of(self.objective) for sketch, own in near]
        return [near[i] for i in sorted(range(len(near)), key=lambda i: (times[i], i))]

    def _on_front(
        self, scenario: Scenario, site: PlannerSite, hunt: Hunt, each: list[tuple[Sketch, Worth]], kept: Sketch | None
    ) -> DeploymentPlan:
        placed = list(self._placed(scenario, site, hunt, each, kept))
        best = front([own for _, own in placed])
        if self.point >= len(best):
            problem = f"the Pareto set has {len(best)} plans"
            raise SpecError("planner.point", self.point, problem, f"write 0 to {len(best) - 1}")
        return placed[best[self.point]][0]

    def _placed(
        self, scenario: Scenario, site: PlannerSite, hunt: Hunt, each: list[tuple[Sketch, Worth]], kept: Sketch | None
    ) -> Iterator[tuple[DeploymentPlan, Worth]]:
        """Those that have seats and memory, as deployments; ``kept`` as the scenario has it."""
        name = self._naming(hunt)
        for sketch, own in each:
            if sketch == kept and scenario.deployment is not None:
                plan = replace(scenario.deployment, predicted_ps=own.time_ps)
            else:
                named = replace(sketch, name=name(own.time_ps), source="xsim", predicted_ps=own.time_ps)
                try:
                    plan = place_without(named, scenario, self.lost)
                except NoSeatError:
                    continue  # hosts have no seats for groups of these sizes together
            if deployment_memory(scenario, plan, site.schedule.order).fits:
                yield plan, own

    def _naming(self, hunt: Hunt) -> Callable[[int], str]:
        """What the search says of a plan by its price: how far it is from the bound, and whether it was cut short."""
        if hunt.truncated:
            return lambda _: "xsim, cut short by its budget"
        if self.objective == "pareto":
            return lambda _: "xsim, one of the Pareto set by price"
        if self.objective != "time" or hunt.best is None:
            return lambda _: f"xsim by {self.objective}"
        best_ps = hunt.best.time_ps
        counts = [kind.count for kind in hunt.tables.kinds]
        least_ps = best_ps if hunt.proven else bound_ps(hunt.listed(), counts, hunt.tables.batch, hunt.caps(), best_ps)

        def name(time_ps: int) -> str:
            if hunt.proven and time_ps == best_ps:
                return "xsim, proven best by price"
            above = 100 * (time_ps / max(least_ps, 1) - 1)
            return f"xsim, by price at most {max(above, 0.0):.1f} % above the bound"

        return name
