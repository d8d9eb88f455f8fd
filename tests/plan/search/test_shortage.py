"""Of every planner that finds nothing the same words, and how much is missing."""

from __future__ import annotations

import pytest

from tests.judging import searching
from tests.plan.search.small import question
from tests.planning import site_of
from xsim.errors import SpecError
from xsim.spec.cluster import rank_devices

PLANNERS = searching()


@pytest.mark.parametrize("name", PLANNERS)
def test_memory_that_is_missing(name: str) -> None:
    tiny = question(("fast", 2), ("slow", 2), layers=4, batch=4, memory=0.005)
    told = (
        rf"^planner = '{name}': no plan that {name} can make fits the 0\.2 GB of 4 devices: the nearest lacks "
        r"\d+\.\d\d GB (on a fast|on a slow|in all); add devices or memory, or choose a smaller model or batch$"
    )

    with pytest.raises(SpecError, match=told):
        PLANNERS[name].plan(tiny, site_of(tiny))


@pytest.mark.parametrize("name", PLANNERS)
def test_no_less_is_missing_than_for_one_copy_of_the_states(name: str) -> None:
    """Wherever the search gave up: what a stage lacks for one more layer would not help."""
    tiny = question(("fast", 2), ("slow", 2), layers=8, batch=4, memory=0.02)
    missing = 16 * tiny.model.parameters - sum(own.memory_bytes for own in rank_devices(tiny.cluster))

    with pytest.raises(SpecError, match=r"the nearest lacks \d+\.\d\d GB") as caught:
        PLANNERS[name].plan(tiny, site_of(tiny))
    told = float(str(caught.value).split("the nearest lacks ")[1].split()[0])
    assert told >= missing / 1e9 - 0.005 > 0.1


def test_a_batch_that_no_shape_suits() -> None:
    odd = question(("fast", 2), ("slow", 1), layers=2, batch=4)

    with pytest.raises(SpecError) as caught:
        PLANNERS["uniform"].plan(odd, site_of(odd))

    assert str(caught.value) == (
        "batch = 4: no plan that uniform can make shares it out to 3 devices; choose one with more divisors, or "
        "another planner"
    )
