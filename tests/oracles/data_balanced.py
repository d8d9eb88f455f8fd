"""The best data-balanced pipelines of a few devices, by trying every configuration of every grouping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product

from xsim.plan.search.batch_balance import Share, sketched
from xsim.plan.search.batches import Running, soonest
from xsim.plan.search.groupings import Composition, Grouping, groupings, stage_sequences
from xsim.plan.search.price import price
from xsim.plan.search.stage_balance import Configuration, StageChoice
from xsim.plan.search.stage_options import StageOptions

__all__ = ["every_configuration", "least_iteration_ps"]


def every_configuration(options: StageOptions, devices: Composition, batch: int) -> list[Configuration]:
    """Of a pipeline of all these devices, whatever its stages, degrees and layers."""
    layers = options.passes.tables.layers
    return [
        configuration
        for count in range(1, min(sum(devices), layers) + 1)
        for stages in stage_sequences(devices, count)
        for micro_batch in options.micro_batches(stages, batch)
        for configuration in _configurations(options, stages, micro_batch, batch, layers)
    ]


def _configurations(
    options: StageOptions, stages: Grouping, micro_batch: int, batch: int, layers: int
) -> Iterator[Configuration]:
    for chosen in product(*options.of(stages, micro_batch, batch)):
        sent = [0] * len(stages)
        for j, (near, far) in enumerate(pairwise(chosen)):
            out, back = options.passes.tables.hand_overs_ps((near.seats, far.seats))
            sent[j] += out
            sent[j + 1] += back
        for cuts in combinations(range(1, layers), len(stages) - 1):
            held = [b - a for a, b in pairwise((0, *cuts, layers))]
            times = [option.passes[n] for option, n in zip(chosen, held, strict=True)]
            if min(times) > 0:
                whole = [time + own for time, own in zip(times, sent, strict=True)]
                parts = zip(stages, chosen, held, strict=True)
                choice = tuple(StageChoice(devices, option.tp, n) for devices, option, n in parts)
                yield Configuration(micro_batch, sum(whole), max(whole), 0, choice)


def least_iteration_ps(options: StageOptions, counts: Composition, batch: int, known_ps: int) -> int:
    """The price of the best plan for devices up to ``counts``; ``known_ps`` if none is below it.

    What cannot be below the best so far is not priced: a plan takes no less than its last pipeline without the sum of
    gradients, and no less than the batch over the sum of its pipelines' throughputs.
    """
    known: dict[Composition, list[Configuration]] = {}
    best = known_ps
    for used in product(*(range(n + 1) for n in counts)):
        for count in range(1, sum(used) + 1):
            for grouping in groupings(used, count):
                for pipeline in grouping:
                    if pipeline not in known:
                        found = every_configuration(options, pipeline, batch)
                        known[pipeline] = sorted(found, key=lambda c: c.end_ps(batch))
                best = _least([known[pipeline] for pipeline in grouping], options, batch, best)
    return best


def _least(choices: Sequence[list[Configuration]], options: StageOptions, batch: int, best: int) -> int:
    if not all(choices):
        return best
    most = [batch / own[0].end_ps(batch) for own in choices]

    def useful(i: int) -> Iterator[Configuration]:
        for configuration in choices[i]:
            if sum(most) - most[i] + batch / configuration.end_ps(batch) <= batch / best:
                return
            yield configuration

    for chosen in product(*(list(useful(i)) for i in range(len(choices)))):
        if sum(batch / c.end_ps(batch) for c in chosen) <= batch / best:
            continue
        if max(c.fill_ps for c in chosen) >= best:
            continue
        found = soonest([Running(c.fill_ps, c.straggler_ps, c.micro_batch) for c in chosen], batch)
        if found is None or found[0] >= best:
            continue
        shares = [Share(c, min(own)) for c, own in zip(chosen, found[1], strict=True)]
        plan = sketched(shares, options, name="", sequence_parallel=False)
        best = min(best, price(plan, options.passes.tables).iteration_ps)
    return best
