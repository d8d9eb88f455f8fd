"""Steps keep ranks in order with few waits; hosts are walked there and back."""

from __future__ import annotations

from tests.strategies import FABRIC
from xsim.fabric.transfers import line, ring
from xsim.plan.layout import even_pieces
from xsim.plan.patterns import Steps, by_host, host_order


def waits(steps: Steps) -> list[list[int]]:
    graph = steps.graph(range(8))
    return [graph.predecessors(row).tolist() for row in range(graph.rows)]


def test_a_transfer_waits_for_what_its_two_ranks_did_before() -> None:
    steps = Steps()
    steps.add([line(0, 1, range(4)), line(2, 3, range(4))])
    steps.add([line(1, 2, range(4)), line(4, 5, range(4))])
    steps.add([line(0, 3, range(4))])

    assert waits(steps) == [[], [], [0, 1], [], [0, 1]]


def test_a_ring_row_waits_like_a_transfer() -> None:
    steps = Steps()
    steps.add([line(0, 1, range(4))])
    steps.add([ring((0, 1, 2), even_pieces(range(6), 3), rounds=2, add_rounds=0)])
    steps.add([line(2, 3, range(4))])

    assert waits(steps) == [[], [0], [0], [0], [2, 3]]


def test_what_moves_nothing_is_left_out() -> None:
    steps = Steps()
    steps.add([line(0, 1, range(0)), ring((0,), [range(4)], rounds=0, add_rounds=0)])

    assert steps.graph((0, 1)).rows == 0


def test_many_transfers_of_a_rank_are_gathered_by_an_empty_one() -> None:
    steps = Steps()
    steps.add(line(0, rank, range(4)) for rank in range(1, 7))
    steps.add(line(0, rank, range(4)) for rank in range(1, 7))
    graph = steps.graph(range(8))

    assert (int(graph.src[6]), int(graph.dst[6]), int(graph.stop[6])) == (0, 0, 0)
    assert waits(steps)[6:] == [[0, 1, 2, 3, 4, 5], *([row, 6] for row in range(6))]


def test_pieces_of_a_short_span_may_be_empty() -> None:
    assert even_pieces(range(5, 7), 3) == [range(5, 5), range(5, 6), range(6, 7)]


def test_hosts_in_order() -> None:
    assert by_host((9, 1, 5, 0, 4), FABRIC) == [(0, 1), (4, 5), (9,)]


def test_every_channel_crosses_elsewhere() -> None:
    """Hosts of four: out at the last rank of the first walk, back at its first."""
    walks = [host_order(range(8), FABRIC, channel, 4) for channel in range(4)]

    assert walks[1] == (1, 2, 3, 0, 4, 7, 6, 5)
    assert [(walk[3], walk[4]) for walk in walks] == [(3, 7), (0, 4), (1, 5), (2, 6)]
