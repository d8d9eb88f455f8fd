from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.baselines import every_order, power_of_two_lists
from xsim.plan.search.stage_sizes import power_of_two_sizes, stage_sizes, tied_blocks


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 4))
def test_all_multisets_of_powers_of_two_are_found_once(devices: int, stages: int, least: int) -> None:
    found = list(power_of_two_sizes(devices, stages, least))

    assert len(set(found)) == len(found)
    assert set(found) == power_of_two_lists(devices, stages, least)


@given(st.lists(st.sampled_from((1, 2, 4)), min_size=1, max_size=8), st.integers(1, 8))
def test_tied_blocks_hold_every_stage(sizes: list[int], most: int) -> None:
    blocks = tied_blocks(tuple(sorted(sizes)), most)

    assert len(blocks) <= max(most, 1)
    assert sorted(size for block in blocks for size in block) == sorted(sizes)


@given(st.integers(1, 10), st.integers(1, 5))
def test_with_enough_blocks_every_order_is_tried(devices: int, stages: int) -> None:
    expected = {order for sizes in power_of_two_lists(devices, stages, 1) for order in every_order(sizes)}

    assert set(stage_sizes(devices, stages, 0.0, stages)) == expected


@pytest.mark.parametrize(("devices", "plans"), [(16, 3212), (32, 22286), (64, 141086)])
def test_as_many_plans_between_stages_as_its_authors_code_has(devices: int, plans: int) -> None:
    """Counted by running it: two kinds of devices, 11 divisors of a batch of 1024, 42 layers, blocks of 4."""
    sizes = sum(len(stage_sizes(devices, stages, 1.0, 4)) for stages in range(1, min(devices, 42) + 1))

    assert 2 * 11 * sizes == plans
