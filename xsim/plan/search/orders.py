"""Which stages a pipeline may have, in order: kinds of devices, tensor-parallel degrees and copies of each.

Where they are few, all of them. Where they are not, those of at most three runs of equal stages: of any two on unlike
kinds of devices, of two degrees on one kind, and of three without copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product
from math import gcd

from xsim.plan.search.contracts import Seat, Tables

__all__ = ["Order", "Space", "every_order", "neighbours", "orders"]


@dataclass(frozen=True, slots=True)
class Order:
    """The stages of a pipeline, without their layers."""

    micro_batch: int
    seats: tuple[Seat, ...]

    @property
    def devices(self) -> Counter[str]:
        """How many of each kind."""
        found: Counter[str] = Counter()
        for seat in self.seats:
            found[seat.kind] += seat.tp * seat.width
        return found


@dataclass(frozen=True, slots=True)
class Space:
    """What is searched.

    Attributes:
        stages: Most of a pipeline.
        width: Most copies of a stage in a pipeline, which are 1, 2, 4 and so on.
        micro_batch: Most samples that a copy takes at once, of those that the tables have.
        limit: Most orders that are listed one by one.
    """

    stages: int
    width: int
    micro_batch: int
    limit: int = 4000


def orders(tables: Tables, space: Space) -> tuple[list[Order], bool]:
    """Those that are searched, and whether they are all that there are in ``space``."""
    found: list[Order] = []
    for order in every_order(tables, space):
        found.append(order)
        if len(found) > space.limit:
            return list(_patterns(tables, space)), False
    return found, True


def every_order(tables: Tables, space: Space) -> Iterator[Order]:
    """All, the shorter pipelines of each micro-batch first.

    Copies of every stage in whole multiples are several pipelines of fewer, which take the same time: left out.
    """
    has = {kind.name: kind.count for kind in tables.kinds}
    for micro_batch, seats in _seats(tables, space).items():
        for stages in range(1, min(space.stages, tables.layers) + 1):
            yield from (Order(micro_batch, found) for found in _sequences(seats, has, stages) if _coprime(found))


def neighbours(near: Iterable[Order], tables: Tables, space: Space) -> Iterator[Order]:
    """Those that are one edit away from one of ``near``.

    A stage is added, left out, replaced, split into two or joined with the next, two change places, or micro-batches
    are twice or half as large.
    """
    has = {kind.name: kind.count for kind in tables.kinds}
    offered, most = _seats(tables, space), min(space.stages, tables.layers)
    for order in near:
        own, size = order.seats, order.micro_batch
        edited = [(size, seats) for seats in _edits(own, offered.get(size, []))]
        edited += [(2 * size, seats) for seats in _larger(own)]
        edited += [(size // 2, seats) for seats in _smaller(own)]
        for micro_batch, seats in edited:
            found, allowed = Order(micro_batch, seats), offered.get(micro_batch, [])
            fit = all(n <= has[kind] for kind, n in found.devices.items()) and all(seat in allowed for seat in seats)
            if 0 < len(seats) <= most and _coprime(seats) and fit:
                yield found


def _edits(own: tuple[Seat, ...], seats: Sequence[Seat]) -> Iterator[tuple[Seat, ...]]:
    for at in range(len(own) + 1):
        before, after = own[:at], own[at:]
        yield before + after[1:]
        for seat in seats:
            yield (*before, seat, *after)
            yield (*before, seat, *after[1:])
            yield (*before, seat, *after[2:])
            yield (*before, seat, seat, *after[1:])
    for a, b in combinations(range(len(own)), 2):
        yield (*own[:a], own[b], *own[a + 1 : b], own[a], *own[b + 1 :])


def _larger(own: tuple[Seat, ...]) -> Iterator[tuple[Seat, ...]]:
    """Each copy takes twice as much, but for one stage at most that has twice the copies instead."""
    more = tuple(replace(seat, samples=2 * seat.samples) for seat in own)
    yield more
    yield from ((*more[:s], replace(seat, width=2 * seat.width), *more[s + 1 :]) for s, seat in enumerate(own))


def _smaller(own: tuple[Seat, ...]) -> Iterator[tuple[Seat, ...]]:
    """Each copy takes half as much, or of those that take one sample there are half as many."""
    halves = (
        replace(seat, samples=seat.samples // 2) if seat.samples > 1 else replace(seat, width=seat.width // 2)
        for seat in own
    )
    yield tuple(halves)


def _coprime(seats: Iterable[Seat]) -> bool:
    return gcd(*(seat.width for seat in seats)) == 1


def _seats(tables: Tables, space: Space) -> dict[int, list[Seat]]:
    """By micro-batch."""
    found: dict[int, list[Seat]] = {}
    for kind in tables.kinds:
        for tp in tables.tps(kind.name):
            for samples in tables.micro_batches(kind.name, tp):
                width = 1
                while width <= space.width and samples <= space.micro_batch and width * tp <= kind.count:
                    if tables.batch % (samples * width) == 0:
                        found.setdefault(samples * width, []).append(Seat(kind.name, tp, samples, width))
                    width *= 2
    return dict(sorted(found.items()))


def _sequences(seats: Sequence[Seat], left: Mapping[str, int], stages: int) -> Iterator[tuple[Seat, ...]]:
    if not stages:
        yield ()
        return
    for seat in seats:
        rest = left[seat.kind] - seat.tp * seat.width
        if rest >= 0:
            yield from ((seat, *others) for others in _sequences(seats, {**left, seat.kind: rest}, stages - 1))


def _patterns(tables: Tables, space: Space) -> Iterator[Order]:
    has = {kind.name: kind.count for kind in tables.kinds}
    most = min(space.stages, tables.layers)
    lengths = {parts: _lengths(most, parts) for parts in (1, 2, 3)}
    for micro_batch, seats in _seats(tables, space).items():
        plain = [seat for seat in seats if seat.width == 1]
        runs: list[tuple[Seat, ...]] = [(seat,) for seat in seats]
        runs += [(near, far) for near, far in permutations(seats, 2) if near.kind != far.kind]
        runs += [(near, far) for near, far in permutations(plain, 2) if near.kind == far.kind]
        runs += [(near, far, near) for near, far in permutations(plain, 2) if near.kind != far.kind]
        runs += [three for three in permutations(plain, 3) if len({seat.kind for seat in three}) == 3]
        for run in filter(_coprime, runs):
            takes = [seat.tp * seat.width for seat in run]
            alike = [[i for i, seat in enumerate(run) if seat.kind == kind] for kind in has]
            for counts in lengths[len(run)]:
                if all(
                    sum(takes[i] * counts[i] for i in own) <= most
                    for own, most in zip(alike, has.values(), strict=True)
                ):
                    yield Order(micro_batch, sum(((seat,) * n for seat, n in zip(run, counts, strict=True)), ()))


def _lengths(most: int, parts: int) -> list[tuple[int, ...]]:
    return [each for each in product(range(1, most + 1), repeat=parts) if sum(each) <= most]
