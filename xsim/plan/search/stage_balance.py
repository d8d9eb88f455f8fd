"""Layers and degrees for the stages of one pipeline, by moves that relieve its bottleneck.

The moves are Aceso's (https://doi.org/10.1145/3627703.3629554) on stages whose devices are given, as ETH has them
(https://arxiv.org/abs/2610.22035, section 4.2.3). The bottleneck is the stage that lacks most memory, else the slowest
one: it hands a layer to another stage, or has more but narrower tensor groups, or fewer but wider ones. Recomputation
follows, as a stage recomputes what it must to fit. Micro-batches are not moved: each size is a start of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from xsim.plan.search.groupings import Composition, Grouping
from xsim.plan.search.stage_options import Hops, Options, StageOptions

__all__ = ["Configuration", "Spent", "StageBalance", "StageChoice", "first_guess"]

HOPS = 3  # moves that need not improve before the search ends; Aceso makes up to seven

Key = tuple[int, int, int]  # bytes missing, Equation 5, how many stages are the slowest: less is better


@dataclass(frozen=True, slots=True)
class StageChoice:
    """A stage of a configured pipeline; ``layers`` are transformer layers."""

    devices: Composition
    tp: int
    layers: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """A pipeline whose stages are chosen, and what its micro-batches take.

    Attributes:
        fill_ps: All stages, for one micro-batch.
        straggler_ps: The slowest stage.
        after_ps: The sum of gradients over copies inside stages, and the optimizer, about.
    """

    micro_batch: int
    fill_ps: int
    straggler_ps: int
    after_ps: int
    stages: tuple[StageChoice, ...]

    def end_ps(self, samples: int) -> int:
        """Equation 5 of the first stage, alone; what does not fill a micro-batch counts as one."""
        return self.fill_ps + (-(-samples // self.micro_batch) - 1) * self.straggler_ps + self.after_ps


@dataclass(slots=True)
class Spent:
    """The work of a search.

    Attributes:
        states: Pipelines, configured in some way, that have been priced.
        configured: Times that a sequence of stages could be configured.
        lacked_bytes: The least that was missing in one that did not fit; None if all did.
    """

    states: int = 0
    configured: int = 0
    lacked_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _State:
    """Of each stage which option and how many layers, and what follows."""

    chosen: tuple[int, ...]
    layers: tuple[int, ...]
    key: Key
    times: tuple[int, ...]
    fill_ps: int
    straggler_ps: int
    after_ps: int


@dataclass(frozen=True, slots=True, eq=False)
class StageBalance:
    """Balances pipelines of one model on one cluster.

    Attributes:
        spent: What has been done so far.
    """

    options: StageOptions
    spent: Spent = field(default_factory=Spent)

    def balanced(self, stages: Grouping, micro_batch: int, batch: int, budget: int) -> tuple[Configuration, ...]:
        """Configurations on the way to the best that is found, which is the last; none if nothing fits.

        Args:
            batch: Samples that Equation 1 is for.
            budget: States to look at, about.
        """
        options = self.options.of(stages, micro_batch, batch)
        start = first_guess(options, self.options.passes.tables.layers)
        if start is None:
            return ()
        sent = self.options.hops_ps(options), self.options.ends_sums_ps(options)
        near = _Neighbours(options, *sent, -(-batch // micro_batch) - 1)
        state = best = near.state(*start)
        found, seen, hops, looked = [best], {start}, 0, 1
        while hops < HOPS and looked < budget:
            around = [each for each in near.moves(state) if (each.chosen, each.layers) not in seen]
            if not around:
                break
            looked += len(around)
            state = min(around, key=lambda each: each.key)
            seen.add((state.chosen, state.layers))
            hops += 1
            if state.key < best.key:
                best, hops = state, 0
                found.append(best)
        self.spent.states += looked
        self.spent.configured += not best.key[0]
        if best.key[0]:
            self.spent.lacked_bytes = min(best.key[0], self.spent.lacked_bytes or best.key[0])
        return tuple(near.configured(stages, micro_batch, state) for state in found if state.key[0] == 0)


def first_guess(options: Options, layers: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The fastest option of each stage, and layers by its speed as far as its weights fit; None if they do not."""
    if not all(options) or len(options) > layers or sum(max(o.most for o in own) for own in options) < layers:
        return None
    chosen = [min(range(len(own)), key=lambda c: (own[c].layer_ps, c)) for own in options]
    while sum(own[c].most for own, c in zip(options, chosen, strict=True)) < layers:
        tight = [j for j, own in enumerate(options) if max(o.most for o in own) > own[chosen[j]].most]
        j = min(tight, key=lambda j: options[j][chosen[j]].most)
        chosen[j] = max(range(len(options[j])), key=lambda c: options[j][c].most)
    picked = [own[c] for own, c in zip(options, chosen, strict=True)]
    dealt = [1] * len(picked)
    free = [(o.ends_ps + 2 * o.layer_ps, j) for j, o in enumerate(picked) if o.most > 1]
    heapify(free)
    for _ in range(layers - len(picked)):
        time, j = free[0]
        dealt[j] += 1
        if dealt[j] < picked[j].most:
            heapreplace(free, (time + picked[j].layer_ps, j))
        else:
            heappop(free)
    return tuple(chosen), tuple(dealt)


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """States of one pipeline that are a move apart.

    Attributes:
        hops: Of neighbouring stages, by option of either, what each sends for one micro-batch.
        ends: By option of the first stage and of the last, what they sum of the ends of the model.
        others: Micro-batches after the first.
    """

    options: Options
    hops: Sequence[Hops]
    ends: Hops
    others: int

    def state(self, chosen: tuple[int, ...], layers: tuple[int, ...]) -> _State:
        times = [own[c].passes[n] for own, c, n in zip(self.options, chosen, layers, strict=True)]
        missing = -sum(time for time in times if time < 0)
        for j, hop in enumerate(self.hops):
            out, back = hop[chosen[j]][chosen[j + 1]]
            times[j] += out if times[j] > 0 else 0
            times[j + 1] += back if times[j + 1] > 0 else 0
        fill_ps, straggler_ps = sum(times), max(times)
        after_ps = self.after_ps(chosen, layers)
        whole_ps = 0 if missing else fill_ps + self.others * straggler_ps + after_ps
        key = (missing, whole_ps, times.count(straggler_ps))
        return _State(chosen, layers, key, tuple(times), fill_ps, straggler_ps, after_ps)

    def after_ps(self, chosen: Sequence[int], layers: Sequence[int]) -> int:
        """Of the stage that it takes longest."""
        sums, updates = 0, 0
        for own, c, n in zip(self.options, chosen, layers, strict=True):
            after = own[c].after
            sums, updates = max(sums, after.sum_ps * n), max(updates, after.update_ps * n + after.ends_update_ps)
        for at, end_ps in zip((0, -1), self.ends[chosen[0]][chosen[-1]], strict=True):
            sums = max(sums, self.options[at][chosen[at]].after.sum_ps * layers[at] + end_ps)
        return sums + updates

    def moves(self, state: _State) -> Iterator[_State]:
        """One step away: a layer from the bottleneck to each other stage, or its next narrower or wider option."""
        times, chosen, layers = state.times, state.chosen, state.layers
        at = times.index(min(times) if state.key[0] else state.straggler_ps)
        if layers[at] > 1:
            own = self.options[at][chosen[at]].passes
            less = own[layers[at] - 1]
            highest = sorted(range(len(times)), key=times.__getitem__)[-3:]
            for to in range(len(layers)):
                option = self.options[to][chosen[to]]
                if to == at or layers[to] == option.most:
                    continue
                more = option.passes[layers[to] + 1]
                moved = list(layers)
                moved[at] -= 1
                moved[to] += 1
                if state.key[0] or more < 0:
                    yield self.state(chosen, tuple(moved))
                    continue
                changed = list(times)
                changed[at] += less - own[layers[at]]
                changed[to] += more - option.passes[layers[to]]
                rest = max((times[j] for j in highest if j not in (at, to)), default=0)
                slowest = max(rest, changed[at], changed[to])
                fill_ps = state.fill_ps + changed[at] + changed[to] - times[at] - times[to]
                after_ps = self.after_ps(chosen, moved)
                key = (0, fill_ps + self.others * slowest + after_ps, changed.count(slowest))
                yield _State(chosen, tuple(moved), key, tuple(changed), fill_ps, slowest, after_ps)
        for other in (chosen[at] - 1, chosen[at] + 1):
            if 0 <= other < len(self.options[at]) and layers[at] <= self.options[at][other].most:
                yield self.state((*chosen[:at], other, *chosen[at + 1 :]), layers)

    def configured(self, stages: Grouping, micro_batch: int, state: _State) -> Configuration:
        each = zip(stages, self.options, state.chosen, state.layers, strict=True)
        found = tuple(StageChoice(devices, own[c].tp, layers) for devices, own, c, layers in each)
        return Configuration(micro_batch, state.fill_ps, state.straggler_ps, state.after_ps, found)
