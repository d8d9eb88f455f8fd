"""In-switch reduction: the scale-up switch of a host sums and multicasts, as NVLink SHARP does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.fabric.transfers import Rows, TransferGraph, line
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.layout import even_pieces
from xsim.plan.noted import NOT_SUMMED
from xsim.plan.patterns import Steps, by_host, cycle, natural, units
from xsim.spec.checks import at_least, at_most
from xsim.spec.protocols import generation

__all__ = ["Nvls"]

_LEAST = 3  # ranks on a switch, as NCCL has it: github.com/NVIDIA/nccl/blob/178b6b759074/src/transport/nvls.cc
_OTHERWISE = {"broadcast": "chain", "reduce": "chain", "all_to_all": "pairs", "send_recv": "pairs"}


@dataclass(frozen=True, slots=True)
class Nvls:
    """The scale-up switch sums and multicasts (NVLink SHARP): an all-reduce with less traffic than a ring.

    Rank i pulls the sum of piece i, and multicasts it. So each of n ranks sends all of S to be summed, and the sum of
    its own piece to be spread; it receives that sum, and all of S: S + S / n on each direction of its port, its own
    share included, where a ring has 2 (n - 1) / n S (github.com/NVIDIA/nccl/issues/2072 and 828,
    github.com/NVIDIA/nccl-tests/issues/238).

    An all-reduce goes in K pieces: two are under way, one up while another comes down, in turns. For K > 1 and ports
    of latency l and bandwidth b it takes (K + 2) (l + S / K b) + (K + 1) (l + S / K n b).

    A reduce-scatter or an all-gather puts S on one direction and S / n on the other, which gains nothing but latency:
    2 l + (n + 1) / n S / b, on 8 ranks 7 / 9 of a ring's bandwidth (measured for an all-gather: 300 of 350 GB/s,
    github.com/NVIDIA/nccl/issues/1506). That is inside one host; over several they are rings. An all-reduce over H
    hosts of m ranks is summed by the switches, goes round in a ring over the hosts for each rank's share, with latency
    L and bandwidth B, and is multicast: 4 l + 2 (m + 1) / m S / b and 2 (H - 1) (L + S / m H B), nothing overlapped.

    Ranks of a host that share no switch (a PCIe tree, a full mesh, two domains), whose switch cannot sum (that of an
    A100), or that are fewer than 3, are a ring instead. Broadcast, reduce, all-to-all and send-receive are those of the
    ring. A cluster in which no switch can sum is refused; xsim/spec/protocols.yaml says whose can.

    Attributes:
        pieces: Into how many pieces the all-reduce of a host is cut. Few suit small tensors; with many a large one
            nears (n + 1) / n S / b. Machines do not: on H100, 5, 6, 7 and 8 ranks have 1.14, 1.19, 1.25 and 1.30 times
            the bandwidth of a ring (420, 440, 460 and 480 of about 369 GB/s, github.com/NVIDIA/nccl/issues/1455).
            10 pieces, which leave the ports idle at both ends, give 1.13, 1.20, 1.26 and 1.31.
    """

    pieces: int = 10  # see above: github.com/NVIDIA/nccl/issues/1455

    def __post_init__(self) -> None:
        at_least(self, "pieces", 1)
        at_most(self, "pieces", 10_000)

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        return self.choose(collective, site)[0]

    def choose(self, collective: Collective, site: Site) -> tuple[TransferGraph, str]:
        _check_hardware(site)
        fabric = site.fabric
        hosts = by_host(collective.ranks, fabric)
        switched = list(_switched(hosts, site))
        steps = Steps(switches=range(len(fabric.hosts), 2 * len(fabric.hosts)))
        own = dict(zip(collective.ranks, collective.pieces(), strict=True))
        match collective.kind, switched:
            case "all_reduce", [host] if len(hosts) == 1:
                count = min(self.pieces, len(collective.span) // len(host.ranks))
                _in_turns(steps, host, even_pieces(collective.span, max(1, count)))
            case "all_reduce", [_, *_]:
                _over_hosts(steps, hosts, switched, collective.span)
            case "reduce_scatter", [host] if len(hosts) == 1:
                steps.add(host.sum_up(collective.span))
                steps.add(host.fetch([own[rank] for rank in host.ranks]))
            case "all_gather", [host] if len(hosts) == 1:
                steps.add(host.put([own[rank] for rank in host.ranks]))
                steps.add(host.spread(collective.span))
            case _:
                return natural(collective, fabric), _OTHERWISE.get(collective.kind, NOT_SUMMED)
        part = "" if len(switched) == len(hosts) else f" of {len(switched)} of {len(hosts)} hosts"
        return steps.graph(collective.ranks), f"summed in the switch{part}"


@dataclass(frozen=True, slots=True)
class _Host:
    """The ranks of one host, and the vertex of their switch that sums for them."""

    ranks: tuple[int, ...]
    switch: int

    def sum_up(self, span: range) -> Iterator[Rows]:
        """Everybody's values go up into one sum."""
        return (line(rank, self.switch, span, add=True) for rank in self.ranks)

    def fetch(self, pieces: Sequence[range]) -> Iterator[Rows]:
        """Each rank gets the sum of its piece."""
        return (line(self.switch, rank, piece) for rank, piece in zip(self.ranks, pieces, strict=True))

    def put(self, pieces: Sequence[range]) -> Iterator[Rows]:
        """Each rank sends its piece up, where nothing is added to it."""
        return (line(rank, self.switch, piece, add=True) for rank, piece in zip(self.ranks, pieces, strict=True))

    def spread(self, span: range) -> Iterator[Rows]:
        """Everybody gets all that was put up."""
        return (line(self.switch, rank, span) for rank in self.ranks)


