from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.search.small import question, tables_of
from xsim.experiment import Experiment, run
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.planner.given import Given
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.search import course
from xsim.plan.search.course import course_ps
from xsim.plan.search.price import price
from xsim.plan.sketch import place

ASKED = question(("fast", 2), ("slow", 2), layers=6, batch=12)


def stages(*each: tuple[str, int]) -> tuple[SketchStage, ...]:
    """Of (kind, layers), one device each."""
    found, start = [], 1
    for kind, layers in each:
        found.append(SketchStage(range(start, start + layers), (Copies(kind, 1),)))
        start += layers
    return tuple(found)


@pytest.mark.parametrize("schedule", [OneFOneB(), GPipe()])
@pytest.mark.parametrize(
    "sketch",
    [
        Sketch((Pipeline(stages(("fast", 4), ("slow", 2)), 1, 12),)),
        Sketch((Pipeline(stages(("slow", 1), ("fast", 3), ("fast", 2)), 2, 6),)),
        Sketch((Pipeline(stages(("fast", 4), ("slow", 2)), 1, 5), Pipeline(stages(("fast", 3), ("slow", 3)), 1, 7))),
    ],
)
def test_it_is_near_the_simulation(sketch: Sketch, schedule: OneFOneB | GPipe) -> None:
    known = tables_of(ASKED, schedule)
    asked = replace(ASKED, deployment=place(sketch, ASKED))
    simulated_ps = run(Experiment(scenario=asked, planner=Given(), schedule=schedule)).timeline.makespan_ps

    found = course_ps(sketch, known, schedule.order)

    assert found == pytest.approx(simulated_ps, rel=0.03)
    if isinstance(schedule, OneFOneB):
        assert abs(found - simulated_ps) <= abs(price(sketch, known).iteration_ps - simulated_ps) + 0.005 * simulated_ps


def test_one_stage_is_its_price() -> None:
    known = tables_of(ASKED)
    sketch = Sketch((Pipeline(stages(("fast", 6)), 1, 12),))

    assert course_ps(sketch, known, OneFOneB().order) == price(sketch, known).iteration_ps


@pytest.mark.parametrize("schedule", [OneFOneB(), GPipe()])
def test_many_micro_batches_go_on_at_the_pace_of_the_last_that_are_run(
    schedule: OneFOneB | GPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = replace(ASKED, batch=9001)
    known = tables_of(asked, schedule)
    sketch = Sketch((Pipeline(stages(("slow", 1), ("fast", 3), ("fast", 2)), 1, 9001),))
    found = course_ps(sketch, known, schedule.order)

    monkeypatch.setattr(course, "LONGEST", 9001)

    assert found == pytest.approx(course_ps(sketch, known, schedule.order), rel=1e-6)
