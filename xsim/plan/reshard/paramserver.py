"""Parameter servers, what HetPipe does instead of resharding (USENIX ATC 2020, section 5)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xsim.plan.comm import CommPlan, Transfer, finished, hand_over
from xsim.plan.contracts import Site
from xsim.plan.halves import DirectHalves
from xsim.plan.layout import Layout, even_cuts, pieces
from xsim.spec.checks import not_negative

__all__ = ["ParamServer"]


@dataclass(frozen=True, slots=True)
class ParamServer(DirectHalves):
    """All push each piece to a server, which adds, and pull the sum; hand-overs go from owner to owner.

    Servers are ranks that take part. They share the tensor: it is cut where any shard ends and into as many equal parts
    as there are servers, and each piece, the largest first, goes to the server that then has the least to receive; of
    equals to one that owns the piece, since it need not receive its own part.

    With optimizer sharding (ZeRO) the rank whose shard a piece is serves it, whatever ``servers`` says: all holders
    send it straight there, and it sends to all of them, the same as in ``star``.

    Attributes:
        servers: How many; they are spread evenly over the ranks. 0: the first rank of each host.
    """

    servers: int = 0

    def __post_init__(self) -> None:
        not_negative(self, "servers")

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        return hand_over(source, target)

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        servers = _servers(layouts, self.servers, site.fabric.hosts)
        shares = even_cuts(layouts[0].size, len(servers))
        units = pieces((*shares, *(cut for layout in layouts for cut in layout.cuts)))
        steps: list[Transfer] = []
        for unit, server in _assigned(layouts, units, servers):
            owners = [layout.owner(unit.start) for layout in layouts]
            copied = [x.owner(unit.start) for x in layouts if x.replicated and server in x.ranks]
            steps += _push_and_pull(owners, server, unit, len(steps), copied)
        return finished(steps, layouts)


def _servers(layouts: Sequence[Layout], count: int, hosts: Sequence[int]) -> tuple[int, ...]:
    ranks = sorted(rank for layout in layouts for rank in layout.ranks)
    if count:
        count = min(count, len(ranks))
        return tuple(ranks[i * len(ranks) // count] for i in range(count))
    return tuple({hosts[rank]: rank for rank in reversed(ranks)}.values())


def _assigned(layouts: Sequence[Layout], units: Sequence[range], servers: Sequence[int]) -> Iterator[tuple[range, int]]:
    """Each piece with its server: one of its owners, or the least loaded of all."""
    load = dict.fromkeys(servers, 0)
    least = [(0, rank) for rank in sorted(servers)]  # a heap; what is no longer so is passed over
    for unit in sorted(units, key=len, reverse=True):
        owners = {layout.owner(unit.start) for layout in layouts}
        while least[0][0] != load[least[0][1]]:
            heapq.heappop(least)
        after = {rank: load[rank] + len(unit) * len(owners - {rank}) for rank in (owners & load.keys()) | {least[0][1]}}
        chosen = min(after, key=lambda rank: (after[rank], rank not in owners, rank))
        load[chosen] = after[chosen]
        heapq.heappush(least, (load[chosen], chosen))
        yield unit, chosen


def _push_and_pull(owners: Sequence[int], server: int, unit: range, base: int, copied: Sequence[int]) -> list[Transfer]:
    """Steps from number ``base`` on. A server without a part of its own is sent the first, before others are added.

    Args:
        copied: The owner whose part the server has too, as another rank of its replica.
    """
    pushes = [Transfer(rank, server, unit, add=True) for rank in owners if rank not in (server, *copied)]
    if server not in owners and not copied:
        pushes = [replace(pushes[0], add=False), *(replace(push, after=(base,)) for push in pushes[1:])]
    before = tuple(range(base, base + len(pushes)))
    return pushes + [Transfer(server, rank, unit, after=before) for rank in owners if rank != server]
