"""The ways to have each stage of a pipeline whose devices are given, and what such a pipeline takes at least."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from xsim.plan.search.contracts import Seat
from xsim.plan.search.groupings import Composition, Grouping
from xsim.plan.search.stage_passes import Ends, Passes, StagePasses

__all__ = ["Hops", "Option", "Options", "StageOptions"]


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A stage with tensor groups of one width.

    Attributes:
        most: Transformer layers that fit if no activations are kept.
        layer_ps: What one of them takes if nothing is recomputed; ``ends_ps`` what the ends of the model take.
    """

    tp: int
    seats: tuple[Seat, ...]
    passes: Passes
    most: int
    layer_ps: int
    ends_ps: int


Options = tuple[tuple[Option, ...], ...]  # of each stage the ways to have it
Hops = tuple[tuple[tuple[int, int], ...], ...]  # by option of two neighbours what each sends


@dataclass(frozen=True, slots=True, eq=False)
class StageOptions:
    """Of stages of one model on one cluster, kept for the next that asks."""

    passes: StagePasses
    _options: dict[tuple[Composition, int, Ends, int], tuple[Option, ...]] = field(default_factory=dict)
    _sizes: dict[Composition, frozenset[int]] = field(default_factory=dict)
    _hops: dict[tuple[int, int], Hops] = field(default_factory=dict)

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
        few = min(micro_batches, 2 * stages + 2)
        kept = self.passes.tables.in_flight(stage, stages, few)
        if few == micro_batches or kept == self.passes.tables.in_flight(stage, stages, few - 1):
            return kept
        return self.passes.tables.in_flight(stage, stages, micro_batches)

    def hops_ps(self, options: Options) -> list[Hops]:
        """Of neighbouring stages, by option of either, what each sends to the other for one micro-batch."""
        found = []
        for near, far in pairwise(options):
            key = (id(near), id(far))  # both are kept in _options
            if key not in self._hops:
                self._hops[key] = tuple(tuple(self._hop(a.seats, b.seats) for b in far) for a in near)
            found.append(self._hops[key])
        return found

    def least_ps(self, options: Options) -> tuple[int, int] | None:
        """No pipeline with these has less (fill, straggler); None if its weights do not fit, or a stage has no option.

        Layers are taken as divisible, and memory for activations as ample.
        """
        layers = self.passes.tables.layers
        if not all(options) or sum(max(option.most for option in own) for own in options) < layers:
            return None
        each = [min(option.layer_ps for option in own) for own in options]
        ends = [min(option.ends_ps for option in own) for own in options]
        for j, hops in enumerate(self.hops_ps(options)):
            ends[j] += min(out for row in hops for out, _ in row)
            ends[j + 1] += min(back for row in hops for _, back in row)
        balanced = (layers + sum(e / r for e, r in zip(ends, each, strict=True))) / sum(1 / r for r in each)
        fill_ps = sum(ends) + sum(each) + (layers - len(each)) * min(each)
        return fill_ps, max(int(balanced), *(e + r for e, r in zip(ends, each, strict=True)), 0)

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
                    found.append(Option(tp, seats, self.passes.passes(seats, ends, in_flight), most, *times))
            self._options[key] = tuple(found)
        return self._options[key]
