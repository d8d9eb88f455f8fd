"""Rings: every rank passes pieces to its neighbour."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import Rows, TransferGraph, concatenate, line, ring
from xsim.plan.comm import Collective
from xsim.plan.layout import even_cuts
from xsim.spec.checks import at_least

__all__ = ["Ring", "ring_order"]


@dataclass(frozen=True, slots=True)
class Ring:
    """Bandwidth-optimal rings: reduce-scatter and all-gather in n - 1 rounds, all-reduce in both; broadcast as a chain.

    Attributes:
        broadcast_pieces: Into how many pieces a broadcast is cut; they follow one another down the chain of ranks.
    """

    broadcast_pieces: int = 8

    def __post_init__(self) -> None:
        at_least(self, "broadcast_pieces", 1)

    def expand(self, collective: Collective, fabric: Fabric) -> TransferGraph:
        order = ring_order(collective.ranks, fabric)
        if len(order) == 1 or not collective.span:
            return concatenate((), (collective.ranks,))
        if collective.kind == "broadcast":
            return _chain(order, collective, self.broadcast_pieces)
        return concatenate([(_cycle(order, collective), [()] * len(order))], (collective.ranks,))


def ring_order(ranks: tuple[int, ...], fabric: Fabric) -> tuple[int, ...]:
    """``ranks`` host by host, so that a ring of h > 1 hosts leaves a host h times, the fewest there can be.

    Every second host is walked backwards: the ring enters a host at the end where it left the one before, which keeps
    the crossing on its rail when hosts are alike.
    """
    order: list[int] = []
    by_host = sorted(ranks, key=lambda rank: (fabric.hosts[rank], rank))
    for turn, (_, members) in enumerate(groupby(by_host, key=lambda rank: fabric.hosts[rank])):
        order += sorted(members, reverse=turn % 2 == 1)
    return tuple(order)


def _cycle(order: tuple[int, ...], collective: Collective) -> Rows:
    """One implicit ring. A row starts with the piece of its own rank, and with the one before's to leave sums at home.

    A piece that starts at row p has passed every other rank after n - 1 rounds and lies on the rank before p.
    """
    rounds = len(order) - 1
    piece_of = dict(zip(collective.ranks, collective.pieces(), strict=True))
    spans = [piece_of[rank] for rank in order]
    match collective.kind:
        case "all_gather":
            return ring(order, spans, rounds=rounds, add_rounds=0)
        case "reduce_scatter":
            return ring(order, [spans[-1], *spans[:-1]], rounds=rounds, add_rounds=rounds)
        case _:
            return ring(order, spans, rounds=2 * rounds, add_rounds=rounds)


def _chain(order: tuple[int, ...], collective: Collective, parts: int) -> TransferGraph:
    """The root sends piece after piece to its neighbour, who passes each on: row hop * parts + piece."""
    first = order.index(collective.ranks[collective.root or 0])
    chain = order[first:] + order[:first]
    start, cuts = collective.span.start, even_cuts(len(collective.span), min(parts, len(collective.span)))
    count = len(cuts) - 1
    rows = []
    for hop in range(len(chain) - 1):
        for piece in range(count):
            span = range(start + cuts[piece], start + cuts[piece + 1])
            row = hop * count + piece
            waits = [row - count] * (hop > 0) + [row - 1] * (piece > 0)
            rows.append((line(chain[hop], chain[hop + 1], span), [waits]))
    return concatenate(rows, (collective.ranks,))
