"""How activations lie on both sides of a pipeline boundary."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from xsim.plan.layout import Layout, even_cuts, pieces
from xsim.spec.deployment import DeviceGroup
from xsim.spec.model import ModelSpec
from xsim.spec.shares import share_cuts

__all__ = ["Side", "boundary_layouts"]


@dataclass(frozen=True, slots=True)
class Side:
    """A device group at a boundary.

    Attributes:
        sequence_parallel: Each tensor rank has a part of the tokens, not all of them.
    """

    group: DeviceGroup
    sequence_parallel: bool


def boundary_layouts(source: Side, target: Side, samples: int, model: ModelSpec) -> Iterator[tuple[Layout, Layout]]:
    """(what the source has, what the target needs) of the activations of ``samples``, for each piece of a sequence.

    A piece is what one context rank on either side has. With its second half folded back onto the first, what a context
    rank has of a sequence is contiguous, however many there are: its two chunks lie side by side.
    """
    row = samples * model.hidden  # the sequence is the outermost axis
    ends = [even_cuts(model.seq_len, side.group.cp) for side in (source, target)]
    for piece in pieces([cut for cuts in ends for cut in cuts]):
        sent, wanted = (
            _layout(side, bisect_right(cuts, piece.start) - 1, piece, row, model.seq_len)
            for side, cuts in zip((source, target), ends, strict=True)
        )
        yield sent, wanted


def _layout(side: Side, context: int, piece: range, row: int, seq_len: int) -> Layout:
    """What a context rank has of ``piece``: cut over the sequence, or each of its tensor ranks all of it."""
    group = side.group.contexts()[context]
    if side.sequence_parallel:
        own = seq_len // side.group.cp
        cuts = [context * own + cut for cut in share_cuts(own, group.tp, group.tp_shares)]
        return Layout(group.ranks, tuple(min(max(cut - piece.start, 0), len(piece)) * row for cut in cuts))
    return Layout.even(group.ranks, len(piece) * row, replicated=True)
