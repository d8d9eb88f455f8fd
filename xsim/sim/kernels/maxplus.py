"""When transfers that disturb nobody end: a recursion of maxima and sums instead of events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.never import HALF_PPM, LONGEST_PS, NEVER_PS, PPM

__all__ = ["evaluate"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def evaluate(
    src_party: Ints,
    dst_party: Ints,
    size_bytes: Ints,
    latency_ps: Ints,
    bytes_per_ps: Floats,
    wire_ppm: Ints,
    rounds: Ints,
    cycle_len: Ints,
    pred_ptr: Ints,
    pred: Ints,
    release_ps: Ints,
    ends_ps: Ints,
    done_ps: Ints,
) -> None:
    """Write the end of each row to ``ends_ps`` (N) and of each party to ``done_ps`` (P, -1 on entry).

    A row starts when its predecessors have ended and both of its parties are released; round r of row p of a cycle
    when rows p - 1 and p have ended round r - 1. What waits for a party released at ``NEVER_PS`` ends then; all else
    before.
    The arguments are columns of a ``TransferGraph`` and a ``Compiled``, and ``release_ps`` per party.

    Cost: one step per row and round.
    """
    base = 0
    while base < len(rounds):
        count = max(1, cycle_len[base])  # a plain row is a cycle of one, with one round
        for row in range(base, base + count):
            ready_ps = max(release_ps[src_party[row]], release_ps[dst_party[row]])
            for i in range(pred_ptr[row], pred_ptr[row + 1]):
                ready_ps = max(ready_ps, ends_ps[pred[i]])
            ends_ps[row] = ready_ps
        for r in range(rounds[base]):
            last_ps = ends_ps[base + count - 1]
            piece = (count - 1 - r) % count
            for p in range(count - 1, -1, -1):  # downwards, so that row p - 1 still has its end of round r - 1
                row = base + p
                start_ps = ends_ps[row]
                if r > 0:
                    start_ps = max(start_ps, ends_ps[row - 1] if p > 0 else last_ps)
                payload, extra_ppm = size_bytes[base + piece], wire_ppm[row] - PPM
                size = payload + payload // PPM * extra_ppm + (payload % PPM * extra_ppm + HALF_PPM) // PPM
                if bytes_per_ps[row] == np.inf and start_ps < NEVER_PS:  # to itself: the delay
                    start_ps = min(start_ps + latency_ps[row], NEVER_PS - 1)
                elif size > 0 and start_ps < NEVER_PS:
                    sending_ps = max(1, int(min(size / bytes_per_ps[row] + 0.5, LONGEST_PS)))
                    start_ps = min(start_ps + sending_ps + latency_ps[row], NEVER_PS - 1)
                ends_ps[row] = start_ps
                piece = piece - 1 if piece > 0 else count - 1
        for row in range(base, base + count):
            for party in (src_party[row], dst_party[row]):
                done_ps[party] = max(done_ps[party], ends_ps[row])
        base += count
