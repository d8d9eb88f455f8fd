from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.baselines import lightest_cut
from xsim.plan.search.graph_parts import equal_parts


def cut_weight(weights: npt.NDArray[np.float64], part: npt.NDArray[np.int64]) -> float:
    """Summed weights of the edges between unlike parts."""
    return float(np.where(part[:, None] != part[None, :], weights, 0.0).sum() / 2)


def weights_of(count: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    drawn = np.random.default_rng(seed).integers(1, 10, (count, count)).astype(float)
    upper = np.triu(drawn, 1)
    return np.asarray(upper + upper.T)


def part_of(parts: tuple[tuple[int, ...], ...]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    found = np.zeros(sum(map(len, parts)), dtype=np.int64)
    for number, vertices in enumerate(parts):
        found[list(vertices)] = number
    return found


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 99))
def test_parts_are_of_equal_size_and_seeded(count: int, parts: int, seed: int) -> None:
    parts = min(parts, count)
    weights = weights_of(count, seed)

    found = equal_parts(weights, parts, random.Random(seed))

    assert sorted(vertex for part in found for vertex in part) == list(range(count))
    assert {len(part) for part in found} <= {count // parts, -(-count // parts)}
    assert found == equal_parts(weights, parts, random.Random(seed))


@given(st.integers(2, 7), st.integers(2, 3), st.integers(0, 99))
def test_the_cut_is_near_the_lightest(count: int, parts: int, seed: int) -> None:
    """No exchange makes it lighter, and on small graphs it is never far above the best."""
    parts = min(parts, count)
    weights = weights_of(count, seed)

    found = equal_parts(weights, parts, random.Random(seed))

    part, cut = part_of(found), cut_weight(weights, part_of(found))
    assert cut <= 1.5 * lightest_cut(weights, [len(each) for each in found])
    for u in range(count):
        for v in range(u):
            swapped = part.copy()
            swapped[[u, v]] = part[[v, u]]
            assert cut_weight(weights, swapped) >= cut - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_two_hosts_are_told_apart(seed: int) -> None:
    near = np.kron(np.eye(2), np.ones((4, 4))) * 99 + 1
    order = np.array([0, 4, 1, 5, 2, 6, 3, 7])

    found = equal_parts(near[np.ix_(order, order)], 2, random.Random(seed))

    assert sorted(found) == [(0, 2, 4, 6), (1, 3, 5, 7)]
