"""Direct: every rank sends to every other at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xsim.fabric.transfers import TransferGraph, line
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.layout import even_pieces
from xsim.plan.patterns import Steps, natural

__all__ = ["Direct"]


@dataclass(frozen=True, slots=True)
class Direct:
    """Every rank exchanges a piece with each other at once; all-reduce as reduce-scatter, then all-gather.

    One latency for each half, and n - 1 transfers of a rank share its port: with a port of bandwidth B an all-reduce
    of S takes 2 latency + 2 (n - 1) / n S / B. A broadcast scatters pieces, then gathers them; a reduce sums pieces,
    then collects them. An all-to-all is all of its blocks at once: latency + (n - 1) / n^2 S / B. n (n - 1) transfers:
    for the ranks of a host, not for a thousand.
    """

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        ranks, steps = collective.ranks, Steps()
        even, root = even_pieces(collective.span, len(ranks)), collective.root or 0
        match collective.kind:
            case "all_reduce":
                _scatter_sums(steps, ranks, even)
                _gather(steps, ranks, even)
            case "reduce_scatter":
                _scatter_sums(steps, ranks, collective.pieces())
            case "all_gather":
                _gather(steps, ranks, collective.pieces())
            case "broadcast":
                steps.add(
                    line(ranks[root], rank, piece)
                    for rank, piece in zip(ranks, even, strict=True)
                    if rank != ranks[root]
                )
                _gather(steps, ranks, even, complete=root)
            case "reduce":
                _scatter_sums(steps, ranks, even)
                steps.add(
                    line(rank, ranks[root], piece)
                    for rank, piece in zip(ranks, even, strict=True)
                    if rank != ranks[root]
                )
            case "all_to_all":
                rows = zip(ranks, collective.blocks(), strict=True)
                steps.add(
                    line(src, dst, block)
                    for src, row in rows
                    for dst, block in zip(ranks, row, strict=True)
                    if src != dst
                )
            case "send_recv":
                return natural(collective, site.fabric)
        return steps.graph(ranks)


def _scatter_sums(steps: Steps, ranks: Sequence[int], pieces: Sequence[range]) -> None:
    """Everybody adds each piece to what its owner has."""
    steps.add(
        line(src, dst, piece, add=True) for dst, piece in zip(ranks, pieces, strict=True) for src in ranks if src != dst
    )


def _gather(steps: Steps, ranks: Sequence[int], pieces: Sequence[range], complete: int | None = None) -> None:
    """Every owner sends its piece to all others, but not to the rank at ``complete``, which has all of them."""
    steps.add(
        line(src, dst, piece)
        for src, piece in zip(ranks, pieces, strict=True)
        for place, dst in enumerate(ranks)
        if src != dst and place != complete
    )
