"""Roots by linear programming: the least that the busiest link can have, in pieces that follow one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xsim.plan.comm import Collective, CommPlan, Transfer, finished, hand_over
from xsim.plan.contracts import Site
from xsim.plan.halves import DirectHalves
from xsim.plan.layout import Layout, overlaps, pieces
from xsim.plan.ports import MESSAGES, Flow, pipelined
from xsim.plan.spread import link_times, parts, spread
from xsim.spec.checks import at_least

__all__ = ["Star"]


@dataclass(frozen=True, slots=True)
class Star(DirectHalves):
    """Each cut piece is summed at roots and sent back, shared out by an LP; what a replica sends likewise.

    A root receives from the other groups and sends to them; which share of a piece which of its owners roots is chosen
    so that the busiest link of the fabric has the least to carry. On one switch that is ``max(V / t_min,
    2 (k - 1) V / sum t)`` per port, the bound, also where more than two groups are cut unlike. Sums of one piece and
    results of the piece before share the ports, each of which serves one transfer at a time. Among so many groups that
    the messages, as many as their number squared, would exceed 16384, each piece is summed in a ring.

    With optimizer sharding (ZeRO) the shards fix the roots: all holders of a piece send it straight to the rank whose
    shard it is, without an LP and all at once, and it sends to all of them, the same as in ``paramserver``.

    Attributes:
        pieces: Into how many pieces, at most; fewer where latency would outweigh the overlap.
    """

    pieces: int = 64

    def __post_init__(self) -> None:
        at_least(self, "pieces", 1)

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        if not source.replicated:
            return hand_over(source, target)
        wanted = [(dst, span) for _, dst, span in overlaps(source, target) if not source.holds(dst, span)]
        ways = [
            [_scaled(link_times([(src, dst)], site.fabric), len(span)) for src in source.ranks] for dst, span in wanted
        ]
        sent = [
            Transfer(src, dst, part)
            for (dst, span), shares in zip(wanted, spread(ways), strict=True)
            for src, part in zip(source.ranks, parts(span, shares), strict=True)
            if part
        ]
        return finished(sent, (target,))

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        units = pieces(cut for layout in layouts for cut in layout.cuts)
        owners = [tuple(layout.owner(unit.start) for layout in layouts) for unit in units]
        if len(units) * len(layouts) * (len(layouts) - 1) * 2 > MESSAGES:
            rings = [Collective("all_reduce", group, unit) for group, unit in zip(owners, units, strict=True)]
            return finished(rings, layouts)
        ways = [
            [_scaled(link_times(_both_ways(root, group), site.fabric), len(unit)) for root in group]
            for group, unit in zip(owners, units, strict=True)
        ]
        flows = [
            flow
            for group, unit, shares in zip(owners, units, spread(ways), strict=True)
            for root, part in zip(group, parts(unit, shares), strict=True)
            if part
            for flow in _star(root, group, part)
        ]
        return finished(pipelined(flows, self.pieces, site.fabric, site.element_bytes), layouts)


def _scaled(times: dict[int, float], size: int) -> dict[int, float]:
    return {link: time * size for link, time in times.items()}


def _both_ways(root: int, group: Sequence[int]) -> Iterator[tuple[int, int]]:
    for rank in group:
        if rank != root:
            yield from ((rank, root), (root, rank))


def _star(root: int, group: Sequence[int], span: range) -> Iterator[Flow]:
    """All add at the root, which then sends the sum to all."""
    for rank in group:
        if rank != root:
            yield Flow(rank, root, span, stage=0, add=True)
            yield Flow(root, rank, span, stage=1)
