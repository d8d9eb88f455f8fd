"""Irregular pieces: cut wherever any shard ends (paper section 2.4, Figure 2b)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xsim.plan.comm import Collective, CommPlan, Transfer, complete, phases
from xsim.plan.contracts import Site
from xsim.plan.halves import RingHalves
from xsim.plan.layout import Layout, pieces

__all__ = ["AlpaComm"]


@dataclass(frozen=True, slots=True)
class AlpaComm(RingHalves):
    """Cut-point union, each piece sent once or summed in a ring of its owners; replicas share the sending."""

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        wanted = [
            (target.owner(piece.start), piece)
            for piece in _union((source, target))
            if not source.holds(target.owner(piece.start), piece)
        ]
        senders = _senders(source, [piece for _, piece in wanted])
        transfers = [Transfer(src, dst, piece) for src, (dst, piece) in zip(senders, wanted, strict=True)]
        return phases(transfers, complete(target))

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        rings = [
            Collective("all_reduce", tuple(layout.owner(piece.start) for layout in layouts), piece)
            for piece in _union(layouts)
        ]
        return phases(rings, [step for layout in layouts for step in complete(layout)])


def _union(layouts: Sequence[Layout]) -> tuple[range, ...]:
    return pieces(cut for layout in layouts for cut in layout.cuts)


def _senders(source: Layout, wanted: Sequence[range]) -> list[int]:
    """Who sends each piece: its owner or, of a replicated source, the least loaded rank, largest piece first."""
    if not source.replicated:
        return [source.owner(piece.start) for piece in wanted]
    sent = dict.fromkeys(source.ranks, 0)
    chosen: dict[range, int] = {}
    for piece in sorted(wanted, key=len, reverse=True):
        chosen[piece] = min(source.ranks, key=lambda rank: sent[rank])
        sent[chosen[piece]] += len(piece)
    return [chosen[piece] for piece in wanted]
