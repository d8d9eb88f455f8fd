"""Section 2.4, Figure 2: TP 6 to TP 4 on 12 elements, two more shapes of Figure 12, and the sync of TP 3 with TP 2.

Source ranks are 0, 1, ...; target ranks 10, 11, ... A message is (src, dst, first, last + 1, phase).
"""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.strategies import SITE, with_rings
from xsim.plan.comm import CommPlan, Transfer
from xsim.plan.contracts import Reshard
from xsim.plan.layout import Layout, pieces
from xsim.plan.replay import events_of
from xsim.plan.reshard.alpacomm import AlpaComm
from xsim.plan.reshard.hetauto import HetAuto
from xsim.plan.reshard.lcm import Lcm

Message = tuple[int, int, int, int, int]

LCM, HETAUTO, ALPACOMM = Lcm(), HetAuto(), AlpaComm()


def move(strategy: Reshard, degrees: tuple[int, int], size: int) -> list[Message]:
    source, target = degrees
    layouts = Layout.even(tuple(range(source)), size), Layout.even(tuple(range(10, 10 + target)), size)
    return messages(strategy.move(*layouts, SITE))


def messages(plan: CommPlan) -> list[Message]:
    phase: list[int] = []
    found = []
    for step in plan.steps:
        assert isinstance(step, Transfer)
        phase.append(max((phase[number] + 1 for number in step.after), default=0))
        found.append((step.src, step.dst, step.span.start, step.span.stop, phase[-1]))
    return found


def test_alpacomm_cuts_at_the_union_of_boundaries() -> None:
    source, target = Layout.even(tuple(range(6)), 12), Layout.even(tuple(range(4)), 12)

    assert source.cuts == (0, 2, 4, 6, 8, 10, 12)
    assert target.cuts == (0, 3, 6, 9, 12)
    assert [len(piece) for piece in pieces(source.cuts + target.cuts)] == [2, 1, 1, 2, 2, 1, 1, 2]


def test_hetauto_forms_two_virtual_groups_and_two_leader_pairs() -> None:
    """gcd(6, 4) = 2."""
    cross = [message for message in move(HETAUTO, (6, 4), 12) if message[4] == 1]

    assert [(src, dst) for src, dst, *_ in cross] == [(0, 10), (3, 12)]


TP6_TO_TP4: dict[str, tuple[Reshard, set[Message]]] = {
    "lcm": (
        LCM,
        {
            (0, 10, 0, 1, 0),
            (0, 10, 1, 2, 0),
            (1, 10, 2, 3, 0),
            (1, 11, 3, 4, 0),
            (2, 11, 4, 5, 0),
            (2, 11, 5, 6, 0),
            (3, 12, 6, 7, 0),
            (3, 12, 7, 8, 0),
            (4, 12, 8, 9, 0),
            (4, 13, 9, 10, 0),
            (5, 13, 10, 11, 0),
            (5, 13, 11, 12, 0),
        },
    ),
    "alpacomm": (
        ALPACOMM,
        {
            (0, 10, 0, 2, 0),
            (1, 10, 2, 3, 0),
            (1, 11, 3, 4, 0),
            (2, 11, 4, 6, 0),
            (3, 12, 6, 8, 0),
            (4, 12, 8, 9, 0),
            (4, 13, 9, 10, 0),
            (5, 13, 10, 12, 0),
        },
    ),
    "hetauto": (
        HETAUTO,
        {
            (1, 0, 2, 4, 0),
            (2, 0, 4, 6, 0),
            (4, 3, 8, 10, 0),
            (5, 3, 10, 12, 0),
            (0, 10, 0, 6, 1),
            (3, 12, 6, 12, 1),
            (10, 11, 3, 6, 2),
            (12, 13, 9, 12, 2),
        },
    ),
}


@pytest.mark.parametrize(("strategy", "expected"), TP6_TO_TP4.values(), ids=TP6_TO_TP4.keys())
def test_tp_6_to_4(strategy: Reshard, expected: set[Message]) -> None:
    found = move(strategy, (6, 4), 12)

    assert len(found) == len(expected)
    assert set(found) == expected


@pytest.mark.parametrize("strategy", [LCM, ALPACOMM], ids=["lcm", "alpacomm"])
def test_tp_8_to_1_direct(strategy: Reshard) -> None:
    assert move(strategy, (8, 1), 8) == [(rank, 10, rank, rank + 1, 0) for rank in range(8)]


def test_tp_8_to_1_through_one_leader() -> None:
    gather = [(rank, 0, rank, rank + 1, 0) for rank in range(1, 8)]

    assert move(HETAUTO, (8, 1), 8) == [*gather, (0, 10, 0, 8, 1)]


