"""What other planners find, as plans to beat: they search what one's own search leaves out, such as unlike copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.kinds import Sketch
from xsim.plan.sketch import sketch_of, unplaced
from xsim.spec.scenario import Scenario

__all__ = ["plans_of_others"]

OPTIONS: Mapping[str, Mapping[str, object]] = {"metis": {"evaluations": 20_000}, "uniform": {"search": True}}


def plans_of_others(names: Sequence[str], scenario: Scenario, site: PlannerSite) -> Iterator[Sketch]:
    """What the planners ``names`` would do; nothing of one that finds no plan.

    Their searches are kept short: those of Metis end after fewer plans than usual.

    Raises:
        SpecError: There is no such planner.
    """
    asked = [site.planner(name, **OPTIONS.get(name, {})) for name in names]
    bare = replace(scenario, deployment=None)
    for number, planner in enumerate(asked):
        site.progress(number, len(asked), "other planners asked")
        try:
            plan = planner.plan(bare, site)
        except SpecError:  # it knows no plan that fits
            continue
        yield replace(unplaced(sketch_of(plan, scenario)), name="", source="", predicted_ps=None)