def _check_hardware(site: Site) -> None:
    """Refuse a cluster where this would be a ring everywhere."""
    one_of = {switch: rank for rank, switch in enumerate(site.fabric.switches) if switch >= 0}
    if any(_sums(site, rank) for rank in one_of.values()):
        return
    names = sorted({site.device(rank).name for rank in one_of.values()})
    problem = f"the scale-up switches of {', '.join(names)} do not sum" if names else "no host has a scale-up switch"
    raise SpecError("collective", "nvls", problem, "choose ring or auto; NVSwitch 3 (h100_80) and later can sum")


def _sums(site: Site, rank: int) -> bool:
    """Whether the switch of ``rank`` can sum; switches are as old as the devices on them."""
    return generation(site.device(rank).name).in_switch is not None


def _switched(hosts: Sequence[tuple[int, ...]], site: Site) -> Iterator[_Host]:
    for ranks in hosts:
        switch = site.fabric.switch_for(ranks)
        if switch is not None and len(ranks) >= _LEAST and all(_sums(site, rank) for rank in ranks):
            yield _Host(ranks, switch)


def _in_turns(steps: Steps, host: _Host, chunks: Sequence[range]) -> None:
    """A chunk goes up while the last but one comes down; its sum is fetched while that of the last is put up."""
    nothing, count = [range(0)] * 2, len(host.ranks)
    padded = [*nothing, *chunks, *nothing]
    for down, put, up in zip(padded, padded[1:], padded[2:], strict=False):
        steps.add([*host.sum_up(up), *host.spread(down)])
        steps.add([*host.fetch(even_pieces(up, count)), *host.put(even_pieces(put, count))])


def _over_hosts(steps: Steps, hosts: Sequence[tuple[int, ...]], switched: Sequence[_Host], span: range) -> None:
    """Sums inside every host, rings over the hosts for what each rank has summed, and back."""
    with_switch = {host.ranks for host in switched}
    rings = [(ranks, even_pieces(span, len(ranks))) for ranks in hosts if ranks not in with_switch]
    cut = [(host, even_pieces(span, len(host.ranks))) for host in switched]
    steps.add([*(row for host in switched for row in host.sum_up(span)), *(cycle("reduce_scatter", *r) for r in rings)])
    steps.add(row for host, pieces in cut for row in host.fetch(pieces))
    steps.add(cycle("all_reduce", owners, even_pieces(unit, len(hosts))) for owners, unit in units(hosts, span))
    steps.add(row for host, pieces in cut for row in host.put(pieces))
    steps.add([*(row for host in switched for row in host.spread(span)), *(cycle("all_gather", *r) for r in rings)])
