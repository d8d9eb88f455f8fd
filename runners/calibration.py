"""Fits what protocols cost to measurements on one host, and the latency of a network to those on several.

A ring of n ranks takes R rounds, 2 (n - 1) for an all-reduce and n - 1 otherwise. Under a protocol that waits d in each
and leaves the share s of ports of bandwidth B and path latency L it takes, with the base b of every collective,

    b + R (L + d) + (R + f) S / (n s B), f = FILL_STEPS, or 0 over PCIe,

and an all-reduce of K pieces in a switch (``nvls``)

    b + (2 K + 3) (L + d) + ((K + 2) / K + (K + 1) / (K n)) S / (s B).

An exchange of all pairs takes b + L + d + (n - 1 + f) S / (n s B) with costs of its own. The predicted time is the
least over the protocols. These are the times that ``auto`` is simulated with, in closed form.

Blocks of k < n devices may share an uplink of bandwidth U < B, which is fitted with the costs of rings. Each way it
carries one piece of a ring in a round, and k (n - k) pieces of an exchange of all pairs. These then take
b + R (L + d) + R S / (n s U) and b + L + d + k (n - k) S / (n s U).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, minimize

from runners.measured import Row
from xsim.plan.collective.nvls import Nvls
from xsim.spec.cluster import LinkSpec

__all__ = ["BOUNDS", "Costs", "Wires", "errors", "fit_costs", "fit_latency_ps"]

Floats = NDArray[np.float64]

STARTS = 12  # of the search, from points drawn around the first; the best counts
LOWEST = np.array([1.0, 0.01, 0.1, 0.5, 0.25, 0.3, 0.3, 0.01, 0.55])  # us x 4, shares x 3, us, share
HIGHEST = np.array([20.0, 3.0, 5.0, 18.0, 0.5, 120 / 128, 1.0, 8.0, 1.0])
FIRST = np.array([8.0, 0.1, 0.9, 5.0, 0.4, 0.7, 0.9, 1.5, 0.75])
PAIRS_LOWEST = np.array([0.01, 0.05, 0.5, 0.2])  # LL: us, share; Simple: us, share
PAIRS_HIGHEST = np.array([12.0, 0.5, 40.0, 1.0])
PAIRS_FIRST = np.array([3.0, 0.3, 10.0, 0.8])
UPLINK = (0.2, 0.01, 1.0)  # first, lowest and highest, over the port
PULL = 0.001  # per squared logarithm from FIRST: what the rows cannot tell stays near it


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What was fitted for one generation of devices on one class of links.

    Attributes:
        delays_us, shares: Of LL, LL128 and Simple.
        in_switch: Delay in us and share; absent if no row could tell.
        pairs: Of LL and Simple, delay in us and share; absent if no row could tell.
        uplinks: Of each level of a PCIe tree, devices that share an uplink, and its bytes per second.
    """

    base_us: float
    delays_us: tuple[float, float, float]
    shares: tuple[float, float, float]
    in_switch: tuple[float, float] | None = None
    pairs: tuple[tuple[float, float], tuple[float, float]] | None = None
    uplinks: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, point: Sequence[float], pairs: Sequence[float] | None = None) -> Costs:
        """From a point of the search, in the order of ``FIRST``, and one of that for pairs, as ``PAIRS_FIRST``."""
        return cls(
            base_us=point[0],
            delays_us=(point[1], point[2], point[3]),
            shares=(point[4], point[5], point[6]),
            in_switch=(point[7], point[8]) if len(point) == len(FIRST) else None,
            pairs=None if pairs is None else ((pairs[0], pairs[1]), (pairs[2], pairs[3])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """What joins the devices of a host.

    Attributes:
        port: A device's; a path has two of them.
        fill_steps: For how many steps more than it has a rank's channel is busy.
        blocks: Of each level of a PCIe tree, how many devices share an uplink.
    """

    port: LinkSpec
    fill_steps: float
    blocks: tuple[int, ...] = ()

    @property
    def latency_us(self) -> float:
        """Of a path."""
        return 2e-6 * self.port.latency_ps

    @property
    def byte_us(self) -> float:
        """A byte through a port."""
        return 1e6 / self.port.bandwidth_bytes_per_s


BOUNDS = (  # the least and the most that a search can find
    Costs.of(LOWEST.tolist(), PAIRS_LOWEST.tolist()),
    Costs.of(HIGHEST.tolist(), PAIRS_HIGHEST.tolist()),
)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Rows in columns."""

    rounds: Floats
    ranks: Floats
    sizes: Floats
    times_us: Floats
    summed: NDArray[np.bool_]  # whether a switch may sum

    @classmethod
    def of(cls, rows: Sequence[Row], in_switch_ranks: int | None) -> _Columns:
        ranks = np.array([row.ranks for row in rows], dtype=float)
        reduces = np.array([row.kind == "all_reduce" for row in rows])
        return cls(
            rounds=(ranks - 1) * np.where(reduces, 2, 1),
            ranks=ranks,
            sizes=np.array([row.size_bytes for row in rows], dtype=float),
            times_us=np.array([row.time_us for row in rows]),
            summed=reduces & (ranks >= (in_switch_ranks or np.inf)),
        )


def fit_costs(rows: Sequence[Row], wires: Wires, in_switch_ranks: int | None) -> Costs:
    """The costs with the least mean absolute error relative to the measured times, plus a pull to where it began.

    That is ``PULL`` times the sum of squares of the logarithms of the costs over ``FIRST``: it settles what the rows
    leave open, at little cost to what they tell. All costs stay within ``BOUNDS``, and uplinks within ``UPLINK``. Those
    of pairs are fitted after the others, with their base, from and to ``PAIRS_FIRST``.

    Args:
        rows: On one host.
        in_switch_ranks: From how many ranks on a switch may sum an all-reduce; never if absent.
    """
    rings = [row for row in rows if row.kind != "all_to_all"]
    columns = _Columns.of(rings, in_switch_ranks)
    count = len(FIRST) if columns.summed.any() else len(FIRST) - 2
    first, lowest, highest = (
        np.append(costs[:count], [uplink] * len(wires.blocks))
        for costs, uplink in zip((FIRST, LOWEST, HIGHEST), UPLINK, strict=True)
    )
    best = _search(
        lambda point: _predicted_us(point[:count], point[count:], columns, wires) / columns.times_us,
        first,
        lowest,
        highest,
    )
    uplinks = [share * wires.port.bandwidth_bytes_per_s for share in best[count:]]
    found = replace(Costs.of(best[:count]), uplinks=tuple(zip(wires.blocks, uplinks, strict=True)))
    exchanges = [row for row in rows if row.kind == "all_to_all"]
    return replace(found, pairs=_fit_pairs(exchanges, found, wires)) if exchanges else found


def _fit_pairs(rows: Sequence[Row], rings: Costs, wires: Wires) -> tuple[tuple[float, float], tuple[float, float]]:
    columns = _Columns.of(rows, None)
    ll_us, ll, simple_us, simple = _search(
        lambda pairs: _pairs_us(pairs, rings, columns, wires) / columns.times_us,
        PAIRS_FIRST,
        PAIRS_LOWEST,
        PAIRS_HIGHEST,
    )
    return (ll_us, ll), (simple_us, simple)


def _pairs_us(pairs: Floats, rings: Costs, columns: _Columns, wires: Wires) -> Floats:
    """Of each exchange of all pairs; ``pairs`` as ``PAIRS_FIRST``."""
    ranks = columns.ranks
    busy_us = [(ranks - 1 + wires.fill_steps) * wires.byte_us]
    busy_us += [devices * np.maximum(ranks - devices, 0) * 1e6 / rate for devices, rate in rings.uplinks]
    sent_us = np.max(busy_us, axis=0) / ranks * columns.sizes
    fixed_us = rings.base_us + wires.latency_us
    ll, simple = (fixed_us + delay + sent_us / share for delay, share in (pairs[:2], pairs[2:]))
    found: Floats = np.minimum(ll, simple)
    return found


def errors(rows: Sequence[Row], costs: Costs, wires: Wires, in_switch_ranks: int | None) -> dict[Row, float]:
    """Of each row, its time with these costs in closed form over the measured one, less 1.

    Rows that no cost is of are left out.
    """
    rings = [row for row in rows if row.kind != "all_to_all"]
    exchanges = [row for row in rows if row.kind == "all_to_all" and costs.pairs]
    point = np.array([costs.base_us, *costs.delays_us, *costs.shares, *(costs.in_switch or ())])
    uplinks = np.array([rate for _, rate in costs.uplinks]) / wires.port.bandwidth_bytes_per_s
    times_us = _predicted_us(point, uplinks, _Columns.of(rings, in_switch_ranks), wires).tolist()
    if costs.pairs:
        times_us += _pairs_us(np.ravel(costs.pairs), costs, _Columns.of(exchanges, None), wires).tolist()
    return {row: us / row.time_us - 1 for row, us in zip((*rings, *exchanges), times_us, strict=True)}


def _search(off: Callable[[Floats], Floats], first: Floats, lowest: Floats, highest: Floats) -> list[float]:
    """The point with the least mean of ``abs(off - 1)`` plus the pull to ``first``, within bounds."""
    low, middle, high = np.log(lowest), np.log(first), np.log(highest)

    def inside(point: Floats) -> Floats:
        return off(np.exp(np.clip(point, low, high)))

    def loss(point: Floats) -> float:
        return float(np.abs(inside(point) - 1).mean() + PULL * ((point - middle) ** 2).sum())

    dice = np.random.default_rng(0)
    found = []
    for start in range(STARTS):
        begin = np.clip(middle + (dice.normal(0, 0.4, len(first)) if start else 0), low + 1e-6, high - 1e-6)
        near = least_squares(lambda x: np.log(inside(x)), begin, bounds=(low, high), loss="soft_l1", f_scale=0.05)
        found.append(minimize(loss, near.x, method="Nelder-Mead"))
    best: list[float] = np.exp(np.clip(min(found, key=lambda result: float(result.fun)).x, low, high)).tolist()
    return best


def _predicted_us(costs: Floats, uplinks: Floats, rows: _Columns, wires: Wires) -> Floats:
    """Of each row; ``uplinks`` are those of the levels of the tree, over the port."""
    slowdowns = [
        np.where(rows.ranks > devices, 1 / share, 1) for devices, share in zip(wires.blocks, uplinks, strict=True)
    ]
    byte_us = wires.byte_us * np.max([np.ones(len(rows.ranks)), *slowdowns], axis=0)
    sent_us = (rows.rounds + wires.fill_steps) / rows.ranks * rows.sizes * byte_us
    times = [
        costs[0] + rows.rounds * (wires.latency_us + delay) + sent_us / share
        for delay, share in zip(costs[1:4], costs[4:7], strict=True)
    ]
    if len(costs) > 7:
        k, (delay, share) = Nvls().pieces, costs[7:9]
        passes = (k + 2) / k + (k + 1) / (k * rows.ranks)
        in_switch = costs[0] + (2 * k + 3) * (wires.latency_us + delay) + passes * rows.sizes * byte_us / share
        times.append(np.where(rows.summed, in_switch, np.inf))
    found: Floats = np.min(times, axis=0)
    return found


def fit_latency_ps(rows: Sequence[Row], predicted_us: Callable[[Row, int], float]) -> int:
    """The latency of a NIC's port with the least mean absolute error, in steps of a half from 1 us to 1 ms.

    Args:
        predicted_us: Of a row, if the port has that latency in ps.
    """
    offered = [round(1_000_000 * 1.5**step) for step in range(18)]
    return min(offered, key=lambda ps: sum(abs(predicted_us(row, ps) / row.time_us - 1) for row in rows))
