"""Collective calls as a communication library makes them: in blocks, and one at a time on each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xsim.plan.comm import Collective
from xsim.plan.layout import Layout, even_cuts, pieces

__all__ = ["blocks_of", "in_turn"]


def blocks_of(layouts: Sequence[Layout]) -> tuple[range, ...] | None:
    """As many equal blocks as the largest group has ranks; None unless every shard consists of whole blocks."""
    cuts = even_cuts(layouts[0].size, max(len(layout.ranks) for layout in layouts))
    whole = all(cut in cuts for layout in layouts for cut in layout.cuts)
    return pieces(cuts) if whole else None


def in_turn(calls: Sequence[Collective]) -> list[Collective]:
    """``calls`` in an order in which each waits for the one before it on each of its ranks.

    Round after round, the largest calls first whose ranks no call of the round has. A call of one rank is nothing.
    """
    waiting = [call for call in sorted(calls, key=lambda call: len(call.span), reverse=True) if len(call.ranks) > 1]
    last: dict[int, int] = {}
    ordered: list[Collective] = []
    while waiting:
        busy: set[int] = set()
        later = []
        for call in waiting:
            if busy.isdisjoint(call.ranks):
                before = sorted({last[rank] for rank in call.ranks if rank in last})
                last.update(dict.fromkeys(call.ranks, len(ordered)))
                ordered.append(replace(call, after=tuple(before)))
                busy.update(call.ranks)
            else:
                later.append(call)
        waiting = later
    return ordered
