"""Equations 7 to 10 of ETH (https://arxiv.org/abs/2610.22035): which groupings of devices go first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["best_split", "inter_variance", "intra_variance", "order_cost"]


def inter_variance(compute: Sequence[Sequence[float]]) -> float:
    """Equation 7: the variance of what pipelines compute, given the compute power of the devices of each."""
    return _variance([sum(devices) for devices in compute])


def intra_variance(compute: Sequence[Sequence[float]]) -> float:
    """Equation 8: the variance inside pipelines, summed."""
    return sum(_variance(devices) for devices in compute)


def order_cost(compute: Sequence[Sequence[float]], batch: int, layers: int) -> float:
    """Equation 9: lower is searched first, among groupings of equally many pipelines."""
    return inter_variance(compute) / batch + intra_variance(compute) / layers


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def best_split(
    devices: int, pipelines: int, throughput: Callable[[int, int], float]
) -> list[tuple[float, tuple[int, ...]]]:
    """Equation 10: devices in a row, cut into pipelines with the largest sum of throughputs.

    Args:
        devices: How many; more than ``pipelines``, or as many.
        throughput: Of a pipeline of the devices of a half-open range; 0 if it cannot train.

    Returns:
        For 1, 2, ... ``pipelines`` the sum and where its pipelines end. A sum of 0 means that there is no such cut.

    Cost: O(P N²), of which the throughputs are N² / 2.
    """
    alone = {(i, j): throughput(i, j) for j in range(1, devices + 1) for i in range(j)}
    reached: list[tuple[float, tuple[int, ...]]] = [(alone[0, j], (j,)) for j in range(1, devices + 1)]
    found = [reached[-1]]
    for p in range(2, pipelines + 1):
        longer: list[tuple[float, tuple[int, ...]]] = [(0.0, ())] * (p - 1)
        for j in range(p, devices + 1):
            best: tuple[float, tuple[int, ...]] = (0.0, ())
            for i in range(p - 1, j):
                before, last = reached[i - 1][0], alone[i, j]
                if before > 0 and last > 0 and before + last > best[0]:
                    best = (before + last, (*reached[i - 1][1], j))
            longer.append(best)
        reached = longer
        found.append(reached[-1])
    return found
