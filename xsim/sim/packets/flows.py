"""What a replay sends: flows in columns, each with its way and the way of its acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flows"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """N flows over the directed links of a ``Graph``; all columns int64, of length N unless said.

    Attributes:
        src, dst: Hosts of the graph.
        size_bytes: At least 0.
        start_ps: The earliest start; of a flow with a predecessor, counted from the end of that.
        after: Number of the flow whose completion at its sender starts this one, or -1.
        path_ptr, path: Directed links of the data packets of each flow, in CSR form.
        back_ptr, back: Directed links of its acknowledgements, in CSR form.
        ways, ways_of: Sets of paths that are as good, all with the same first link, and the set of each flow; needed
            where ``Settings.routing`` is not ``hash``.
        number: What each is called in messages; None: by its place.
        classes: The traffic class of each, 0 to 7; empty: they all have that of the settings.
    """

    src: Ints
    dst: Ints
    size_bytes: Ints
    start_ps: Ints
    after: Ints
    path_ptr: Ints
    path: Ints
    back_ptr: Ints
    back: Ints
    ways: Sequence[tuple[tuple[int, ...], ...]] = ()
    ways_of: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    number: Ints | None = None
    classes: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def names(self, places: Ints) -> tuple[int, ...]:
        """What the flows at these places are called."""
        return tuple((places if self.number is None else self.number[places]).tolist())
