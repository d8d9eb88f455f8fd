"""What goes between devices of a cluster, and how fast: hand-overs between stages and sums of gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xsim.plan.contracts import PlannerSite
from xsim.plan.layout import Layout
from xsim.plan.search.contracts import Seat
from xsim.plan.search.sync import Holding, hops_inside, in_one_host, ring_ps
from xsim.spec.scenario import Scenario

__all__ = ["Links"]

Port = tuple[float, int]  # bytes per second and latency in picoseconds


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Between devices of some kinds.

    Attributes:
        ranks: By kind and host, which.
        hosts: Of each rank of the cluster.
        cut: Whether stages with several tensor ranks cut activations over the sequence.
        apart: Whether gradients are summed as where the stages of a pipeline share hosts.
    """

    scenario: Scenario
    site: PlannerSite
    ranks: Mapping[str, Mapping[int, Sequence[int]]]
    hosts: Sequence[int]
    cut: bool
    apart: bool
    _ports: dict[tuple[str, bool, int, int, int], Port] = field(default_factory=dict)

    def group(self, kind: str, tp: int, apart: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Ranks of a tensor group, in another host than ``apart`` if there is one; empty if there is no room."""
        other = self.hosts[apart[0]] if apart else -1
        for host, own in sorted(self.ranks[kind].items(), key=lambda item: item[0] == other):
            free = [rank for rank in own if rank not in apart] if host == other else own
            if len(free) >= tp:
                return tuple(free[:tp])
        return ()

    def boundary_ps(self, source: Seat, target: Seat, samples: int, *, near: bool) -> int:
        """What a hand-over of so many samples takes alone; ``near``: within a host, if one has both kinds."""
        model = self.scenario.model
        ranks = self.group(source.kind, source.tp)
        others = self.group(target.kind, target.tp, ranks)
        beside = next(self._beside(source, target), None) if near else None
        ranks, others = beside or (ranks, others)
        if not others:
            return 0  # no plan has both
        size = samples * model.hidden * model.seq_len
        ours, theirs = (Layout.even(r, size, replicated=not (self.cut and len(r) > 1)) for r in (ranks, others))
        return self.site.price(self.site.strategy.move(ours, theirs, self.site), self.scenario.dtype_bytes)

    def _beside(self, source: Seat, target: Seat) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Of each host that has both kinds, ranks of the two stages; of one without room for them nothing."""
        for host, own in self.ranks[source.kind].items():
            ranks = tuple(own[: source.tp])
            left = tuple(rank for rank in self.ranks[target.kind].get(host, ()) if rank not in ranks)[: target.tp]
            if len(ranks) == source.tp and len(left) == target.tp:
                yield ranks, left

    def sum_ps(self, members: Sequence[Holding], parameters: int, busy: Mapping[str, int]) -> int:
        """What a sum of so many gradients takes over all copies of ``members``.

        Args:
            busy: Of each kind, how many devices sum anything.
        """
        used, copies_of, widest = Counter[str](), Counter[str](), dict[str, int]()
        for each in members:
            used[each.kind] += each.copies * each.tp
            copies_of[each.kind] += each.copies
            widest[each.kind] = max(widest.get(each.kind, 1), each.tp)
        rooms = {kind: max(map(len, self.ranks[kind].values())) for kind in used}
        within = len(used) == 1 and in_one_host(members, max(rooms.values()), apart=self.apart)
        if all(each.ranks for each in members):
            within = len({self.hosts[rank] for each in members for rank in each.ranks}) == 1
        together = {kind: max(1, copies // len(self.ranks[kind])) for kind, copies in copies_of.items()}
        ports = [self.port(kind, within, together[kind], busy[kind], widest[kind]) for kind in used]
        for kind, room in rooms.items():
            if hops_inside([each for each in members if each.kind == kind], room, apart=self.apart):
                ports.append((self.port(kind, True, 1, busy[kind], widest[kind])[0], 0))
        rates, latencies = zip(*ports, strict=True)
        size = parameters * self.scenario.gradient_dtype_bytes
        copies, narrowest = sum(each.copies for each in members), min(each.tp for each in members)
        return ring_ps(size, copies, narrowest, min(rates), max(latencies))

    def port(self, kind: str, within: bool, together: int, busy: int, width: int) -> Port:
        """Of a rank to its peers, ``within`` its host or out of it; see ``_find_port``."""
        sharing = min(-(-busy // len(self.ranks[kind])), max(map(len, self.ranks[kind].values())))
        key = kind, within, together, sharing, width
        if key not in self._ports:
            self._ports[key] = self._find_port(*key)
        return self._ports[key]

    def _find_port(self, kind: str, within: bool, together: int, sharing: int, width: int) -> Port:
        """Of a rank to its peers.

        Args:
            together: How many copies the host has of what is summed: a ring leaves it once for all of them.
            sharing: How many of its devices sum anything.
            width: Tensor ranks of a copy, neighbours, each in a ring of its own: all of these leave the host from one
                copy, so that those whose devices share a NIC have a part of it each, whatever its others do.
        """
        hosts = self.hosts
        own = max(self.ranks[kind].values(), key=len)
        rank = own[0]
        near = next((peer for peer in own if peer != rank), None)
        far = next((peer for peer, host in enumerate(hosts) if host != hosts[rank]), None)
        if within or far is None:
            others = (p for p, host in enumerate(hosts) if host == hosts[rank] and p != rank)
            peer = next(others, None) if near is None else near
            return (float("inf"), 0) if peer is None else self._path(rank, peer)
        rate, latency = self._path(rank, far)
        host = next(h for i, h in enumerate(self.scenario.cluster.each_host()) if i == hosts[rank])
        nics = host.nic.per_host or host.size
        leaving = min(host.size, max(sharing, 1)) / together / nics  # by each NIC, if they are spread over all
        return min(rate, host.nic.bandwidth_bytes_per_s / max(leaving, min(width, -(-host.size // nics)))), latency

    def _path(self, rank: int, peer: int) -> Port:
        fabric = self.site.fabric
        return fabric.path_bandwidth_bytes_per_s(rank, peer), fabric.path_latency_ps(rank, peer)
