"""Stages cut out of a row of devices, kind after kind, and the ways to tie the devices of each together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

from xsim.plan.search.contracts import Kind, Seat, Tables
from xsim.plan.search.grids import powers_of_two
from xsim.plan.search.shares import largest_remainder
from xsim.plan.search.stage_runs import StageRuns
from xsim.plan.search.stage_sizes import stage_sizes

__all__ = ["Mix", "TiedStage", "Tying", "shapes"]

Mix = tuple[tuple[int, int], ...]  # (number of a kind, how many of its devices), of one stage


@dataclass(frozen=True, slots=True)
class TiedStage:
    """Devices of a stage and how they are tied together.

    Attributes:
        seats: Its copies, those with equal samples together.
    """

    tp: int
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tying:
    """Ways to tie devices together, with what each copy takes of a micro-batch.

    Attributes:
        largest_tp: 0: no limit but the hosts.
        largest_samples: The most that a copy takes at once.
    """

    runs: StageRuns
    largest_tp: int
    largest_samples: int
    _degrees: dict[Mix, list[int]] = field(default_factory=dict)
    _tied: dict[tuple[Mix, int, int], TiedStage | None] = field(default_factory=dict)

    def degrees(self, mix: Mix) -> list[int]:
        """Powers of two that divide the devices of each kind in a stage, ascending."""
        if mix not in self._degrees:
            self._degrees[mix] = self._found_degrees(mix)
        return self._degrees[mix]

    def _found_degrees(self, mix: Mix) -> list[int]:
        kinds = self.runs.tables.kinds
        most = min(max(self.runs.tables.tps(kinds[number].name)) for number, _ in mix)
        most = min(most, self.largest_tp or most)
        return [tp for tp in powers_of_two(most) if all(count % tp == 0 for _, count in mix)]

    def tied(self, mix: Mix, tp: int, samples: int) -> TiedStage | None:
        """Copies of ``tp`` devices each that share samples by speed; None if one would get too few or many."""
        key = (mix, tp, samples)
        if key not in self._tied:
            self._tied[key] = self._tie(mix, tp, samples)
        return self._tied[key]

    def _tie(self, mix: Mix, tp: int, samples: int) -> TiedStage | None:
        names = [(self.runs.tables.kinds[number].name, count // tp) for number, count in mix]
        copies = sum(count for _, count in names)
        if samples < copies or (len(names) == 1 and samples % copies):
            return None
        speeds = [2**40 // self.runs.layer_ps((Seat(name, tp, 1),)) for name, _ in names]
        weights = [own for (_, count), own in zip(names, speeds, strict=True) for _ in range(count)]
        shares = largest_remainder(samples, weights)
        if min(shares) < 1 or max(shares) > self.largest_samples:
            return None
        seats, start = [], 0
        for name, count in names:
            own = shares[start : start + count]
            start += count
            for each in sorted(set(own), reverse=True):
                seats.append(Seat(name, tp, each, own.count(each)))
        return TiedStage(tp, tuple(seats))


def shapes(tables: Tables, variance: float, blocks: int) -> Iterator[tuple[int, tuple[Mix, ...]]]:
    """(number of the order of kinds, devices of each stage): all that Metis looks at, in its order.

    Args:
        variance, blocks: As ``stage_sizes`` has them.
    """
    total = sum(kind.count for kind in tables.kinds)
    for number, order in enumerate(permutations(range(len(tables.kinds)))):
        for stages in range(1, min(total, tables.layers) + 1):
            for sizes in stage_sizes(total, stages, variance, blocks):
                yield number, _mixes(order, tables.kinds, sizes)


def _mixes(order: tuple[int, ...], kinds: tuple[Kind, ...], sizes: tuple[int, ...]) -> tuple[Mix, ...]:
    """Which devices each stage gets of the row of kinds."""
    left = [(number, kinds[number].count) for number in order]
    found = []
    for size in sizes:
        own, missing = [], size
        while missing:
            number, count = left[0]
            taken = min(count, missing)
            own.append((number, taken))
            left[:1] = [(number, count - taken)] if taken < count else []
            missing -= taken
        found.append(tuple(own))
    return tuple(found)
