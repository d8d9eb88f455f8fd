"""What other planners find, as plans to beat: they search what one's own search leaves out, such as unlike copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xsim.errors import NoPlanError, SpecError, TooLongError
from xsim.plan.contracts import Planner, PlannerSite
from xsim.plan.forms import plain, unplaced
from xsim.plan.kinds import Sketch
from xsim.plan.search.hunt import Hunt
from xsim.plan.search.price import fits
from xsim.plan.sketch import sketch_of
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Rivals", "asked_planners", "check_others", "rivals"]

OPTIONS: Mapping[str, Mapping[str, object]] = {
    "metis": {"evaluations": 5_000},
    "uniform": {"search": True, "cp": 0, "ep": 0},
}
NO_OTHERS: Mapping[str, tuple[str, str]] = {
    "xsim": ("it would ask itself", "leave it out"),
    "given": ("it has the scenario's own deployment", "leave it out; with warm_start: true that competes"),
    "repair": ("it has the scenario's own deployment", "leave it out, or choose planner=repair"),
}


@dataclass(frozen=True, slots=True)
class Rivals:
    """Plans of others.

    Attributes:
        placed: Of each plan the ranks on which others have it.
        sharded: Those that share out states, which tables cannot price, as their makers do: what they use, and they.
        cut: Those with groups over contexts or experts.
    """

    placed: Mapping[Sketch, Sequence[Sketch]] = field(default_factory=dict)
    sharded: Sequence[tuple[Sketch, DeploymentPlan]] = ()
    cut: Sequence[DeploymentPlan] = ()


class _EnoughError(Exception):
    """There is no budget left."""


@dataclass(frozen=True, slots=True)
class _Counting:
    """A site that counts what a search tells of its progress."""

    site: PlannerSite
    spend: Callable[[], bool]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.site, name)

    def progress(self, done: int, of: int, what: str) -> None:
        """Tell it on; ends the search where no budget is left."""
        if not self.spend():
            raise _EnoughError
        self.site.progress(done, of, what)


def check_others(names: Sequence[str]) -> None:
    """Refuse whom to ask makes no sense.

    Raises:
        SpecError: One would search once more what is searched here, has no plan of its own, or is named twice.
    """
    for name in names:
        if name in NO_OTHERS:
            problem, fix = NO_OTHERS[name]
            raise SpecError("others", name, problem, fix)
        if names.count(name) > 1:
            raise SpecError("others", name, "it is asked twice, and answers the same", "name it once")


def asked_planners(names: Sequence[str], site: PlannerSite) -> list[Planner]:
    """The planners ``names``; their searches are kept short: those of Metis end after fewer plans than usual.

    Raises:
        SpecError: There is no such planner.
    """
    found = []
    for name in names:
        try:
            found.append(site.planner(name, **OPTIONS.get(name, {})))
        except SpecError as error:
            if error.field != "planner":
                raise
            raise SpecError("planner.others", error.value, error.problem, error.fix) from None
    return found


def rivals(asked: Sequence[Planner], scenario: Scenario, site: PlannerSite, hunt: Hunt) -> Rivals:
    """What other planners would do, as far as it fits; ``hunt`` prices it, and counts their steps.

    Raises:
        SpecError: One does not serve what is asked.
    """
    placed, sharded, cut = dict[Sketch, list[Sketch]](), list[tuple[Sketch, DeploymentPlan]](), list[DeploymentPlan]()
    for plan in _plans(asked, scenario, site, hunt.spend):
        if any(stage.ep > 1 or stage.groups[0].cp > 1 for replica in plan.replicas for stage in replica.stages):
            cut.append(plan)
            continue
        sketch = plain(sketch_of(plan, scenario), scenario.model.layers)
        own = replace(sketch, name="", predicted_ps=None)
        bare = unplaced(own)
        if sketch.zero:
            sharded.append((bare, plan))
            continue
        if not fits(bare, hunt.tables):
            continue
        hunt.price(bare)
        placed.setdefault(bare, []).append(own)
    return Rivals(placed, sharded, cut)


def _plans(
    asked: Sequence[Planner], scenario: Scenario, site: PlannerSite, spend: Callable[[], bool]
) -> Iterator[DeploymentPlan]:
    bare = replace(scenario, deployment=None)
    for number, planner in enumerate(asked):
        site.progress(number, len(asked), "other planners asked")
        try:
            plan = planner.plan(bare, cast("PlannerSite", _Counting(site, spend)))
        except (NoPlanError, TooLongError):
            continue
        except _EnoughError:
            return
        yield plan
