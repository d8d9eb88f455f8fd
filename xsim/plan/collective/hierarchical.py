"""Hierarchical: inside the hosts, between them, inside again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph, line
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.layout import even_pieces
from xsim.plan.patterns import Steps, by_host, cycle, natural, units

__all__ = ["Hierarchical"]

Hosts = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """Rings inside each host around an exchange between hosts, which carries only each rank's share of the tensor.

    An all-reduce is a reduce-scatter inside each host, an all-reduce of each share in a ring over the hosts, and an
    all-gather inside. Hosts of unlike size have unlike shares: what goes over the hosts is then cut wherever the share
    of some host ends. For H hosts of m ranks, with latency and bandwidth l, b inside and L, B between them, S takes
    2 (m - 1) (l + S / m b) + 2 (H - 1) (L + S / m H B).

    A reduce-scatter is rings inside, then each rank adds what it has summed to its owner's on another host; an
    all-gather is the reverse. A broadcast is a scatter inside the host of the root, a scatter and a ring over the
    hosts, and an all-gather inside; a reduce is that backwards. An all-to-all is n - 1 steps of pairs.
    """

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        steps, hosts = Steps(), by_host(collective.ranks, site.fabric)
        match collective.kind:
            case "all_reduce":
                _all_reduce(steps, hosts, collective.span)
            case "broadcast":
                _broadcast(steps, hosts, collective.span, collective.ranks[collective.root or 0])
            case "reduce_scatter":
                runs = _runs(collective, site.fabric)
                steps.add(cycle("reduce_scatter", host, run.shares(host)) for run in runs for host in hosts)
                steps.add(line(src, dst, span, add=True) for run in runs for src, dst, span in run.shared_out(hosts))
            case "all_gather":
                runs = _runs(collective, site.fabric)
                steps.add(line(src, dst, span) for run in runs for dst, src, span in run.shared_out(hosts))
                steps.add(cycle("all_gather", host, run.shares(host)) for run in runs for host in hosts)
            case "reduce":
                _reduce(steps, hosts, collective.span, collective.ranks[collective.root or 0])
            case _:
                return natural(collective, site.fabric)
        return steps.graph(collective.ranks)


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring pieces whose owners are on one host; the hosts share it out among their ranks."""

    pieces: Mapping[int, range]  # by owner

    def shares(self, host: Sequence[int]) -> list[range]:
        """What each rank of ``host`` is responsible for: its own pieces on the host of the owners, else an even cut."""
        if self._owned_by(host):
            return [self.pieces.get(rank, range(0)) for rank in host]
        spans = list(self.pieces.values())
        return even_pieces(range(spans[0].start, spans[-1].stop), len(host))

    def shared_out(self, hosts: Hosts) -> Iterator[tuple[int, int, range]]:
        """(rank of another host, owner, what of the owner's piece the rank is responsible for)."""
        for host in hosts:
            if self._owned_by(host):
                continue
            for rank, share in zip(host, self.shares(host), strict=True):
                for owner, piece in self.pieces.items():
                    yield rank, owner, range(max(share.start, piece.start), min(share.stop, piece.stop))

    def _owned_by(self, host: Sequence[int]) -> bool:
        return next(iter(self.pieces)) in host


def _runs(collective: Collective, fabric: Fabric) -> list[_Run]:
    """The fewest runs that make up the span; as many as hosts if the ranks come host by host."""
    own = zip(collective.ranks, collective.pieces(), strict=True)
    return [_Run(dict(run)) for _, run in groupby(own, key=lambda piece: fabric.hosts[piece[0]])]


def _all_reduce(steps: Steps, hosts: Hosts, span: range) -> None:
    steps.add(cycle("reduce_scatter", host, even_pieces(span, len(host))) for host in hosts)
    steps.add(cycle("all_reduce", owners, even_pieces(unit, len(hosts))) for owners, unit in units(hosts, span))
    steps.add(cycle("all_gather", host, even_pieces(span, len(host))) for host in hosts)


def _broadcast(steps: Steps, hosts: Hosts, span: range, root: int) -> None:
    home = next(number for number, host in enumerate(hosts) if root in host)
    shares = zip(hosts[home], even_pieces(span, len(hosts[home])), strict=True)
    steps.add(line(root, rank, share) for rank, share in shares if rank != root)
    cut = [(owners, even_pieces(unit, len(hosts))) for owners, unit in units(hosts, span)]
    steps.add(
        line(owners[home], owner, piece)
        for owners, parts in cut
        for owner, piece in zip(owners, parts, strict=True)
        if owner != owners[home]
    )
    steps.add(cycle("all_gather", owners, parts) for owners, parts in cut)
    steps.add(cycle("all_gather", host, even_pieces(span, len(host))) for host in hosts)


def _reduce(steps: Steps, hosts: Hosts, span: range, root: int) -> None:
    home = next(number for number, host in enumerate(hosts) if root in host)
    steps.add(cycle("reduce_scatter", host, even_pieces(span, len(host))) for host in hosts)
    cut = [(owners, even_pieces(unit, len(hosts))) for owners, unit in units(hosts, span)]
    steps.add(cycle("reduce_scatter", owners, parts) for owners, parts in cut)
    steps.add(
        line(owner, owners[home], piece)
        for owners, parts in cut
        for owner, piece in zip(owners, parts, strict=True)
        if owner != owners[home]
    )
    shares = zip(hosts[home], even_pieces(span, len(hosts[home])), strict=True)
    steps.add(line(rank, root, share) for rank, share in shares if rank != root)
