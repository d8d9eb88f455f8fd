"""Auto: the algorithm and protocol that a tuner would pick, by size, ranks and wires."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.forecast import forecast_ps
from xsim.plan.patterns import by_host
from xsim.plan.protocol import under
from xsim.spec.protocols import PROTOCOLS, Protocol, generation

__all__ = ["Auto"]


@dataclass(frozen=True, slots=True)
class Auto:
    """The fastest of rings, trees, hierarchies and in-switch sums under LL, LL128 or Simple, as NCCL's tuner picks.

    As NCCL does, for each algorithm and protocol a time is worked out from the number of steps, what each waits, and
    the bytes over the bandwidth that is left, and the least is taken; it is not simulated. Within a host these are
    one ring, which stands for all channels since they have the same port, and sums in the switch where it can; over
    hosts rings too (one, and as many as a host has ranks, up to the most channels), two trees, and the hierarchy.

    What a step waits and what is left of a wire are those of the generation of the devices, calibrated on published
    measurements: xsim/spec/protocols.yaml, docs/collectives.md.

    Attributes:
        protocols: Which of NCCL's are tried.
    """

    protocols: tuple[Protocol, ...] = PROTOCOLS

    def __post_init__(self) -> None:
        if not self.protocols:
            raise SpecError("protocols", self.protocols, "there is nothing to choose from", "name ll, ll128 or simple")

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        ideal = list(_ideal(collective, site))
        graphs = [under(protocol, graph, site) for graph in ideal for protocol in self.protocols]
        return min(graphs, key=lambda graph: forecast_ps(graph, site.fabric) if len(graphs) > 1 else 0)


def _ideal(collective: Collective, site: Site) -> Iterator[TransferGraph]:
    """What each algorithm would transfer, on ideal wires."""
    yield site.collective("ring").expand(collective, site)
    hosts = by_host(collective.ranks, site.fabric)
    if len(hosts) == 1:
        return
    most = min(generation(site.device(rank).name).most_channels for rank in collective.ranks)
    channels = min(most, *map(len, hosts))
    if channels > 1:
        yield site.collective("ring", channels=channels).expand(collective, site)
    yield site.collective("hierarchical").expand(collective, site)
    for pieces in (1, 4, 16):
        yield site.collective("tree", pieces=pieces).expand(collective, site)
