"""Auto: the algorithm and protocol that a tuner would pick, by size, ranks and wires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xsim.errors import SpecError
from xsim.fabric.transfers import TransferGraph
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.forecast import Forecast
from xsim.plan.patterns import by_host
from xsim.plan.protocol import RowCosts, row_costs, with_costs
from xsim.spec.protocols import PROTOCOLS, Mode, Protocol, generation

__all__ = ["Auto"]

TREE_PIECES = (1, 4, 16)  # of each of the two trees
IN_TREES = ("all_reduce", "broadcast", "reduce")
LEAST_PIECE_BYTES = 2**16  # smaller ones only add steps
_PROTOCOL_OF: Mapping[Mode, Protocol] = {"in_switch": "simple", "pairs_ll": "ll", "pairs_simple": "simple"}


@dataclass(frozen=True, slots=True)
class Auto:
    """The forecast best of rings, trees, hierarchies and in-switch sums, under LL, LL128 or Simple, as a tuner picks.

    The way NCCL's tuner does it, for each algorithm and protocol a time is worked out from the number of steps, what
    each waits, and the bytes over the bandwidth that is left, and the least is taken. Where the forecast leaves room,
    as for broadcasts in several rings, those that might be faster than all others are timed on the wires. Within a
    host these are one ring, which stands for all channels since they have the same port, and sums in the switch where
    it can; over hosts rings too (one, and as many as a host has ranks, up to the most channels), two trees, and, where
    several ranks are on a host, the hierarchy, which NCCL's tuner does not have. With one rank on each host a
    hierarchy would be every rank sending to every other at once, which no NCCL does.

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
        return self.choose(collective, site)[0]

    def choose(self, collective: Collective, site: Site) -> tuple[TransferGraph, str]:
        offers = (
            offer for name, graph, modes in self._tried(collective, site) for offer in _offers(name, graph, modes, site)
        )
        best: _Offer | None = None  # no more than the best, the next and the open ones in memory
        unsure: list[_Offer] = []
        for offer in offers:
            if offer.least_ps < offer.most_ps:
                unsure.append(offer)
            elif best is None or offer.most_ps < best.most_ps:
                best = offer
        for offer in sorted(unsure, key=lambda offer: offer.least_ps):
            if best is None or offer.least_ps < best.most_ps:
                timed = offer.timed(site)
                best = timed if best is None or timed.most_ps < best.most_ps else best
        assert best is not None
        return best.priced, best.way

    def _tried(self, collective: Collective, site: Site) -> Iterator[tuple[str, TransferGraph, Sequence[Mode]]]:
        """What each algorithm would transfer, on ideal wires, and how."""
        if collective.kind in {"all_to_all", "send_recv"}:
            yield "pairs", site.collective("direct").expand(collective, site), self._pairs()
            return
        yield "ring", site.collective("ring").expand(collective, site), self.protocols
        if _sums_in_switch(collective, site):
            yield "nvls", site.collective("nvls").expand(collective, site), ("in_switch",)
        hosts = by_host(collective.ranks, site.fabric)
        if len(hosts) == 1:
            return
        most = min(generation(site.device(rank).name).most_channels for rank in collective.ranks)
        channels = min(most, *map(len, hosts))
        if channels > 1:
            rings = site.collective("ring", channels=channels)
            yield f"{channels} rings", rings.expand(collective, site), self.protocols
        if len(hosts) < len(collective.ranks):
            yield "hierarchical", site.collective("hierarchical").expand(collective, site), self.protocols
        for pieces in TREE_PIECES if collective.kind in IN_TREES else ():
            if pieces == 1 or len(collective.span) * site.element_bytes >= 2 * pieces * LEAST_PIECE_BYTES:
                trees = site.collective("tree", pieces=pieces)
                yield f"tree in 2 x {pieces}", trees.expand(collective, site), self.protocols

    def _pairs(self) -> Sequence[Mode]:
        """How sends and receives are tried; they have no LL128."""
        modes: dict[Protocol, Mode] = {"ll": "pairs_ll", "ll128": "pairs_simple", "simple": "pairs_simple"}
        return sorted({modes[protocol] for protocol in self.protocols})


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """A graph, what its rows cost, and between which times it will take.

    Attributes:
        way: The algorithm, and the protocol.
    """

    way: str
    graph: TransferGraph
    costs: RowCosts
    least_ps: int
    most_ps: int

    @property
    def priced(self) -> TransferGraph:
        return with_costs(self.graph, self.costs) if self.graph.rows else self.graph

    def timed(self, site: Site) -> _Offer:
        """The same with the time that it does take."""
        time_ps = site.fair_ps(self.priced)
        return replace(self, least_ps=time_ps, most_ps=time_ps)


def _offers(name: str, graph: TransferGraph, modes: Sequence[Mode], site: Site) -> Iterator[_Offer]:
    """One for each mode."""
    forecast = Forecast.of(graph, site.fabric, site.element_bytes)
    for mode, costs in zip(modes, row_costs(graph, site, modes), strict=True):
        base_ps = max(costs.base_ps.values())
        least_ps, most_ps = forecast.bounds_ps(costs.delay_ps, costs.wire_ppm)
        least_ps = least_ps if forecast.alike else most_ps  # what the wires would tell, no tuner sees
        yield _Offer(f"{name}, {_PROTOCOL_OF.get(mode, mode)}", graph, costs, base_ps + least_ps, base_ps + most_ps)


def _sums_in_switch(collective: Collective, site: Site) -> bool:
    """Whether NCCL would: only all-reduces, and enough ranks on one switch in each host."""
    if collective.kind != "all_reduce" or "nvls" not in site.collectives:
        return False
    hosts = by_host(collective.ranks, site.fabric)
    if any(site.fabric.switch_for(ranks) is None for ranks in hosts):
        return False
    fewest = min(map(len, hosts))
    found = [generation(site.device(rank).name).in_switch for rank in collective.ranks]
    return all(cost is not None and cost.ranks <= fewest for cost in found)
