"""Rings: every rank passes pieces to its neighbour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xsim.fabric.transfers import Rows, TransferGraph, concatenate, line
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.patterns import cycle, even_pieces, host_order
from xsim.plan.protocol import ProtocolChoice, under
from xsim.spec.checks import at_least

__all__ = ["Ring"]


@dataclass(frozen=True, slots=True)
class Ring:
    """Bandwidth-optimal rings: reduce-scatter and all-gather in n - 1 rounds, all-reduce in both; broadcast as a chain.

    Attributes:
        channels: How many rings at once, each with its share of every piece. Each walks the hosts from another rank
            on, so that together they cross on many NICs, where one ring has one NIC of a host each way.
        broadcast_pieces: Into how many pieces a broadcast is cut; they follow one another down the chain of ranks.
        protocol: Of NCCL: what it takes of the wires and waits, see xsim/spec/protocols.yaml. None: ideal wires.
    """

    channels: int = 1
    broadcast_pieces: int = 8
    protocol: ProtocolChoice = "none"

    def __post_init__(self) -> None:
        at_least(self, "channels", 1)
        at_least(self, "broadcast_pieces", 1)

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        if len(collective.ranks) == 1 or not collective.span:
            return concatenate((), (collective.ranks,))
        parts: list[tuple[Rows, Sequence[Sequence[int]]]] = []
        count = 0
        for channel in range(self.channels):
            order = host_order(collective.ranks, site.fabric, channel, self.channels)
            if collective.kind == "broadcast":
                span = even_pieces(collective.span, self.channels)[channel]
                added = list(_chain(order, collective, span, self.broadcast_pieces, count))
            else:
                added = [(_cycle(order, collective, channel, self.channels), [()] * len(order))]
            parts += (part for part in added if any(part[0].spans))
            count = sum(len(rows) for rows, _ in parts)
        return under(self.protocol, concatenate(parts, (collective.ranks,)), site)


def _cycle(order: tuple[int, ...], collective: Collective, channel: int, channels: int) -> Rows:
    """The ring of one channel."""
    own = dict(zip(collective.ranks, collective.pieces(), strict=True))
    return cycle(collective.kind, order, [even_pieces(own[rank], channels)[channel] for rank in order])


def _chain(
    order: tuple[int, ...], collective: Collective, span: range, parts: int, base: int
) -> Iterator[tuple[Rows, Sequence[Sequence[int]]]]:
    """The root sends piece after piece to its neighbour, who passes each on: row base + hop * pieces + piece."""
    first = order.index(collective.ranks[collective.root or 0])
    chain = order[first:] + order[:first]
    cut = even_pieces(span, min(parts, len(span))) if span else []
    for hop in range(len(chain) - 1):
        for number, piece in enumerate(cut):
            row = base + hop * len(cut) + number
            waits = [row - len(cut)] * (hop > 0) + [row - 1] * (number > 0)
            yield line(chain[hop], chain[hop + 1], piece), [waits]
