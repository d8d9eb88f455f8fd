"""Non-uniform tensor parallelism: larger groups reshard inside, to the cuts of the smallest (arXiv 2504.06095)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xsim.plan.comm import Collective, CommPlan, Transfer, complete, finished, phases
from xsim.plan.contracts import Site
from xsim.plan.halves import RingHalves
from xsim.plan.layout import Layout, even_cuts, pieces
from xsim.plan.ports import MESSAGES, Flow, pipelined
from xsim.spec.checks import at_least

__all__ = ["Ntp"]


@dataclass(frozen=True, slots=True)
class Ntp(RingHalves):
    """Local resharding to as many core ranks as the smallest group has, one-to-one between cores, and back.

    The cores of a group are spread over it, each near the middle of what it holds for the others. Sums: gather to the
    cores, sum among the cores of a shard, each of which roots an equal part, scatter. Hand-overs reshard on the side
    of the larger group only. The stages follow one another piece by piece, each port serving one transfer at a time;
    among so many groups that messages would exceed 16384, the cores sum in rings, phase after phase.

    With optimizer sharding (ZeRO) there are no cores: the halves of a sum are rings among the owners of each cut piece,
    the same as those of ``alpacomm``.

    Attributes:
        pieces: Into how many pieces, at most; fewer where latency would outweigh the overlap.
    """

    pieces: int = 64

    def __post_init__(self) -> None:
        at_least(self, "pieces", 1)

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        flows = []
        larger_source = len(source.ranks) >= len(target.ranks)
        cores = _cores(source, target) if larger_source else _cores(target, source)
        for span in pieces((*source.cuts, *target.cuts)):
            way = [layout.owner(span.start) for layout in (source, cores, target)]
            if source.holds(way[-1], span):
                continue
            start = max(i for i, rank in enumerate(way) if source.holds(rank, span))
            flows += [
                Flow(src, dst, span, start + i) for i, (src, dst) in enumerate(pairwise(way[start:])) if src != dst
            ]
        return finished(pipelined(flows, self.pieces, site.fabric, site.element_bytes), (target,))

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        smallest = min(layouts, key=lambda layout: len(layout.ranks))
        cores = [_cores(layout, smallest) for layout in layouts]
        units = pieces(cut for layout in layouts for cut in layout.cuts)
        if len(units) * len(layouts) ** 2 * 4 > MESSAGES:
            return _in_phases(layouts, cores, units)
        flows = [
            flow
            for unit in units
            for root, (start, stop) in enumerate(pairwise(even_cuts(len(unit), len(layouts))))
            if start < stop
            for flow in _sum(layouts, cores, range(unit.start + start, unit.start + stop), root)
        ]
        return finished(pipelined(flows, self.pieces, site.fabric, site.element_bytes), layouts)


def _cores(layout: Layout, smallest: Layout) -> Layout:
    """The shards of ``smallest`` on ranks of ``layout`` that lie about where these shards do."""
    many, few = len(layout.ranks), len(smallest.ranks)
    return Layout(tuple(layout.ranks[(2 * i + 1) * many // (2 * few)] for i in range(few)), smallest.cuts)


def _sum(layouts: Sequence[Layout], cores: Sequence[Layout], span: range, root: int) -> Iterator[Flow]:
    """``span`` to the cores, summed at the core of group ``root``, back to the cores, and to who holds it."""
    at = [core.owner(span.start) for core in cores]
    for stage, src, dst in _inside(layouts, at, span):
        yield Flow(src, dst, span, stage)
    for rank in at:
        if rank != at[root]:
            yield Flow(rank, at[root], span, 1, add=True)
            yield Flow(at[root], rank, span, 2)


def _inside(layouts: Sequence[Layout], at: Sequence[int], span: range) -> Iterator[tuple[int, int, int]]:
    """(stage, src, dst) of what goes from owners to cores before the sum, and back after it."""
    for layout, core in zip(layouts, at, strict=True):
        owner = layout.owner(span.start)
        if owner != core:
            if not layout.replicated:
                yield 0, owner, core
            yield 3, core, owner


def _in_phases(layouts: Sequence[Layout], cores: Sequence[Layout], units: Sequence[range]) -> CommPlan:
    inner = [
        (Transfer(src, dst, unit), stage)
        for unit in units
        for stage, src, dst in _inside(layouts, [core.owner(unit.start) for core in cores], unit)
    ]
    rings = [
        Collective("all_reduce", tuple(core.owner(shard.start) for core in cores), shard)
        for shard in pieces(cores[0].cuts)
    ]
    gather, scatter = ([step for step, stage in inner if stage == number] for number in (0, 3))
    return phases(gather, rings, scatter, [step for layout in layouts for step in complete(layout)])
