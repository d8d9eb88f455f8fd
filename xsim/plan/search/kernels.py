"""The hot loops of the search, compiled."""

from __future__ import annotations

import numpy as np

from xsim.plan.kernels import kernel
from xsim.plan.search.contracts import NEVER_PS, Ints

__all__ = ["course", "dominance", "fill", "partition"]


@kernel
def partition(rows: Ints, sends: Ints, time_ps: Ints, slack: float, fills: Ints, stragglers: Ints, parts: Ints) -> None:
    """For each list of stages the layers of each: the least straggler, and of those within ``slack`` the least fill.

    Args:
        rows: Of each list and stage, the row of ``time_ps``; -1 past the last stage, N x S.
        sends: What each stage sends for a micro-batch, N x S.
        time_ps: Of a stage that holds 0..L transformer layers, rising, C x (L + 1).
        slack: A straggler may be so many times the least.
        fills, stragglers: Results, N; ``NEVER_PS`` where there is none.
        parts: Results, N x S: transformer layers.
    """
    count, most = rows.shape
    layers = time_ps.shape[1] - 1
    best = np.empty((most + 1, layers + 1), dtype=np.int64)
    total = np.empty((most + 1, layers + 1), dtype=np.int64)
    taken = np.zeros((most + 1, layers + 1), dtype=np.int64)
    for i in range(count):
        stages = 0
        while stages < most and rows[i, stages] >= 0:
            stages += 1
        best[stages, :] = NEVER_PS
        best[stages, 0] = 0
        for k in range(stages - 1, -1, -1):
            row, sent, later = rows[i, k], sends[i, k], stages - k - 1
            for held in range(layers + 1):
                least = NEVER_PS
                for own in range(1, held - later + 1):
                    slowest = time_ps[row, own] + sent
                    if slowest >= least:
                        break
                    slowest = max(slowest, best[k + 1, held - own])
                    least = min(least, slowest)
                best[k, held] = least
        fills[i] = NEVER_PS
        stragglers[i] = best[0, layers]
        if best[0, layers] >= NEVER_PS:
            continue
        limit = np.int64(min(best[0, layers] * slack, NEVER_PS - 1.0))  # many would pass the largest integer
        total[stages, :] = NEVER_PS
        total[stages, 0] = 0
        for k in range(stages - 1, -1, -1):
            row, sent, later = rows[i, k], sends[i, k], stages - k - 1
            for held in range(layers + 1):
                least, chosen = NEVER_PS, 0
                for own in range(1, held - later + 1):
                    if time_ps[row, own] + sent > limit:
                        break
                    whole = time_ps[row, own] + total[k + 1, held - own]
                    if whole < least:
                        least, chosen = whole, own
                total[k, held], taken[k, held] = least, chosen
        held, straggler, sent_all = layers, 0, 0
        for k in range(stages):
            own = taken[k, held]
            parts[i, k] = own
            held -= own
            sent_all += sends[i, k]
            straggler = max(straggler, time_ps[rows[i, k], own] + sends[i, k])
        fills[i] = total[0, layers] + sent_all
        stragglers[i] = straggler


@kernel
def fill(places: Ints, needs: Ints, gains: Ints, shifts: Ints, found: Ints, chosen: Ints) -> None:
    """The most that can be gained from each stock of devices: a knapsack of several kinds, any number of each item.

    Stocks that differ in the last kind alone are a row. What an item leaves is in an earlier row, whose gains are
    known, or, if it takes the last kind alone, earlier in the same.

    Args:
        places: Of each stock, how many devices of each kind it has, the last kind rising fastest, X x K.
        needs: Of each item, I x K.
        gains: Of each item, I.
        shifts: Of each item, how far apart stocks are that differ by it, I.
        found, chosen: Results, X: the gain, and one item that is in it, or -1.
    """
    last = places.shape[1] - 1
    length = places[len(places) - 1, last] + 1
    for row in range(0, len(places), length):
        for x in range(row, row + length):
            found[x], chosen[x] = 0, -1
        for j in range(len(needs)):
            fits = True
            for k in range(last):
                if places[row, k] < needs[j, k]:
                    fits = False
                    break
            if fits:
                shift, gain = shifts[j], gains[j]
                for x in range(row + needs[j, last], row + length):
                    if found[x - shift] + gain > found[x]:
                        found[x], chosen[x] = found[x - shift] + gain, j


@kernel
def dominance(needs: Ints, order: Ints, kept: Ints) -> int:
    """How many items no earlier one in ``order`` replaces, which takes at most as much; ``kept`` begins with them."""
    count = 0
    kinds = needs.shape[1]
    for j in order:
        needed = True
        for i in kept[:count]:
            less = True
            for k in range(kinds):
                if needs[i, k] > needs[j, k]:
                    less = False
                    break
            if less:
                needed = False
                break
        if needed:
            kept[count] = j
            count += 1
    return count


@kernel
def course(script: Ints, forward: Ints, backward: Ints, onward: Ints, back: Ints, ends: Ints) -> None:
    """When each stage of a pipeline has ended all its actions, each as soon as it can be in the stage's order.

    Args:
        script: Of each stage its actions in order: twice the micro-batch, and one more if it is a backward pass, S x A.
        forward, backward: What a pass takes each stage, S.
        onward: What activations take to reach each stage from the one before, S.
        back: What gradients take to reach each stage from the one after, S.
        ends: Result, S.
    """
    stages, count = script.shape
    done = np.full((stages, count), -1, dtype=np.int64)
    at = np.zeros(stages, dtype=np.int64)
    ends[:] = 0
    moved = True
    while moved:
        moved = False
        for s in range(stages):
            while at[s] < count:
                action = script[s, at[s]]
                ready = np.int64(0)
                if action % 2 == 0:
                    if s > 0:
                        before = done[s - 1, action]
                        if before < 0:
                            break
                        ready = before + onward[s]
                elif s < stages - 1:
                    before = done[s + 1, action]
                    if before < 0:
                        break
                    ready = before + back[s]
                ends[s] = max(ends[s], ready) + (forward[s] if action % 2 == 0 else backward[s])
                done[s, action] = ends[s]
                at[s] += 1
                moved = True
