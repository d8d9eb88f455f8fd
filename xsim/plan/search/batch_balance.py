"""Shares of the batch for pipelines that have several configurations, and the plan that this makes.

The second and third phase of ETH's balance (https://arxiv.org/abs/2610.22035, section 4.2.3), repeated until neither
changes anything: the paper does each once, after which shares may no longer suit the configurations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xsim.plan.search.batches import Running, dealt, soonest
from xsim.plan.search.pipeline_choice import Choices
from xsim.plan.search.stage_balance import Configuration
from xsim.plan.search.stage_options import StageOptions
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage

__all__ = ["Share", "greedy_shares", "shared", "sketched"]


@dataclass(frozen=True, slots=True)
class Share:
    """A configured pipeline and its micro-batches."""

    configuration: Configuration
    micro_batches: int

    @property
    def end_ps(self) -> int:
        """Equation 5."""
        return self.configuration.end_ps(self.micro_batches * self.configuration.micro_batch)


def shared(
    choices: Sequence[Choices], batch: int, *, rounds: int, exact: bool = False
) -> tuple[tuple[Share, ...], ...]:
    """Ways to share out the batch among the pipelines, or some of them, that with the earliest last end first.

    Large micro-batches may leave no even shares, so that smaller ones are tried too.

    Args:
        rounds: How often configurations are chosen anew for the shares at most.
        exact: Shares with the earliest end, instead of greedy ones.
    """
    sizes = sorted({c.micro_batch for own in choices for c in own.found})
    dividing = [size for size in sizes if batch % size == 0]
    tried: list[tuple[Share, ...]] = []
    for allowed in (sizes, *(dividing[:n] for n in range(len(dividing), 0, -1))):
        tried.extend(_balanced(choices, batch, frozenset(allowed), rounds, exact))
    return tuple(sorted(dict.fromkeys(tried), key=lambda shares: max(share.end_ps for share in shares)))


def _balanced(
    choices: Sequence[Choices], batch: int, sizes: Collection[int], rounds: int, exact: bool
) -> list[tuple[Share, ...]]:
    """What each round gives."""
    found: list[tuple[Share, ...]] = []
    first = [_first(own, batch, sizes) for own in choices]
    taking = [(own, c) for own, c in zip(choices, first, strict=True) if c is not None]
    for _ in range(1 + rounds):
        counts = _counts([c for _, c in taking], batch, exact=exact)
        if counts is None:
            break
        taking = [each for each, n in zip(taking, counts, strict=True) if n]
        samples = [c.micro_batch * n for (_, c), n in zip(taking, (n for n in counts if n), strict=True)]
        found.append(tuple(Share(c, n // c.micro_batch) for (_, c), n in zip(taking, samples, strict=True)))
        again = [(own, own.best(n, sizes) or c) for (own, c), n in zip(taking, samples, strict=True)]
        if again == taking:
            break
        found.append(tuple(Share(c, n // c.micro_batch) for (_, c), n in zip(again, samples, strict=True)))
        taking = again
    return found


def _first(own: Choices, batch: int, sizes: Collection[int]) -> Configuration | None:
    """For the whole batch, whether or not a micro-batch divides it."""
    fitting = (c for c in own.found if c.micro_batch in sizes)
    return min(fitting, key=lambda c: (c.end_ps(batch), c.micro_batch), default=None)


def _counts(taking: Sequence[Configuration], batch: int, *, exact: bool) -> tuple[int, ...] | None:
    """Micro-batches of each that sum to the batch; None if none do."""
    if not taking:
        return None
    running = [Running(c.fill_ps, c.straggler_ps, c.micro_batch) for c in taking]
    if not exact:
        greedy = greedy_shares(running, batch)
        part = [i for i, n in enumerate(greedy) if n]
        fewer = dealt([running[i] for i in part], [greedy[i] for i in part], batch)
        if fewer is not None:
            counts = dict(zip(part, map(min, fewer), strict=True))
            return tuple(counts.get(i, 0) for i in range(len(running)))
    best = soonest(running, batch)
    return None if best is None else tuple(min(own) for own in best[1])


def greedy_shares(pipelines: Sequence[Running], batch: int) -> tuple[int, ...]:
    """Micro-batches of each pipeline, at least ``batch`` samples in all (Equation 3), as ETH deals them out.

    The next micro-batch goes where it delays the last end least; of equals to the one that then ends first: always to
    the one that then ends first. So a deadline says what has been dealt out; the least is found by halving.

    Cost: O(P log(batch * straggler)) for P pipelines, whatever the batch.
    """
    low, high = min(each.fill_ps for each in pipelines) - 1, min(each.fill_ps for each in pipelines)
    step = max(1, *(each.straggler_ps for each in pipelines))
    while _by(pipelines, high) < batch:
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _by(pipelines, middle) < batch else (low, middle)
    turns = [each.turns(low) for each in pipelines]
    samples = _by(pipelines, low)
    for i, each in enumerate(pipelines):
        if samples < batch and each.turns(high) > turns[i]:
            turns[i] += 1
            samples += each.micro_batch
    return tuple(turns)


def _by(pipelines: Sequence[Running], deadline_ps: int) -> int:
    """Samples that all of them have done by then."""
    return sum(each.micro_batch * each.turns(deadline_ps) for each in pipelines)


def sketched(shares: Sequence[Share], options: StageOptions, *, name: str, sequence_parallel: bool) -> Sketch:
    """The plan: equal pipelines are counted, and stages recompute what they must."""
    counted = Counter(shares)
    pipelines = tuple(
        Pipeline(
            _stages(share, options, sequence_parallel),
            share.configuration.micro_batch,
            share.micro_batches,
            count,
        )
        for share, count in counted.items()
    )
    return Sketch(pipelines, name=name, source=name)


def _stages(share: Share, options: StageOptions, sequence_parallel: bool) -> tuple[SketchStage, ...]:
    stages, first = [], 1
    last = len(share.configuration.stages) - 1
    for j, stage in enumerate(share.configuration.stages):
        seats = options.passes.seats(stage.devices, stage.tp, share.configuration.micro_batch)
        flying = options.in_flight(j, last + 1, share.micro_batches)
        again = options.passes.again(seats, (j == 0, j == last), flying, stage.layers)
        copies = tuple(Copies(seat.kind, seat.tp, seat.width) for seat in seats)
        held = range(first, first + stage.layers)
        stages.append(SketchStage(held, copies, again, sequence_parallel and stage.tp > 1))
        first += stage.layers
    return tuple(stages)
