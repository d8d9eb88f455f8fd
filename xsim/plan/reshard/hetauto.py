"""Leaders: as many as the greatest common divisor of the tensor-parallel degrees (paper section 2.4, Figure 2a)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xsim.plan.comm import Collective, CommPlan, Transfer, complete, phases
from xsim.plan.contracts import Site
from xsim.plan.layout import Layout, overlaps, pieces

__all__ = ["HetAuto"]


@dataclass(frozen=True, slots=True)
class HetAuto:
    """GCD virtual groups in three phases: gather to leaders, leader to leader, scatter.

    The first rank of a virtual group leads it. A replicated source needs no gather; a replicated target is scattered
    its shards and gathers the whole.
    """

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        senders, receivers = _leaders((source, target))
        cross = [
            Transfer(src, dst, span)
            for src, dst, span in overlaps(senders, receivers)
            if src != dst and not source.holds(dst, span)
        ]
        scatter = [step for step in _scatter(receivers, target) if not source.holds(step.dst, step.span)]
        return phases(list(_gather(source, senders)), cross, scatter, complete(target))

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        leaders = _leaders(layouts)
        rings = [
            Collective("all_reduce", tuple(leader.owner(piece.start) for leader in leaders), piece)
            for piece in pieces(cut for leader in leaders for cut in leader.cuts)
        ]
        pairs = list(zip(leaders, layouts, strict=True))
        return phases(
            [step for leader, layout in pairs for step in _gather(layout, leader)],
            rings,
            [step for leader, layout in pairs for step in _scatter(leader, layout)],
            [step for layout in layouts for step in complete(layout)],
        )

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        leaders = _leaders(layouts)
        ways = list(_homes(layouts, leaders, shards))
        return phases(
            [step for leader, layout in zip(leaders, layouts, strict=True) for step in _gather(layout, leader)],
            [Transfer(other, home, piece, add=True) for _, home, others, piece in ways for other in others],
            [Transfer(home, rank, piece) for rank, home, _, piece in ways if rank != home],
        )

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        leaders = _leaders(layouts)
        ways = list(_homes(layouts, leaders, shards))
        return phases(
            [Transfer(rank, home, piece) for rank, home, _, piece in ways if rank != home],
            [Transfer(home, other, piece) for _, home, others, piece in ways for other in others],
            list(_scatter_parameters(leaders, layouts, shards)),
        )


def _scatter_parameters(leaders: Sequence[Layout], layouts: Sequence[Layout], shards: Layout) -> Iterator[Transfer]:
    """Every leader sends the ranks of its virtual group what they hold, but for the shards that it has from them."""
    for piece in pieces((*shards.cuts, *(cut for layout in layouts for cut in layout.cuts))):
        for leader, layout in zip(leaders, layouts, strict=True):
            src, dst = leader.owner(piece.start), layout.owner(piece.start)
            if dst not in (src, shards.owner(piece.start)):
                yield Transfer(src, dst, piece)


def _homes(
    layouts: Sequence[Layout], leaders: Sequence[Layout], shards: Layout
) -> Iterator[tuple[int, int, list[int], range]]:
    """(whose shard it is, its leader, the leaders in other groups, piece) of each piece between cuts."""
    group = {rank: number for number, layout in enumerate(layouts) for rank in layout.ranks}
    for piece in pieces((*shards.cuts, *(cut for leader in leaders for cut in leader.cuts))):
        rank = shards.owner(piece.start)
        at = [leader.owner(piece.start) for leader in leaders]
        home = at[group[rank]]
        yield rank, home, [other for other in at if other != home], piece


def _leaders(layouts: Sequence[Layout]) -> tuple[Layout, ...]:
    """Of each layout, the layout in which its leaders hold what their virtual groups hold."""
    count = math.gcd(*(len(layout.ranks) for layout in layouts))
    steps = [len(layout.ranks) // count for layout in layouts]
    return tuple(Layout(x.ranks[::step], x.cuts[::step]) for x, step in zip(layouts, steps, strict=True))


def _gather(layout: Layout, leaders: Layout) -> Iterator[Transfer]:
    """Every rank sends its shard to its leader, which has it already if the layout is replicated."""
    if not layout.replicated:
        yield from (Transfer(src, dst, span) for src, dst, span in overlaps(layout, leaders) if src != dst)


def _scatter(leaders: Layout, layout: Layout) -> Iterator[Transfer]:
    """Every leader sends the ranks of its virtual group their shards."""
    yield from (Transfer(src, dst, span) for src, dst, span in overlaps(leaders, layout) if src != dst)
