"""From the plans that a search has found to the one that is taken: the first by price, or the best by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from xsim.errors import NoSeatError, SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.kinds import Sketch
from xsim.plan.memory import shortfall
from xsim.plan.search.contracts import NEVER_PS
from xsim.plan.search.course import course_ps
from xsim.plan.search.others import Rivals
from xsim.plan.search.price import Priced
from xsim.plan.search.refinement import Refinement
from xsim.plan.search.relaxed import bound_ps
from xsim.plan.search.survivors import place_without, seatings
from xsim.plan.search.worth import Objective, Worth, front, worth
from xsim.plan.sketch import sketch_of
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Trials"]

# What another value does to the simulated time of the plan that is taken: as in ``xsim.plan.search.refinement``.
SEATED = 4  # times as many plans are run on their ranks as are simulated; 1: 0.1 % more; 8: no change
NEARLY = 1.05  # of the best seating of a plan, up to which others are simulated too; 1 and 1.2 change nothing
PASSES = 4_000_000  # that are simulated in all, which takes minutes: less than all plans only for batches above 4096
NEAR = 1.25  # of the best by price: plans that share out states are simulated up to this
Each = list[tuple[Sketch, Worth]]
Timed = tuple[int, DeploymentPlan, Worth]  # with what it takes action by action on its ranks


@dataclass(frozen=True, slots=True)
class Trials:
    """Plans, and who judges them.

    Attributes:
        lost: Ranks that are not there.
        kept: The scenario's own deployment, which stays unless another is better.
        rivals: What other planners found.
    """

    scenario: Scenario
    site: PlannerSite
    refined: Refinement
    objective: Objective
    lost: tuple[int, ...]
    kept: Sketch | None
    rivals: Rivals

    def first(self) -> DeploymentPlan:
        """The best by price for which there is room.

        Raises:
            SpecError: There is none.
        """
        plans = next((plans for plans, _ in self._placed(self._by_price(), self._naming())), None)
        return self._found(plans[0] if plans else None)

    def fastest(self, top: int) -> DeploymentPlan:
        """The best by simulation of so many by what they take action by action, of ``kept``, and of what others found.

        Raises:
            SpecError: There is room for none.
        """
        best: tuple[float, DeploymentPlan] | None = None
        every = self._chosen(self._by_price(), top)
        chosen = _affordable(every, first=self.kept is not None)
        left = PASSES - sum(plan.passes for _, plan, _ in chosen)
        if len(every) > len(chosen) == 1:  # nothing to compare it with, and it would take minutes
            return chosen[0][1]
        for number, (_, plan, own) in enumerate(chosen):
            self.site.progress(number, len(chosen), "plans simulated")
            found = own.taking(self.site.simulate(plan).training_time_ps).of(self.objective)
            if best is None or found < best[0]:
                best = (found, plan)
        for plan, own in self._whole():
            if plan.passes > left:
                continue
            left -= plan.passes
            found = own.taking(self.site.simulate(plan).training_time_ps).of(self.objective)
            if best is None or found < best[0]:
                best = (found, replace(plan, name=f"xsim, {plan.name}"))
        return self._found(best and best[1])

    def _whole(self) -> Iterator[tuple[DeploymentPlan, Worth]]:
        """Plans of others that are simulated as they are: cut over contexts or experts, or with states shared out.

        Of the latter those whose makers think that they come near the best. What the former cost is not known.
        """
        tables, prices = self.refined.hunt.tables, self.refined.hunt.found.values()
        least_ps = min((own.iteration_ps for own in prices), default=NEVER_PS)
        for sketch, plan in self.rivals.sharded:
            own = worth(sketch, Priced(plan.predicted_ps or least_ps, (), 0, 0), tables)
            if own.time_ps <= NEAR * least_ps:
                yield plan, own
        for plan in self.rivals.cut if self.objective == "time" else ():
            yield plan, Worth(0, 0.0, 0.0)

    def _chosen(self, each: Each, top: int) -> list[Timed]:
        """What is simulated: of each plan the seatings that are nearly its best."""
        surely, name = self._surely(), self._naming()
        first = self._placed(sorted((e for e in each if e[0] in surely), key=lambda e: e[0] != self.kept), name)
        ranked = self._placed(self._ranked([entry for entry in each if entry[0] not in surely]), name)
        seated = [(own, self._seated(plans)) for plans, own in islice(ranked, SEATED * top)]
        least = min((own.of(self.objective) for own, _ in seated), default=0)
        seated.sort(key=lambda e: (e[0].of(self.objective) > least, e[0].taking(e[1][0][0]).of(self.objective)))
        found = [*((own, self._seated(plans)) for plans, own in first), *seated[:top]]
        return [
            (time_ps, plan, own) for own, timed in found for time_ps, plan in timed if time_ps <= NEARLY * timed[0][0]
        ]

    def _seated(self, plans: Iterable[DeploymentPlan]) -> list[tuple[int, DeploymentPlan]]:
        """What each takes action by action on its ranks, the least first."""
        tables, order = self.refined.hunt.tables, self.site.schedule.order
        timed = [(course_ps(sketch_of(plan, self.scenario), tables, order), plan) for plan in plans]
        return sorted(timed, key=lambda entry: entry[0])

    def on_front(self, point: int) -> DeploymentPlan:
        """One of the plans that no other beats by price, the fastest first.

        Raises:
            SpecError: There are not so many.
        """
        placed = list(self._placed(self._by_price(), self._naming()))
        best = front([own for _, own in placed])
        if point >= len(best):
            problem = f"the Pareto set has {len(best)} plans"
            raise SpecError("planner.point", point, problem, f"write 0 to {len(best) - 1}")
        return placed[best[point]][0][0]

    def _found(self, plan: DeploymentPlan | None) -> DeploymentPlan:
        if plan is None:
            with suppress(NoSeatError):
                for sketch, _ in self._by_price()[:1]:
                    place_without(sketch, self.scenario, self.lost)  # tells that it is too long, if that is why
            problem = "no plan that was found has room in the hosts for its groups and memory for its stages"
            raise SpecError("planner", "xsim", problem, "add devices or memory, or raise stages")
        return plan

    def _by_price(self) -> Each:
        hunt = self.refined.hunt
        each = [(sketch, worth(sketch, own, hunt.tables)) for sketch, own in hunt.found.items()]
        return sorted(each, key=lambda entry: (entry[1].of(self.objective), entry[0] != self.kept, repr(entry[0])))

    def _surely(self) -> list[Sketch]:
        """What is simulated whatever others take: what is to be kept, and what others found.

        So no plan of others crowds out another, nor one that is found here.
        """
        return [*([self.kept] if self.kept else []), *self.rivals.placed]

    def _ranked(self, each: Each) -> Each:
        """The best by price, and then by what they take action by action; of those with equal pipelines the first."""
        self.refined.best(0)  # runs the first by price
        run = [(sketch, own) for sketch, own in each if sketch in self.refined.times]
        time = self.refined.times
        order = run[:1] + sorted(run[1:], key=lambda entry: entry[1].taking(time[entry[0]]).of(self.objective))
        found: dict[tuple[str, ...], tuple[Sketch, Worth]] = {}
        for sketch, own in order:
            found.setdefault(_but_for_shares(sketch), (sketch, own))
        return list(found.values())

    def _placed(
        self, each: Iterable[tuple[Sketch, Worth]], name: Callable[[int], str]
    ) -> Iterator[tuple[list[DeploymentPlan], Worth]]:
        """Those that have seats and memory, in all their seatings; ``kept`` as the scenario has it."""
        order = self.site.schedule.order
        for sketch, own in each:
            given = self.scenario.deployment
            if sketch == self.kept and given is not None:
                seated = [replace(given, predicted_ps=own.time_ps)]
            else:
                bare, *others = (
                    replace(same, name=name(own.time_ps), source="xsim", predicted_ps=own.time_ps)
                    for same in (sketch, *self.rivals.placed.get(sketch, ()))
                )
                seated = list(seatings(bare, self.scenario, self.lost, others))
            fit = [plan for plan in seated if not shortfall(self.scenario, plan, order)[1]]
            if fit:
                yield fit, own

    def _naming(self) -> Callable[[int], str]:
        """What the search says of a plan by its price: how far it is from the bound, and whether it was cut short."""
        hunt = self.refined.hunt
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
            if time_ps < least_ps:
                return "xsim, by price below the bound of the orders that it lists"
            return f"xsim, by price at most {100 * (time_ps / max(least_ps, 1) - 1):.1f} % above the bound"

        return name


def _affordable(chosen: list[Timed], *, first: bool) -> list[Timed]:
    """All, or as many as can be simulated of those that are fastest action by action, but one at least.

    Args:
        first: The first counts before all others: it is the plan to beat.
    """
    left, found = PASSES, set[int]()
    for number in sorted(range(len(chosen)), key=lambda number: (number > 0 or not first, chosen[number][0])):
        left -= chosen[number][1].passes
        if left < 0 and found:
            break
        found.add(number)
    return [chosen[number] for number in sorted(found)]


def _but_for_shares(sketch: Sketch) -> tuple[str, ...]:
    """Its pipelines, whatever each takes of the batch."""
    each = (repr((own.stages, own.micro_batch)) for own in sketch.pipelines for _ in range(own.count))
    return tuple(sorted(each))
