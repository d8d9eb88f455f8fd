"""Cutting a graph into parts of equal size across its lightest edges: greedy growth, then exchanges."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt

__all__ = ["equal_parts"]


def equal_parts(weights: npt.NDArray[np.float64], parts: int, rng: random.Random) -> tuple[tuple[int, ...], ...]:
    """Vertices in ``parts`` parts whose sizes differ by one at most, with a light cut.

    Each part grows from a vertex, drawn of those that are left, by the vertex that is tied to it most; then vertices of
    two parts are exchanged as long as that makes the cut lighter (B. W. Kernighan and S. Lin, An efficient heuristic
    procedure for partitioning graphs, 1970).

    Args:
        weights: Of the edges, symmetric, V x V.

    Cost: O(V^2) to grow, O(V^2) for each exchange.
    """
    count = len(weights)
    part = np.full(count, -1, dtype=np.int64)
    for number in range(parts):
        size = count // parts + (number < count % parts)
        free = [vertex for vertex in range(count) if part[vertex] < 0]
        part[rng.choice(free)] = number
        for _ in range(size - 1):
            tied = weights[:, part == number].sum(axis=1)
            part[int(np.argmax(np.where(part < 0, tied, -np.inf)))] = number
    _exchange(weights, part, parts)
    return tuple(tuple(np.flatnonzero(part == number).tolist()) for number in range(parts))


def _exchange(weights: npt.NDArray[np.float64], part: npt.NDArray[np.int64], parts: int) -> None:
    """Exchange the two vertices that gain most, until none gains."""
    rows = np.arange(len(part))
    while True:
        ties = np.stack([weights[:, part == number].sum(axis=1) for number in range(parts)], axis=1)
        outward = ties[:, part] - ties[rows, part][:, None]  # [u, v]: what u gains in the part of v
        gain = np.where(part[:, None] != part[None, :], outward + outward.T - 2 * weights, 0.0)
        best = int(np.argmax(gain))
        u, v = divmod(best, len(part))
        if gain[u, v] <= 1e-12 * max(1.0, float(np.abs(weights).max())):
            return
        part[u], part[v] = part[v], part[u]
