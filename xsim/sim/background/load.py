"""What many small neighbours send: flows of random sizes between random ranks at random instants."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph, concatenate, line
from xsim.sim.asked import check_bytes, ranks_of
from xsim.sim.contracts import Burst, Stream
from xsim.spec.checks import plausible
from xsim.units import PS_PER_S, parse_bytes

__all__ = ["Load"]

_KINDS = 8  # of flows that a rank sends: a network keeps what it knows of each


@dataclass(frozen=True, slots=True)
class Load:
    """Random flows between hosts that take a given part of the bandwidth of the NICs, on average.

    Each rank draws eight flows once, to ranks of other hosts, all equally likely, and of sizes that are spread as an
    exponential distribution is. Then it sends one of them after another, each of the eight equally likely, at the
    instants of a Poisson process. One that comes before the last is through waits for it: what the wires cannot carry
    waits at its sender.

    Attributes:
        load: Part of the bandwidth of the NICs by which the ranks leave their hosts, 0.001 to 1. Ranks of one host
            share what its NICs have.
        size: Of a flow on average, with its unit. Smaller flows are more, and take longer to simulate.
        ranks: Who sends and receives; empty for everybody.
    """

    load: float = 0.3
    size: str = "16 MB"
    ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        plausible(self, "load", 0.001, 1, "0.001 to 1")
        check_bytes(self, "size")

    def traffic(self, fabric: Fabric, seed: int) -> tuple[Stream, ...]:
        ranks = ranks_of(self.ranks, fabric)
        if len({fabric.hosts[rank] for rank in ranks}) < 2:
            problem, fix = "they are all on one host", "name ranks of several hosts, or choose background=none"
            raise SpecError("background.ranks", list(ranks), problem, fix)
        draws = {rank: random.Random(f"load {seed} {rank}") for rank in ranks}
        mean_bytes = parse_bytes(self.size)
        flows = {rank: [*_flows(rank, ranks, fabric, mean_bytes, draw)] for rank, draw in draws.items()}
        widths = _widths(flows, fabric)
        return tuple(
            Stream(own, _arrivals(own, _mean_bytes(own) / (self.load * widths[rank]) * PS_PER_S, draws[rank]))
            for rank, own in ((rank, tuple(found)) for rank, found in flows.items())
        )


def _flows(
    src: int, ranks: Sequence[int], fabric: Fabric, mean_bytes: int, draw: random.Random
) -> Iterator[TransferGraph]:
    """The flows of one rank: quantiles of the exponential distribution, so scaled that their mean is ``mean_bytes``."""
    quantiles = [-math.log(1 - (number + 0.5) / _KINDS) for number in range(_KINDS)]
    for quantile in quantiles:
        dst = src
        while fabric.hosts[dst] == fabric.hosts[src]:
            dst = draw.choice(ranks)
        size = max(1, round(mean_bytes * quantile * _KINDS / sum(quantiles)))
        yield concatenate([(line(src, dst, range(size)), [()])], [(src, dst)])


def _mean_bytes(flows: Sequence[TransferGraph]) -> float:
    return sum(int(graph.sent_bytes().sum()) for graph in flows) / len(flows)


def _widths(flows: Mapping[int, Sequence[TransferGraph]], fabric: Fabric) -> dict[int, float]:
    """Bytes per second that each rank has of the NICs by which the flows of its host leave it."""
    nics: dict[int, set[int]] = {}
    members: dict[int, int] = {}
    for rank, own in flows.items():
        host = fabric.hosts[rank]
        members[host] = members.get(host, 0) + 1
        nics.setdefault(host, set()).update(_nic(graph, fabric) for graph in own)
    widths = {}
    for rank in flows:
        own_nics = nics[fabric.hosts[rank]]
        mean = sum(float(fabric.bandwidth_bytes_per_s[link]) for link in sorted(own_nics)) / len(own_nics)
        widths[rank] = mean * min(1.0, len(own_nics) / members[fabric.hosts[rank]])
    return widths


def _nic(graph: TransferGraph, fabric: Fabric) -> int:
    """The link from the NIC by which a flow leaves its host."""
    route = fabric.route(int(graph.src[0]), int(graph.dst[0]))
    return next(link for link in route if fabric.links[link].kind == "nic")


def _arrivals(flows: Sequence[TransferGraph], gap_ps: float, draw: random.Random) -> Iterator[Burst]:
    at_ps = 0
    while True:
        at_ps += round(draw.expovariate(1 / gap_ps))
        yield Burst(at_ps, draw.choice(flows))
