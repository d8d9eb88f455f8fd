"""What the published code of Metis chooses, with what is wrong in it (https://github.com/SamsungLabs/Metis).

Written from a description of its behaviour; its cuts need not be the same layer for layer. What differs from the search
that ``planner=metis`` otherwise does:

- Layers, embedding and head among them, are dealt out in sevenths: to each stage from the left as many as its share of
  the speed allows, to the last from the right, the rest to the stage with most left over; a layer goes to the stage
  with most of its sevenths, and a stage has the run that begins where the one before it ended. So stages may be empty,
  and the last may end too early: the plan is priced all the same.
- Memory is five times the weights and the activations of one micro-batch, against that of all devices of a stage.
- Of all orders of kinds but the first, plans of two stages are priced by their first stage alone.
- Where a stage's memory is short its share shrinks; what it loses goes to the stages that have memory to spare.
- A copy in a stage of unlike devices takes the time of the powers of two that its samples are the sum of: of five that
  of four and of one.
- Links between hosts count as those inside, hand-overs by elements instead of bytes, and once. Each sum and each
  hand-over counts the slowest link of the devices that have part in it.

Not reproduced: what its profiles add to each micro-batch beside layers (the batch generator, and what a whole pass
takes beyond its layers), as nothing here is like it; that memory is that of the first rank's type, as types do not
differ in what layers take here; that orders of kinds depend on Python's hash seed, as they are the cluster's here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from xsim.errors import SpecError
from xsim.plan.search.contracts import Seat
from xsim.plan.search.device_rows import Mix, TiedStage, Tying, shapes
from xsim.plan.search.grids import divisors
from xsim.plan.search.sync import ring_ps
from xsim.plan.search.tables import ModelTables
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage
from xsim.spec.cluster import rank_kinds, rank_slots
from xsim.units import PS_PER_S

__all__ = ["Published", "as_published", "dealt", "shifted"]

Times = np.ndarray[tuple[int], np.dtype[Any]]

PARTS = 7  # of a layer, which are dealt out
MEMORY = 5.0  # times what a layer takes
RETRIES = 3
SHRUNK = 0.9


def as_published(tying: Tying, priced: ModelTables, sizes: tuple[float, int], evaluations: int) -> Sketch:
    """The plan with the least cost.

    Args:
        sizes: Variance and blocks of the sizes of stages.
        evaluations: How many pairs of stages and micro-batches are looked at.

    Raises:
        SpecError: It leaves out layers or has empty stages, or no plan at all is priced.
    """
    best: tuple[float, list[TiedStage], tuple[int, ...], int] | None = None
    search = Published(tying, priced)
    counts = divisors(priced.batch)
    for order, row in islice(shapes(priced, *sizes), -(-evaluations // len(counts))):
        if order and len(row) == 1:
            continue  # the walk through stages begins with two of them
        for micro_batches in counts:
            for stages, cuts in search.walk(row, micro_batches):
                seen = 1 if order and len(row) == 2 else len(row)
                cost = search.cost_ps(stages[:seen], cuts, micro_batches)
                if best is None or cost < best[0]:
                    best = cost, stages, cuts, micro_batches
    if best is None:
        problem = "no plan fits by five times the weights and activations of a micro-batch"
        raise SpecError("planner.faithful", True, problem, "write faithful: false, or add devices")
    cost, stages, cuts, micro_batches = best
    _check_covered(cuts, priced.layers)
    found = tuple(
        SketchStage(range(a, b), tuple(Copies(seat.kind, seat.tp, seat.width, seat.samples) for seat in stage.seats))
        for stage, (a, b) in zip(stages, pairwise(cuts), strict=True)
    )
    pipeline = Pipeline(found, priced.batch // micro_batches, micro_batches)
    return Sketch((pipeline,), predicted_ps=int(cost))


def _check_covered(cuts: tuple[int, ...], layers: int) -> None:
    fix = "write faithful: false"
    for stage, (a, b) in enumerate(pairwise(cuts)):
        if a == b:
            problem = f"stage {stage} of {len(cuts) - 1} of the plan that it chooses has no layers"
            raise SpecError("planner.faithful", True, problem, fix)
    if cuts[-1] < layers + 2:
        problem = f"the plan that it chooses leaves out layers {cuts[-1]} to {layers + 1}"
        raise SpecError("planner.faithful", True, problem, fix)


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """Its prices and its cuts."""

    tying: Tying
    priced: ModelTables

    def walk(self, row: tuple[Mix, ...], micro_batches: int) -> list[tuple[list[TiedStage], tuple[int, ...]]]:
        """Ways to tie the devices of stages together, up to the first whose first cuts have memory."""
        samples = self.priced.batch // micro_batches
        degrees = [self.tying.degrees(mix) for mix in row]
        at, found = [0] * len(row), []
        while True:
            tied = [self.tying.tied(mix, own[i], samples) for mix, own, i in zip(row, degrees, at, strict=True)]
            stages = [own for own in tied if own]
            spare = [0.0] * len(row)
            if len(stages) == len(row):
                cuts, tries, spare = self._cut(stages)
                if cuts:
                    found.append((stages, cuts))
                if cuts and tries == 1:
                    return found
            grown = [s for s in range(len(row)) if at[s] + 1 < len(degrees[s])]
            if not grown:
                return found
            at[min(grown, key=lambda s: (tied[s] is not None, spare[s]))] += 1

    def _cut(self, stages: list[TiedStage]) -> tuple[tuple[int, ...] | None, int, list[float]]:
        """Cuts, after how many tries, and what memory is left; no cuts if the last try lacks memory."""
        passes = [np.maximum.reduce(self.passes(own)) for own in stages]
        speeds = np.array([1 / each.sum() for each in passes])
        shares, first = speeds / speeds.sum(), passes[0] / passes[0].sum()
        has = [sum(self.priced.capacity_bytes(s.kind) * s.tp * s.width for s in own.seats) for own in stages]
        spare: list[float] = []
        for tries in range(1, RETRIES + 2):
            cuts = dealt(first.tolist(), shares.tolist())
            needs = [self._need_bytes(own, a, b) for own, (a, b) in zip(stages, pairwise(cuts), strict=True)]
            spare = [own - need for own, need in zip(has, needs, strict=True)]
            if min(spare) >= 0:
                return cuts, tries, spare
            scale = [SHRUNK * own / need if need > own else 1.0 for own, need in zip(has, needs, strict=True)]
            shares = shifted(shares, np.array(scale), np.array(spare) > 0)
        return None, RETRIES + 1, spare

    def passes(self, stage: TiedStage) -> list[Times]:
        """Of each copy what all layers take, embedding and head among them."""
        mixed = len({seat.kind for seat in stage.seats}) > 1
        return [self._passes(seat, in_pieces=mixed) for seat in stage.seats]

    def _passes(self, seat: Seat, *, in_pieces: bool) -> Times:
        bits = [1 << bit for bit in range(seat.samples.bit_length()) if seat.samples >> bit & 1]
        each = [(seat.kind, seat.tp, samples) for samples in (bits if in_pieces else [seat.samples])]
        found = np.zeros(self.priced.layers + 2, dtype=np.int64)
        for at in each:
            found += self.priced.forward_ps(*at) + self.priced.backward_ps(*at)
        return found

    def _need_bytes(self, stage: TiedStage, start: int, stop: int) -> float:
        """Of all copies of a stage of layers start..stop-1."""
        model, scenario = self.priced.scenario.model, self.priced.scenario
        total = 0.0
        for seat in stage.seats:
            inner = range(max(start, 1), min(stop, self.priced.layers + 1))
            weights = sum(model.layer_parameters(layer) for layer in range(start, stop)) * scenario.dtype_bytes
            columns = [self.priced.memory_column(seat.kind, seat.tp, seat.samples, (False, False), f) for f in (1, 2)]
            kept = int(columns[1][len(inner)] - columns[0][len(inner)])
            total += (weights + kept * seat.tp) * seat.width
        return MEMORY * total

    def cost_ps(self, stages: Sequence[TiedStage], cuts: tuple[int, ...], micro_batches: int) -> float:
        """Of the stages that are looked at."""
        model = self.priced.scenario.model
        spans = list(pairwise(cuts))[: len(stages)]
        times = [max(int(x[a:b].sum()) for x in self.passes(own)) for own, (a, b) in zip(stages, spans, strict=True)]
        total = float((micro_batches - 1) * max(times) + sum(times))
        rates = [min(self._rate(seat.kind) for seat in own.seats) for own in stages]
        elements = self.priced.batch // micro_batches * model.seq_len * model.hidden
        total += sum(elements / min(pair) * PS_PER_S for pair in pairwise(rates))
        syncs = []
        for own, rate, (a, b) in zip(stages, rates, spans, strict=True):
            copies = sum(seat.width for seat in own.seats)
            size = sum(model.layer_parameters(layer) for layer in range(a, b)) * self.priced.scenario.dtype_bytes
            syncs.append(ring_ps(size, copies, own.tp, rate, latency_ps=0))
        updates = [
            max((self.priced.update_ps(seat.kind, seat.tp, range(a, b)) for seat in own.seats), default=0)
            if b > a
            else 0
            for own, (a, b) in zip(stages, spans, strict=True)
        ]
        return total + max(syncs) + max(updates)

    def _rate(self, kind: str) -> float:
        """Of the slowest link inside a host with such devices; if each is alone in its host, of its port."""
        cluster = self.priced.scenario.cluster
        links = (
            slot.scale_up_link or slot.pcie_link
            for own, slot in zip(rank_kinds(cluster), rank_slots(cluster), strict=True)
            if own == kind
        )
        return min(link.bandwidth_bytes_per_s for link in links)


def shifted(shares: Times, scale: Times, roomy: Times) -> Times:
    """Shares that shrink where memory is short; what they lose goes to those with room, by their shares, or to all.

    Args:
        scale: Of each share what is left of it.
        roomy: Which stages have memory to spare.
    """
    smaller = shares * scale
    takers = smaller * roomy if (smaller * roomy).any() else smaller
    return np.asarray(smaller + (shares.sum() - smaller.sum()) * takers / takers.sum())


def dealt(layers: Sequence[float], shares: Sequence[float]) -> tuple[int, ...]:
    """Cuts of layers among stages by sevenths; stages may be empty, and the last cut short of the last layer.

    Args:
        layers: What each takes, as parts of the whole.
        shares: What part of the whole each stage is to take.
    """
    parts = [each / PARTS for each in layers for _ in range(PARTS)]
    owner, room = _filled(parts, list(shares))
    for part in range(len(parts)):
        if owner[part] < 0:
            owner[part] = max(range(len(room)), key=lambda s: room[s])
            room[owner[part]] -= parts[part]
    votes = [_vote(owner[PARTS * layer : PARTS * (layer + 1)]) for layer in range(len(layers))]
    cuts = [0]
    for stage in range(len(shares)):
        stop = cuts[-1]
        while stop < len(votes) and votes[stop] == stage:
            stop += 1
        cuts.append(stop)
    return _moved(tuple(cuts), layers, shares)


def _filled(parts: Sequence[float], room: list[float]) -> tuple[list[int], list[float]]:
    """Who has each part, -1 if nobody; from the left stage by stage, and the last from the right."""
    owner, at, last = [-1] * len(parts), 0, len(room) - 1
    for stage in range(last):
        while at < len(parts) and parts[at] <= room[stage]:
            owner[at], room[stage], at = stage, room[stage] - parts[at], at + 1
    back = len(parts) - 1
    while back >= at and parts[back] <= room[last]:
        owner[back], room[last], back = last, room[last] - parts[back], back - 1
    return owner, room


def _vote(owners: Sequence[int]) -> int:
    return max(sorted(set(owners)), key=owners.count)


def _moved(cuts: tuple[int, ...], layers: Sequence[float], shares: Sequence[float]) -> tuple[int, ...]:
    """Up to three layers moved over a boundary, each so that the fullest stage gets less full."""

    def fullest(own: tuple[int, ...]) -> float:
        return max(sum(layers[a:b]) / share for (a, b), share in zip(pairwise(own), shares, strict=True))

    for _ in range(RETRIES):
        moves = [
            (*cuts[:inner], cuts[inner] + step, *cuts[inner + 1 :])
            for inner in range(1, len(cuts) - 1)
            for step in (-1, 1)
            if cuts[inner - 1] <= cuts[inner] + step <= cuts[inner + 1]
        ]
        better = min(moves, key=fullest, default=cuts)
        if fullest(better) >= fullest(cuts):
            return cuts
        cuts = better
    return cuts
