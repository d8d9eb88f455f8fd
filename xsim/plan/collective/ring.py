"""Rings: every rank passes pieces to its neighbour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xsim.fabric.transfers import Rows, TransferGraph, concatenate
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.layout import even_pieces
from xsim.plan.patterns import chain, cycle, host_order, natural
from xsim.plan.protocol import ProtocolChoice, under
from xsim.spec.checks import at_least, at_most

__all__ = ["Ring"]


@dataclass(frozen=True, slots=True)
class Ring:
    """Rings with the least traffic: all-reduce, all-gather, reduce-scatter; from or to a root the ring is a chain.

    With latency L and bandwidth B, a reduce-scatter or an all-gather of S takes (n - 1) (L + S / n B), an all-reduce
    twice that; a broadcast or a reduce in K pieces (K + n - 2) (L + S / K B). An all-to-all is n - 1 steps of pairs.

    Attributes:
        channels: How many rings at once, each with its share of every piece. Each walks the hosts from another rank
            on, so that together they cross on many NICs, where one ring has one NIC of a host each way.
        pieces: Into how many pieces a broadcast or a reduce is cut; they follow one another down the chain of ranks.
        protocol: Of NCCL: what it takes of the wires and waits, see xsim/spec/protocols.yaml. None: ideal wires.
    """

    channels: int = 1
    pieces: int = 8  # our choice
    protocol: ProtocolChoice = "none"

    def __post_init__(self) -> None:
        at_least(self, "channels", 1)
        at_most(self, "channels", 1_024)
        at_least(self, "pieces", 1)
        at_most(self, "pieces", 10_000)

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        if collective.kind in {"all_to_all", "send_recv"}:
            return under(self.protocol, natural(collective, site.fabric), site)
        if len(collective.ranks) == 1 or not collective.span:
            return concatenate((), (collective.ranks,))
        parts: list[tuple[Rows, Sequence[Sequence[int]]]] = []
        count = 0
        for channel in range(self.channels):
            order = host_order(collective.ranks, site.fabric, channel, self.channels)
            if collective.kind in {"broadcast", "reduce"}:
                span = even_pieces(collective.span, self.channels)[channel]
                cut = even_pieces(span, min(self.pieces, len(span))) if span else []
                added = list(chain(collective, order, cut, count))
            else:
                added = [(_cycle(order, collective, channel, self.channels), [()] * len(order))]
            parts += (part for part in added if any(part[0].spans))
            count = sum(len(rows) for rows, _ in parts)
        return under(self.protocol, concatenate(parts, (collective.ranks,)), site)


def _cycle(order: tuple[int, ...], collective: Collective, channel: int, channels: int) -> Rows:
    """The ring of one channel."""
    own = dict(zip(collective.ranks, collective.pieces(), strict=True))
    return cycle(collective.kind, order, [even_pieces(own[rank], channels)[channel] for rank in order])
