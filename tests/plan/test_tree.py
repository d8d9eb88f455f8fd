"""The two trees: nobody is in the middle of both, and every port has one piece at a time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.traffic import star
from tests.strategies import StandInSite
from xsim.errors import SpecError
from xsim.plan.collective.tree import Tree
from xsim.plan.comm import Collective, CollectiveKind

ALONE = StandInSite(star(40))


def edges(count: int, kind: CollectiveKind = "all_reduce", root: int | None = None) -> list[tuple[int, int, int, int]]:
    """(src, dst, number of the tree, 1 if it adds) of a collective of one piece for each tree."""
    graph = Tree(pieces=1).expand(Collective(kind, tuple(range(count)), range(2), root=root), ALONE)
    columns = (graph.src, graph.dst, graph.start, graph.add)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_eight_ranks_as_in_nccl() -> None:
    """0 over 4 over 2 and 6, whose children are the odd ranks; and its mirror image."""
    first = {(src, dst) for src, dst, tree, add in edges(8) if add and tree == 0}
    second = {(src, dst) for src, dst, tree, add in edges(8) if add and tree == 1}

    assert first == {(4, 0), (2, 4), (6, 4), (1, 2), (3, 2), (5, 6), (7, 6)}
    assert second == {(7 - src, 7 - dst) for src, dst in first}


@pytest.mark.parametrize("count", range(2, 40))
def test_what_goes_up_comes_down(count: int) -> None:
    up = {(src, dst, tree) for src, dst, tree, add in edges(count) if add}
    down = {(dst, src, tree) for src, dst, tree, add in edges(count) if not add}

    assert up == down
    assert len(up) == 2 * (count - 1)


@pytest.mark.parametrize("count", range(2, 40))
def test_no_rank_has_more_than_two_children_or_parents(count: int) -> None:
    for root in (0, count // 2):
        sends = edges(count, "broadcast", root)
        assert max(Counter(src for src, *_ in sends).values()) <= 2
        assert Counter(dst for _, dst, *_ in sends) == {rank: 2 for rank in range(count) if rank != root}


@pytest.mark.parametrize("kind", ["all_reduce", "broadcast"])
def test_a_port_has_one_piece_at_a_time(kind: CollectiveKind) -> None:
    """Each send waits, directly or not, for the one before it from the same rank and to the same rank."""
    graph = Tree(pieces=4).expand(Collective(kind, tuple(range(11)), range(80)), ALONE)
    before: list[set[int]] = []
    for row in range(graph.rows):
        waits = graph.predecessors(row).tolist()
        before.append(set(waits).union(*(before[wait] for wait in waits)))
        same = [
            other for other in range(row) if graph.src[other] == graph.src[row] or graph.dst[other] == graph.dst[row]
        ]
        assert before[row].issuperset(same)


@given(
    count=st.integers(2, 24),
    pieces=st.integers(1, 6),
    size=st.integers(1, 60),
    kind=st.sampled_from(("all_reduce", "broadcast", "reduce")),
)
def test_a_send_waits_for_its_ports_and_its_data(count: int, pieces: int, size: int, kind: CollectiveKind) -> None:
    """The last row before it from the same rank, the last to the same rank, and the last that brought its piece."""
    root = None if kind == "all_reduce" else size % count
    graph = Tree(pieces=pieces).expand(Collective(kind, tuple(range(count)), range(size), root=root), ALONE)
    sent: dict[int, int] = {}
    received: dict[int, int] = {}
    brought: dict[tuple[int, int], int] = {}

    for row, (src, dst, start) in enumerate(
        zip(*(x.tolist() for x in (graph.src, graph.dst, graph.start)), strict=True)
    ):
        before = {sent.get(src), received.get(dst), brought.get((src, start))} - {None}
        assert graph.predecessors(row).tolist() == sorted(wait for wait in before if wait is not None)
        sent[src] = received[dst] = brought[dst, start] = row


def test_a_tree_of_no_pieces_is_refused() -> None:
    with pytest.raises(SpecError, match="pieces = 0: it must be 1 or more"):
        Tree(pieces=0)
