"""On which ranks device groups sit that are given by kind and size: each inside one host, those that are near together.

Groups take free devices of their kind in the order in which they come, of the first host that their like uses
already, else of the first that has enough. Where that leaves one without, the groups of that kind are dealt out again,
the largest first, each to the host that it fits most tightly: sizes that divide one another and the hosts then always
find room (packing of other sizes is a heuristic, at most 11/9 of the hosts needed: https://doi.org/10.1137/0203025).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xsim.errors import NoSeatError, SpecError
from xsim.spec.cluster import ClusterSpec, rank_hosts, rank_kinds

__all__ = ["Ask", "Together", "largest_in_host", "seated"]

Together = Literal["pipelines", "copies"]

Free = dict[int, list[int]]  # of each host the free ranks of one kind, ascending


@dataclass(frozen=True, slots=True)
class Ask:
    """A device group that needs ranks.

    Attributes:
        path: Where the plan has it, for messages.
        device: Name of its kind of device.
        size: How many.
        near: Groups of one number sit near each other: those of a pipeline.
        ranks: Those that it insists on; empty: any.
        first_layer: Of its stage.
        beside: How many devices those that are near it take in all, if they had best share a host; 0: whatever.
    """

    path: str
    device: str
    size: int
    near: int
    ranks: tuple[int, ...] = ()
    first_layer: int = 0
    beside: int = 0


def largest_in_host(cluster: ClusterSpec) -> dict[str, int]:
    """Of each kind of device how many the best equipped host has, in rank order of their first."""
    counts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for kind, host in zip(rank_kinds(cluster), rank_hosts(cluster), strict=True):
        counts[kind][host] += 1
    return {name: max(hosts.values()) for name, hosts in counts.items()}


def seated(asks: Sequence[Ask], cluster: ClusterSpec, together: Together = "pipelines") -> tuple[tuple[int, ...], ...]:
    """The ranks of each of ``asks``, ascending unless it insisted on others; no rank twice.

    Args:
        together: ``copies``: those of a kind that begin with one layer are near each other, the most devices first, in
            the host that they fill best.

    Raises:
        SpecError: One insists on ranks that are another's or of another kind.
        NoSeatError: One finds no host with enough free ones.
    """
    if together == "pipelines":
        return _seated(asks, cluster)
    sizes = Counter[tuple[str, int]]()
    for ask in asks:
        sizes[ask.device, ask.first_layer] += ask.size
    beside = [sizes[ask.device, ask.first_layer] for ask in asks]
    turns = sorted(range(len(asks)), key=lambda index: (-beside[index], asks[index].first_layer))
    found = _seated([replace(asks[i], near=asks[i].first_layer, beside=beside[i]) for i in turns], cluster)
    return tuple(ranks for _, ranks in sorted(zip(turns, found, strict=True)))


def _seated(asks: Sequence[Ask], cluster: ClusterSpec) -> tuple[tuple[int, ...], ...]:
    """In the order of ``asks``, whoever comes first."""
    found = {index: ask.ranks for index, ask in enumerate(asks) if ask.ranks}
    _check_insisted([asks[index] for index in found], cluster)
    taken = {rank for ranks in found.values() for rank in ranks}
    for device in dict.fromkeys(ask.device for ask in asks):
        rest = [(index, ask) for index, ask in enumerate(asks) if ask.device == device and not ask.ranks]
        own = _in_order(rest, _free(device, cluster, taken))
        found.update(own if own is not None else _largest_first(rest, _free(device, cluster, taken)))
    return tuple(found[index] for index in range(len(asks)))


def _check_insisted(asks: Sequence[Ask], cluster: ClusterSpec) -> None:
    kinds, hosts = rank_kinds(cluster), rank_hosts(cluster)
    owner: dict[int, str] = {}
    for ask in asks:
        path, value = f"{ask.path}.ranks", list(ask.ranks)
        if len(set(ask.ranks)) != ask.size:
            raise SpecError(path, value, f"{ask.size} ranks cut it", "list as many distinct ones")
        for rank in ask.ranks:
            if not 0 <= rank < cluster.ranks:
                problem = f"the cluster {cluster.name} has {cluster.ranks} ranks"
                raise SpecError(path, value, problem, f"use ranks 0..{cluster.ranks - 1}")
            if kinds[rank] != ask.device:
                fix = f"choose ranks of {ask.device}, or name another device"
                raise SpecError(path, value, f"rank {rank} is a {kinds[rank]}", fix)
            if rank in owner:
                raise SpecError(path, value, f"rank {rank} is also in {owner[rank]}", "give each rank to one copy")
            owner[rank] = ask.path
        if len({hosts[rank] for rank in ask.ranks}) > 1:
            raise SpecError(path, value, "they are not all in one host", "cut a copy over the devices of one host")


def _free(device: str, cluster: ClusterSpec, taken: set[int]) -> Free:
    free: Free = defaultdict(list)
    for rank, (own, host) in enumerate(zip(rank_kinds(cluster), rank_hosts(cluster), strict=True)):
        if own == device and rank not in taken:
            free[host].append(rank)
    return dict(free)


def _in_order(asks: Sequence[tuple[int, Ask]], free: Free) -> dict[int, tuple[int, ...]] | None:
    """Ranks by position; None if one finds no room."""
    found: dict[int, tuple[int, ...]] = {}
    used: dict[int, list[int]] = defaultdict(list)
    for index, ask in asks:
        near = (host for host in used[ask.near] if host in free)
        tight = sorted((len(own), host) for host, own in free.items() if ask.beside and len(own) >= ask.beside)
        first = (*near, *(host for _, host in tight))
        host = next((host for host in _each(first, free) if len(free[host]) >= ask.size), None)
        if host is None:
            return None
        found[index] = _take(free, host, ask.size)
        if host not in used[ask.near]:
            used[ask.near].append(host)
    return found


def _each(near: Iterable[int], free: Free) -> Iterator[int]:
    yield from near
    yield from free


def _largest_first(asks: Sequence[tuple[int, Ask]], free: Free) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for index, ask in sorted(asks, key=lambda each: -each[1].size):
        roomy = [host for host, ranks in free.items() if len(ranks) >= ask.size]
        if not roomy:
            left = max(map(len, free.values()), default=0)
            problem = f"the hosts have at most {left} free {ask.device} each once the larger copies have theirs"
            fix = "choose degrees that share out the devices of a host"
            raise NoSeatError(f"{ask.path}.tp", ask.size, problem, fix)
        found[index] = _take(free, min(roomy, key=lambda host: (len(free[host]), host)), ask.size)
    return found


def _take(free: Free, host: int, count: int) -> tuple[int, ...]:
    ranks, free[host] = free[host][:count], free[host][count:]
    if not free[host]:
        del free[host]
    return tuple(ranks)
