"""The ways to have each stage of a pipeline whose devices are given, and what such a pipeline takes at least."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from xsim.plan.search.contracts import Seat
from xsim.plan.search.groupings import Composition, Grouping
from xsim.plan.search.stage_passes import After, Ends, Passes, StagePasses

__all__ = ["Hops", "Option", "Options", "StageOptions"]


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A stage with tensor groups of one width.

    Attributes:
        most: Transformer layers that fit if no activations are kept.
        layer_ps: What one of them takes if nothing is recomputed; ``ends_ps`` what the ends of the model take.
        after: What follows the last micro-batch.
    """

    tp: int
    seats: tuple[Seat, ...]
    passes: Passes
    most: int
    layer_ps: int
    ends_ps: int
    after: After


Options = tuple[tuple[Option, ...], ...]  # of each stage the ways to have it
Hops = tuple[tuple[tuple[int, int], ...], ...]  # by option of two neighbours what each sends


@dataclass(frozen=True, slots=True)
class _Floor:
    """What no option of a stage goes beyond: layers that fit; less time of a layer, of the ends, and after the last."""

    most: int
    layer_ps: int
    ends_ps: int
    after_ps: int


@dataclass(frozen=True, slots=True, eq=False)
class StageOptions:
    """Of stages of one model on one cluster, kept for the next that asks.

    Attributes:
        missing_layers: Of sequences of stages with too little memory for the weights, by how many layers the nearest
            missed; empty if there were none.
    """

    passes: StagePasses
    missing_layers: list[int] = field(default_factory=list)
    _options: dict[tuple[Composition, int, Ends, int], tuple[Option, ...]] = field(default_factory=dict)
    _sizes: dict[Composition, frozenset[int]] = field(default_factory=dict)
    _hops: dict[tuple[int, int], Hops] = field(default_factory=dict)  # by identity of options, which are all kept
    _ends_sums: dict[tuple[int, int], Hops] = field(default_factory=dict)
    _least_hops: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    _floors: dict[int, _Floor] = field(default_factory=dict)
    _flying: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def micro_batches(self, stages: Grouping, batch: int) -> tuple[int, ...]:
        """Sizes up to ``batch`` that all stages can cut into equal parts, ascending."""
        found = frozenset.intersection(*(self._cut(devices) for devices in stages))
        return tuple(sorted(size for size in found if size <= batch))

    def of(self, stages: Grouping, micro_batch: int, batch: int) -> Options:
        """Of each stage the ways to have it, narrowest tensor groups first."""
        count, last = -(-batch // micro_batch), len(stages) - 1
        return tuple(
            self._stage(devices, micro_batch, (j == 0, j == last), self.in_flight(j, last + 1, count))
            for j, devices in enumerate(stages)
        )

    def in_flight(self, stage: int, stages: int, micro_batches: int) -> int:
        """As the tables say, which is not asked of many micro-batches if no more are kept of them than of a few."""
        key = (stage, stages, micro_batches)
        if key not in self._flying:
            few = min(micro_batches, 2 * stages + 2)
            kept = self.passes.tables.in_flight(stage, stages, few)
            if few < micro_batches and kept != self.passes.tables.in_flight(stage, stages, few - 1):
                kept = self.passes.tables.in_flight(stage, stages, micro_batches)
            self._flying[key] = kept
        return self._flying[key]

    def hops_ps(self, options: Options) -> list[Hops]:
        """Of neighbouring stages, by option of either, what each sends to the other for one micro-batch."""
        found = []
        for near, far in pairwise(options):
            key = (id(near), id(far))
            if key not in self._hops:
                self._hops[key] = tuple(tuple(self._hop(a.seats, b.seats) for b in far) for a in near)
            found.append(self._hops[key])
        return found

    def ends_sums_ps(self, options: Options) -> Hops:
        """By option of the first stage and of the last, what the sum of gradients of the model's ends takes either."""
        first, last = options[0], options[-1]
        key = (id(first), id(last))
        if key not in self._ends_sums:
            alone = len(options) == 1
            self._ends_sums[key] = tuple(
                tuple(self._ends_sum((a.seats,) if alone else (a.seats, b.seats)) for b in last) for a in first
            )
        return self._ends_sums[key]

    def _ends_sum(self, stages: tuple[tuple[Seat, ...], ...]) -> tuple[int, int]:
        found = self.passes.ends_sums_ps(stages)
        return found[0], found[-1]

    def least_ps(self, options: Options) -> tuple[int, int, int] | None:
        """No pipeline with these has less (fill, straggler, what follows); None if weights do not fit.

        Layers are taken as divisible, and memory for activations as ample.
        """
        layers = self.passes.tables.layers
        if not all(options):
            return None
        floors = [self._floor(own) for own in options]
        room = sum(floor.most for floor in floors)
        if room < layers:
            self.missing_layers[:] = [min(layers - room, *self.missing_layers[:1] or (layers,))]
            return None
        each = [floor.layer_ps for floor in floors]
        ends = [floor.ends_ps for floor in floors]
        for j, pair in enumerate(pairwise(options)):
            out, back = self._least_hop(*pair)
            ends[j] += out
            ends[j + 1] += back
        rate, waiting, after, longest = 0.0, 0.0, 0.0, 0
        for end, own, floor in zip(ends, each, floors, strict=True):
            rate += 1 / own
            waiting += end / own
            after += 1 / floor.after_ps
            longest = max(longest, end + own)
        fill_ps = sum(ends) + sum(each) + (layers - len(each)) * min(each)
        return fill_ps, max(int((layers + waiting) / rate), longest), int(layers / after)

    def _floor(self, own: tuple[Option, ...]) -> _Floor:
        if id(own) not in self._floors:
            self._floors[id(own)] = _Floor(
                max(option.most for option in own),
                max(1, min(option.layer_ps for option in own)),
                min(option.ends_ps for option in own),
                max(1, min(option.after.sum_ps + option.after.update_ps for option in own)),
            )
        return self._floors[id(own)]

    def _least_hop(self, near: tuple[Option, ...], far: tuple[Option, ...]) -> tuple[int, int]:
        key = (id(near), id(far))
        if key not in self._least_hops:
            (hops,) = self.hops_ps((near, far))
            each = [hop for row in hops for hop in row]
            self._least_hops[key] = min(out for out, _ in each), min(back for _, back in each)
        return self._least_hops[key]

    def _hop(self, near: tuple[Seat, ...], far: tuple[Seat, ...]) -> tuple[int, int]:
        out, back = self.passes.tables.hand_overs_ps((near, far))
        return out, back

    def _cut(self, devices: Composition) -> frozenset[int]:
        if devices not in self._sizes:
            kinds = [name for name, count in zip(self.passes.names, devices, strict=True) if count]
            self._sizes[devices] = frozenset(
                samples * (sum(devices) // tp)
                for tp in self.passes.degrees(devices)
                for samples in self.passes.tables.micro_batches(kinds[0], tp)
            )
        return self._sizes[devices]

    def _stage(self, devices: Composition, micro_batch: int, ends: Ends, in_flight: int) -> tuple[Option, ...]:
        key = (devices, micro_batch, ends, in_flight)
        if key not in self._options:
            found = []
            for tp in self.passes.degrees(devices):
                seats = self.passes.seats(devices, tp, micro_batch)
                if seats and (most := self.passes.most_layers(seats, ends)) >= 1:
                    times = self.passes.layer_ps(seats), self.passes.ends_ps(seats, ends)
                    own = self.passes.passes(seats, ends, in_flight)
                    found.append(Option(tp, seats, own, most, *times, self.passes.after_ps(seats, ends)))
            self._options[key] = tuple(found)
        return self._options[key]
