"""Rings follow hosts, and send no more than they must."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given

from tests.strategies import FABRIC, SITE, rank_tuples
from xsim.errors import SpecError
from xsim.plan.collective.ring import Ring
from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.judge import verify_collective
from xsim.plan.patterns import host_order


def crossings(order: tuple[int, ...]) -> int:
    hosts = [FABRIC.hosts[rank] for rank in order]
    return sum(a != b for a, b in pairwise([*hosts, hosts[0]]))


def test_host_by_host_there_and_back() -> None:
    """Hosts of four: a crossing leaves at the end where the next host is entered, on its rail."""
    assert host_order((4, 0, 5, 2, 3, 1, 7, 6), FABRIC) == (0, 1, 2, 3, 7, 6, 5, 4)


def test_the_order_given_does_not_matter() -> None:
    assert host_order((9, 1, 5), FABRIC) == host_order((5, 9, 1), FABRIC) == (1, 5, 9)


@given(ranks=rank_tuples(12))
def test_each_host_is_left_once(ranks: tuple[int, ...]) -> None:
    order = host_order(ranks, FABRIC)
    hosts = {FABRIC.hosts[rank] for rank in ranks}

    assert sorted(order) == sorted(ranks)
    assert crossings(order) == (len(hosts) if len(hosts) > 1 else 0)


@pytest.mark.parametrize(("kind", "rounds"), [("all_reduce", 6), ("all_gather", 3), ("reduce_scatter", 3)])
def test_every_rank_sends_a_piece_a_round(kind: CollectiveKind, rounds: int) -> None:
    graph = Ring().expand(Collective(kind, (0, 1, 2, 3), range(12)), SITE)

    assert graph.rounds.tolist() == [rounds] * 4
    assert graph.sent_bytes().tolist() == [3 * rounds] * 4


def test_a_broadcast_is_a_pipeline_down_the_chain() -> None:
    graph = Ring(pieces=2).expand(Collective("broadcast", (0, 1, 2), range(8), root=1), SITE)

    assert list(zip(graph.src.tolist(), graph.dst.tolist(), graph.start.tolist(), strict=True)) == [
        (1, 2, 0),
        (1, 2, 4),
        (2, 0, 0),
        (2, 0, 4),
    ]
    assert [graph.predecessors(row).tolist() for row in range(4)] == [[], [0], [0], [1, 2]]


def test_a_broadcast_of_no_pieces_is_refused() -> None:
    with pytest.raises(SpecError, match="pieces = 0: it must be 1 or more"):
        Ring(pieces=0)


def test_a_ring_of_no_channels_is_refused() -> None:
    with pytest.raises(SpecError, match="channels = 0: it must be 1 or more"):
        Ring(channels=0)


@pytest.mark.parametrize("kind", get_args(CollectiveKind))
@pytest.mark.parametrize("channels", [2, 3, 8])
def test_channels_change_no_result(kind: CollectiveKind, channels: int) -> None:
    for count, size in ((1, 5), (2, 1), (5, 3), (9, 100), (12, 77)):
        collective = Collective(kind, tuple(range(count)), range(3, 3 + size))
        verify_collective(Ring(channels=channels).expand(collective, SITE), collective)
