"""What every pipeline schedule must do, whoever wrote it."""

from __future__ import annotations

import pytest

from xsim.errors import SpecError
from xsim.families import members
from xsim.plan.contracts import Schedule
from xsim.plan.walk import walk

EACH = pytest.mark.parametrize("schedule", [pytest.param(cls(), id=name) for name, cls in members("schedule")])


@EACH
@pytest.mark.parametrize("stages", range(1, 9))
def test_complete_and_without_deadlock(schedule: Schedule, stages: int) -> None:
    for micro_batches in range(1, 13):
        kept = walk([schedule.order(stage, stages, micro_batches) for stage in range(stages)], micro_batches)

        assert all(1 <= count <= micro_batches for count in kept)


@EACH
@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize("stages", range(1, 9))
def test_several_chunks_work_or_are_refused(schedule: Schedule, stages: int, chunks: int) -> None:
    """A schedule may take one chunk only; 8 micro-batches fit whoever takes several, other numbers may be refused."""
    for micro_batches in (8, *range(1, 20)):
        try:
            orders = [schedule.order(stage, stages, micro_batches, chunks) for stage in range(stages)]
        except SpecError as refusal:
            if micro_batches == 8:
                pytest.skip(str(refusal))
            continue
        kept = walk(orders, micro_batches, chunks)

        assert all(1 <= count <= micro_batches * chunks for count in kept)