@pytest.mark.parametrize("strategy", [LCM, ALPACOMM, HETAUTO], ids=["lcm", "alpacomm", "hetauto"])
def test_tp_4_to_4_is_the_same_for_all(strategy: Reshard) -> None:
    assert move(strategy, (4, 4), 12) == [(0, 10, 0, 3, 0), (1, 11, 3, 6, 0), (2, 12, 6, 9, 0), (3, 13, 9, 12, 0)]


DEGREES = [(a, b) for a in range(1, 9) for b in range(1, 9)]


@pytest.mark.parametrize(("a", "b"), DEGREES)
def test_chunks_and_cut_points_move_the_same_bytes_between_the_same_pairs(a: int, b: int) -> None:
    """They differ in the number of messages: lcm(a, b) against a + b - gcd(a, b)."""
    size = 840
    by_lcm, by_cuts = move(LCM, (a, b), size), move(ALPACOMM, (a, b), size)

    assert volumes(by_lcm) == volumes(by_cuts)
    assert len(by_lcm) == math.lcm(a, b)
    assert len(by_cuts) == a + b - math.gcd(a, b)


@pytest.mark.parametrize(("a", "b"), DEGREES)
def test_leaders_carry_a_share_of_one_over_gcd(a: int, b: int) -> None:
    """Gather (a/g - 1) S/a into each source leader, S/g from leader to leader, scatter (b/g - 1) S/b."""
    size, g = 840, math.gcd(a, b)
    found = move(HETAUTO, (a, b), size)
    within_source = [last - first for src, dst, first, last, _ in found if dst < 10]
    across = [last - first for src, dst, first, last, _ in found if src < 10 <= dst]
    within_target = [last - first for src, dst, first, last, _ in found if src >= 10]

    assert within_source == [size // a] * (a - g)
    assert across == [size // g] * g
    assert within_target == [size // b] * (b - g)


def volumes(found: list[Message]) -> Counter[tuple[int, int]]:
    total: Counter[tuple[int, int]] = Counter()
    for src, dst, first, last, _ in found:
        total[src, dst] += last - first
    return total


TP3, TP2 = Layout.even((0, 1, 2), 12), Layout.even((10, 11), 12)


def ring_messages(strategy: Reshard) -> list[tuple[int, int, int, int, bool]]:
    """(src, dst, first, last + 1, adds) of every row in every round."""
    events = events_of(with_rings(strategy.reduce((TP3, TP2), SITE)))
    steps = [event.step for event in events if isinstance(event.step, Transfer)]
    return sorted((step.src, step.dst, step.span.start, step.span.stop, step.add) for step in steps)


def pair_ring(a: int, b: int, first: int, middle: int, last: int) -> list[tuple[int, int, int, int, bool]]:
    """A ring of two ranks: each sends its half to be added, then the sum of the other half."""
    return [
        (a, b, first, middle, True),
        (b, a, middle, last, True),
        (a, b, middle, last, False),
        (b, a, first, middle, False),
    ]


def test_sync_tp_3_and_2_by_lcm_rings_has_24_messages_of_one_element() -> None:
    owners = [(0, 10), (0, 10), (1, 10), (1, 11), (2, 11), (2, 11)]
    expected = [m for c, (a, b) in enumerate(owners) for m in pair_ring(a, b, 2 * c, 2 * c + 1, 2 * c + 2)]

    assert len(expected) == 24
    assert ring_messages(LCM) == sorted(expected)


def test_sync_tp_3_and_2_by_cut_points_has_16_messages() -> None:
    expected = [
        *pair_ring(0, 10, 0, 2, 4),
        *pair_ring(1, 10, 4, 5, 6),
        *pair_ring(1, 11, 6, 7, 8),
        *pair_ring(2, 11, 8, 10, 12),
    ]

    assert len(expected) == 16
    assert ring_messages(ALPACOMM) == sorted(expected)


def test_sync_tp_3_and_2_by_leaders_has_10_messages() -> None:
    """gcd(3, 2) = 1: gather 4 + 4 and 6, a ring of two leaders on all 12, scatter."""
    gather = [(1, 0, 4, 8, False), (2, 0, 8, 12, False), (11, 10, 6, 12, False)]
    scatter = [(0, 1, 4, 8, False), (0, 2, 8, 12, False), (10, 11, 6, 12, False)]
    expected = [*gather, *pair_ring(0, 10, 0, 6, 12), *scatter]

    assert len(expected) == 10
    assert ring_messages(HETAUTO) == sorted(expected)


@pytest.mark.parametrize("strategy", [LCM, ALPACOMM], ids=["lcm", "alpacomm"])
def test_sync_tp_3_and_2_meets_the_bound_on_the_busiest_port(strategy: Reshard) -> None:
    """Half the tensor leaves each rank of the TP 2 group, a third each of the others: no less is possible."""
    sent = dict.fromkeys((0, 1, 2, 10, 11), 0)
    for src, _, first, last, _ in ring_messages(strategy):
        sent[src] += last - first

    assert sent == {0: 4, 1: 4, 2: 4, 10: 6, 11: 6}
