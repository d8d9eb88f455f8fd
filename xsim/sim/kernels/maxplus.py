"""When transfers that disturb nobody end: a recursion of maxima and sums instead of events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel

__all__ = ["evaluate"]

# Columns of ``rows``; the first are those of xsim.sim.traffic.compiled.
SRC_PARTY, DST_PARTY, SIZE, LATENCY, ROUNDS, CYCLE_LEN, PRED_START, PRED_END = range(8)


@kernel
def evaluate(
    rows: NDArray[np.int64],
    bytes_per_ps: NDArray[np.float64],
    pred: NDArray[np.int64],
    release_ps: NDArray[np.int64],
    ends_ps: NDArray[np.int64],
    done_ps: NDArray[np.int64],
) -> None:
    """Write the end of each row to ``ends_ps`` (N) and of each party to ``done_ps`` (P, -1 on entry).

    A row without predecessors left starts when both of its parties are released; round r of row p of a cycle when
    rows p - 1 and p have ended round r - 1. What waits for a party released at ``NEVER_PS`` ends at that or later.

    Args:
        rows: N x 8.
        bytes_per_ps: Of each row's path; infinite if it needs no link.
        pred: Predecessors; those of row i are ``pred[rows[i, PRED_START] : rows[i, PRED_END]]``.
        release_ps: Per party.

    Cost: one step per row and round.
    """
    i = 0
    while i < len(rows):
        count = max(1, rows[i, CYCLE_LEN])
        for k in range(i, i + count):
            ready = max(release_ps[rows[k, SRC_PARTY]], release_ps[rows[k, DST_PARTY]])
            for j in range(rows[k, PRED_START], rows[k, PRED_END]):
                ready = max(ready, ends_ps[pred[j]])
            ends_ps[k] = ready
        for r in range(rows[i, ROUNDS]):
            _round(rows, bytes_per_ps, ends_ps, i, count, r)
        for k in range(i, i + count):
            done_ps[rows[k, SRC_PARTY]] = max(done_ps[rows[k, SRC_PARTY]], ends_ps[k])
            done_ps[rows[k, DST_PARTY]] = max(done_ps[rows[k, DST_PARTY]], ends_ps[k])
        i += count


@kernel
def _round(
    rows: NDArray[np.int64],
    bytes_per_ps: NDArray[np.float64],
    ends_ps: NDArray[np.int64],
    base: int,
    count: int,
    r: int,
) -> None:
    """Round r of a cycle (or of a plain row, a cycle of one) in place, from the last row to the first."""
    last = ends_ps[base + count - 1]
    piece = (count - 1 - r) % count
    for p in range(count - 1, -1, -1):
        row = base + p
        start = ends_ps[row]
        if r > 0:
            start = max(start, ends_ps[row - 1] if p > 0 else last)
        size = rows[base + piece, SIZE]
        if size > 0 and bytes_per_ps[row] != np.inf:
            start += max(1, int(size / bytes_per_ps[row] + 0.5)) + rows[row, LATENCY]
        ends_ps[row] = start
        piece = piece - 1 if piece > 0 else count - 1
