"""From the plans that a search has found to the one that is taken: the first by price, or the best by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
PASSES = 4_000_000  # that are simulated in all, which takes minutes: less than all plans only for batches above 10,000
NEAR = 1.25  # of the best by price: plans that share out states are simulated up to this
Each = list[tuple[Sketch, Worth]]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A plan to be simulated.

    Attributes:
        time_ps: What it takes action by action on its ranks, or as its maker thinks.
        worth: By price; nothing of a plan whose price is not known.
        name: Another than its own.
        kept: It is the plan to beat.
    """

    time_ps: int
    plan: DeploymentPlan
    worth: Worth
    name: str = ""
    kept: bool = False

    @property
    def thought(self) -> Worth:
        """What it is thought to be worth before it is simulated."""
        return self.worth.taking(self.time_ps)

    @property
    def named(self) -> DeploymentPlan:
        return replace(self.plan, name=self.name or self.plan.name)


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

        Of more than can be simulated, those are that are thought to be the best; the first of all, if it is too long,
        competes with what is thought of it.

        Raises:
            SpecError: There is room for none.
        """
        every = [*self._chosen(self._by_price(), top), *self._whole()]
        every.sort(key=lambda each: (not each.kept, each.thought.of(self.objective)))
        chosen = _affordable(every)
        if not chosen or (len(chosen) == 1 < len(every) and chosen == every[:1]):
            return self._found(every[0].named if every else None)  # it would take minutes, with nothing to compare
        timed = [(every[0].thought.of(self.objective), every[0])] if chosen[0] != every[0] else []
        for number, each in enumerate(chosen):
            self.site.progress(number, len(chosen), "plans simulated")
            own = each.worth.taking(self.site.simulate(each.plan).training_time_ps)
            timed.append((own.of(self.objective), each))
        return min(timed, key=lambda entry: entry[0])[1].named

    def _whole(self) -> Iterator[_Candidate]:
        """Plans of others that fit, and are simulated as they are: cut over contexts or experts, or with states shared.

        Of the latter those whose makers think that they come near the best. What the former cost is not known.
        """
        tables, prices = self.refined.hunt.tables, self.refined.hunt.found.values()
        least_ps = min((own.iteration_ps for own in prices), default=NEVER_PS)
        for sketch, plan in self.rivals.sharded:
            own = worth(sketch, Priced(plan.predicted_ps or least_ps, (), 0, 0), tables)
            if own.time_ps <= NEAR * least_ps and self._fits(plan):
                yield _Candidate(own.time_ps, plan, own, f"xsim, {plan.name}")
        for plan in self.rivals.cut if self.objective == "time" else ():
            if self._fits(plan):
                yield _Candidate(plan.predicted_ps or NEVER_PS, plan, Worth(0, 0.0, 0.0), f"xsim, {plan.name}")

    def _fits(self, plan: DeploymentPlan) -> bool:
        return not shortfall(self.scenario, plan, self.site.schedule.order)[1]

    def _chosen(self, each: Each, top: int) -> list[_Candidate]:
        """What is simulated: of each plan the seatings that are nearly its best."""
        surely, name = self._surely(), self._naming()
        first = self._placed(sorted((e for e in each if e[0] in surely), key=lambda e: e[0] != self.kept), name)
        ranked = self._placed(self._ranked([entry for entry in each if entry[0] not in surely]), name)
        seated = [(own, self._seated(plans)) for plans, own in islice(ranked, SEATED * top)]
        least = min((own.of(self.objective) for own, _ in seated), default=0)
        seated.sort(key=lambda e: (e[0].of(self.objective) > least, e[0].taking(e[1][0][0]).of(self.objective)))
        found = [*((own, self._seated(plans)) for plans, own in first), *seated[:top]]
        return [
            _Candidate(time_ps, plan, own, kept=self._is_kept(plan))
            for own, timed in found
            for time_ps, plan in timed
            if time_ps <= NEARLY * timed[0][0]
        ]

    def _is_kept(self, plan: DeploymentPlan) -> bool:
        given = self.scenario.deployment
        return self.kept is not None and given is not None and plan.replicas == given.replicas

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
            fit = [plan for plan in seated if self._fits(plan)]
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


def _affordable(every: Sequence[_Candidate]) -> list[_Candidate]:
    """All, or as many as can be simulated, the first of them first."""
    left, found = PASSES, list[_Candidate]()
    for each in every:
        if each.plan.passes <= left:
            left -= each.plan.passes
            found.append(each)
    return found


def _but_for_shares(sketch: Sketch) -> tuple[str, ...]:
    """Its pipelines, whatever each takes of the batch."""
    each = (repr((own.stages, own.micro_batch)) for own in sketch.pipelines for _ in range(own.count))
    return tuple(sorted(each))
