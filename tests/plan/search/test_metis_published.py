from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_baselines import FAST, SLOW, UNLIKE, found
from tests.plan.toy import cluster
from tests.planning import site_of
from xsim.errors import SpecError
from xsim.plan.memory import deployment_memory
from xsim.plan.planner.metis import Metis
from xsim.plan.search.metis_published import dealt


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_cuts_ascend_and_may_end_too_early(layers: list[int], shares: list[int]) -> None:
    cuts = dealt([each / sum(layers) for each in layers], [each / sum(shares) for each in shares])

    assert len(cuts) == len(shares) + 1
    assert cuts[0] == 0
    assert all(a <= b for a, b in pairwise(cuts))
    assert cuts[-1] <= len(layers)


def test_few_stages_hold_all_layers_and_many_leave_some_out() -> None:
    assert dealt([0.1] * 10, [0.5] * 2) == (0, 5, 10)
    assert dealt([1 / 42] * 42, [1 / 33] * 33)[-1] < 42


def test_a_plan_of_two_stages_is_priced_by_its_first_if_kinds_are_in_their_second_order() -> None:
    """So few micro-batches look good: the second stage waits and nobody counts it."""
    published, exact = (found(Metis(faithful=faithful)).replicas[0] for faithful in (True, False))

    assert len(published.stages) == 2
    assert published.stages[0].groups[0].ranks == (4,)
    assert published.micro_batches < exact.micro_batches


def test_memory_is_not_looked_at_as_the_simulation_has_it() -> None:
    little = replace(SLOW, memory_bytes=500_000_000)
    tight = replace(UNLIKE, batch=8, cluster=cluster(4, 4, devices=(FAST, little)))
    site = site_of(tight)

    fits = [
        deployment_memory(tight, found(Metis(faithful=faithful), tight), site.schedule.order).fits
        for faithful in (False, True)
    ]

    assert fits == [True, False]


@pytest.mark.parametrize(
    ("counts", "layers", "batch", "message"),
    [
        ((4, 4, 1), 4, 16, "no plan fits by five times the weights and activations of a micro-batch; write"),
        ((4, 4, 1), 11, 16, "stage 6 of 7 of the plan that it chooses has no layers; write faithful: false"),
    ],
)
def test_a_plan_that_nobody_can_train_is_refused(
    counts: tuple[int, ...], layers: int, batch: int, message: str
) -> None:
    hardware = cluster(*counts, devices=(FAST, FAST, SLOW))
    asked = replace(UNLIKE, cluster=hardware, model=replace(UNLIKE.model, layers=layers), batch=batch)

    with pytest.raises(SpecError, match=f"^planner.faithful = True: {message}"):
        found(Metis(faithful=True), asked)
