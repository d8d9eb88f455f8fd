"""Sections 4.3 and 4.4, Algorithms 2 and 3, Figure 4: LCM chunks and one ring for each."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.paper.example import DG0, DG1, DG2, DG3
from tests.strategies import SITE, with_rings
from xsim.plan.comm import Collective
from xsim.plan.groups import Holder
from xsim.plan.layout import Layout
from xsim.plan.reshard.lcm import Lcm

D = 3600  # gradient elements of a group: "d" of section 4.4


def rings(*holders: Holder, size: int = D) -> list[Collective]:
    """The all-reduces of one data-parallel group, in chunk order."""
    plan = Lcm().reduce([Layout.even(holder.ranks, size) for holder in holders], SITE)
    return [step for step in plan.steps if isinstance(step, Collective)]


def test_layers_1_to_15_have_six_rings_of_two() -> None:
    """TP 3 and TP 2: L = lcm(3, 2) = 6."""
    assert [set(ring.ranks) for ring in rings(DG0, DG2)] == [{0, 3}, {0, 3}, {1, 3}, {1, 4}, {2, 4}, {2, 4}]


def test_layers_16_to_20_have_three_rings() -> None:
    assert [set(ring.ranks) for ring in rings(DG0, DG3)] == [{0, 7}, {1, 8}, {2, 9}]


def test_layers_21_to_32_have_six_rings() -> None:
    assert [set(ring.ranks) for ring in rings(DG1, DG3)] == [{5, 7}, {5, 7}, {5, 8}, {6, 8}, {6, 9}, {6, 9}]


def test_every_chunk_is_a_sixth() -> None:
    """Each ring works on d / L."""
    assert [ring.span for ring in rings(DG0, DG2)] == [range(c * D // 6, (c + 1) * D // 6) for c in range(6)]


def test_all_rings_run_at_once() -> None:
    assert all(ring.kind == "all_reduce" and ring.after == () for ring in rings(DG0, DG2))


def test_a_rank_of_t_takes_part_in_l_over_t_rings() -> None:
    """DG0 has d / 3 per rank in 6 / 3 = 2 chunks, DG2 d / 2 in 6 / 2 = 3."""
    found = rings(DG0, DG2)
    part_in = Counter(rank for ring in found for rank in ring.ranks)
    volume = {rank: sum(len(ring.span) for ring in found if rank in ring.ranks) for rank in part_in}

    assert part_in == {0: 2, 1: 2, 2: 2, 3: 3, 4: 3}
    assert volume == {0: D // 3, 1: D // 3, 2: D // 3, 3: D // 2, 4: D // 2}


@pytest.mark.parametrize("degrees", [(3, 2), (6, 4), (8, 6, 5), (7, 8), (4, 4, 4, 1)])
def test_chunk_c_belongs_to_rank_c_t_over_l(degrees: tuple[int, ...]) -> None:
    """Contiguous, as shards are: the owner of chunk c in a group of t is its rank c * t // L."""
    starts = [100 * i for i in range(len(degrees))]
    holders = [Holder(tuple(range(s, s + t)), range(1, 2)) for s, t in zip(starts, degrees, strict=True)]
    found = rings(*holders, size=840)
    count = len(found)

    assert all(count % degree == 0 for degree in degrees)
    assert [ring.ranks for ring in found] == [
        tuple(s + c * t // count for s, t in zip(starts, degrees, strict=True)) for c in range(count)
    ]


def test_a_size_that_six_does_not_divide_loses_nothing() -> None:
    assert [len(ring.span) for ring in rings(DG0, DG2, size=13)] == [2, 2, 2, 2, 2, 3]


@pytest.mark.parametrize(
    ("degrees", "messages"),
    [((3, 2), 24), ((8, 4, 2), 96), ((3, 2, 1), 72), ((8, 8, 1), 96), ((4, 4, 4, 1), 96), ((8, 6, 5), 1440)],
)
def test_a_ring_of_k_groups_sends_2_k_minus_1_times_k_messages(degrees: tuple[int, ...], messages: int) -> None:
    layouts = [Layout.even(tuple(range(10 * i, 10 * i + t)), 840) for i, t in enumerate(degrees)]
    graph = with_rings(Lcm().reduce(layouts, SITE))
    rings_of_k = math.lcm(*degrees)

    assert int(graph.rounds.sum()) == rings_of_k * 2 * (len(degrees) - 1) * len(degrees) == messages
