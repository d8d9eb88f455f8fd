"""Every strategy's sums are numerically right: a network trained in unlike groups learns what one device learns.

ETH (arxiv.org/abs/2610.22035, Figure 14) shows loss curves of unlike pipelines that lie on that of one kind of device.
Here the gradients of a real loss, in float64, go through the steps of every plan, and through its transfers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.arrays import Floats, carried_out
from tests.plan.training import BLOCKS, UNIT_SIZE, UNITS, Batch, gradients, loss, weights
from tests.strategies import RANKS, SITE
from xsim.families import members
from xsim.plan.comm import lower_plan
from xsim.plan.contracts import CollectiveAlgorithm, Reshard
from xsim.plan.layout import Layout, even_cuts
from xsim.plan.replay import adversarial_orders, events_of, waits_of
from xsim.plan.reshard.lcm import Lcm

EACH = pytest.mark.parametrize("strategy", [pytest.param(cls(), id=name) for name, cls in members("reshard")])
ALGORITHMS: dict[str, CollectiveAlgorithm] = {name: cls() for name, cls in members("collective")}
SHAPES = [(3, 2), (6, 4), (8, 4, 2), (5, 3, 1), (4, 4), (1, 1, 2), (7, 8), (8, 6, 5)]
TOLERANCE = 1e-10
RATE, STEPS = 0.05, 20


@dataclass(frozen=True, slots=True)
class Replica:
    """A group of ranks and the samples that it takes; ``cuts`` are in hidden units."""

    ranks: tuple[int, ...]
    cuts: tuple[int, ...]
    batch: Batch

    @property
    def layout(self) -> Layout:
        return Layout(self.ranks, tuple(cut * UNIT_SIZE for cut in self.cuts))


def replicas(degrees: Sequence[int], samples: Sequence[int], ranks: Sequence[int], seed: int = 0) -> list[Replica]:
    """One of each degree, with so many samples of a batch."""
    draw, pool = np.random.default_rng(seed), iter(ranks)
    found = []
    for degree, count in zip(degrees, samples, strict=True):
        batch = Batch(draw.normal(size=(count, 3)), draw.normal(size=(count, 3)), sum(samples))
        found.append(Replica(tuple(next(pool) for _ in range(degree)), even_cuts(UNITS, degree), batch))
    return found


def whole(group: Sequence[Replica]) -> Batch:
    """All samples of all replicas."""
    inputs, targets = (np.concatenate([getattr(one.batch, name) for one in group]) for name in ("inputs", "targets"))
    return Batch(inputs, targets, len(inputs))


def held(group: Sequence[Replica], parameters: Sequence[Floats]) -> list[dict[int, Floats]]:
    """Of each block, what each rank has computed from its own samples and units; NaN elsewhere."""
    memory: list[dict[int, Floats]] = [{} for _ in range(BLOCKS)]
    for one in group:
        for block, shards in enumerate(gradients(parameters, one.batch, one.cuts)):
            for (rank, span), shard in zip(one.layout.shards(), shards, strict=True):
                memory[block][rank] = np.full(UNITS * UNIT_SIZE, np.nan)
                memory[block][rank][span.start : span.stop] = shard
    return memory


def on_one_device(group: Sequence[Replica], parameters: Sequence[Floats]) -> list[Floats]:
    """Of each block, the gradient over the whole batch."""
    return [shards[0] for shards in gradients(parameters, whole(group), (0, UNITS))]


def steps_of(one: Replica, after: dict[int, Floats]) -> Floats:
    """The whole gradient as the ranks of a replica have it."""
    return np.concatenate([after[rank][span.start : span.stop] for rank, span in one.layout.shards()])


def expect_right(
    strategy: Reshard, group: Sequence[Replica], algorithm: CollectiveAlgorithm, element_bytes: int, seed: int = 0
) -> None:
    parameters = weights(np.random.default_rng(seed))
    plan = strategy.reduce([one.layout for one in group], SITE)
    graph = lower_plan(plan, (range(RANKS),), lambda step: algorithm.expand(step, SITE), element_bytes)
    for before, expected in zip(held(group, parameters), on_one_device(group, parameters), strict=True):
        last_possible_first = list(adversarial_orders(*waits_of(events_of(graph))))[1].tolist()
        for after in (carried_out(plan, before), carried_out(graph, before, element_bytes, last_possible_first)):
            for one in group:
                np.testing.assert_allclose(steps_of(one, after), expected, rtol=0, atol=TOLERANCE)


@EACH
@pytest.mark.parametrize("degrees", SHAPES)
def test_every_replica_ends_with_the_gradient_of_one_device(strategy: Reshard, degrees: tuple[int, ...]) -> None:
    """Unlike numbers of samples too: 5, 8, 11, ..."""
    group = replicas(degrees, [5 + 3 * i for i in range(len(degrees))], range(RANKS))

    expect_right(strategy, group, ALGORITHMS["ring"], element_bytes=2)


@EACH
@given(
    sizes=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 9)), min_size=2, max_size=3),
    ranks=st.permutations(range(RANKS)),
    algorithm=st.sampled_from(sorted(ALGORITHMS)),
    element_bytes=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_in_groups_of_any_degrees_and_samples(
    strategy: Reshard,
    sizes: list[tuple[int, int]],
    ranks: list[int],
    algorithm: str,
    element_bytes: int,
    seed: int,
) -> None:
    degrees, samples = zip(*sizes, strict=True)

    expect_right(strategy, replicas(degrees, samples, ranks, seed), ALGORITHMS[algorithm], element_bytes, seed)


@EACH
def test_a_network_learns_in_unlike_groups_what_it_learns_on_one_device(strategy: Reshard) -> None:
    """Loss for loss; all replicas step alike."""
    group = replicas((3, 2, 1), (7, 4, 2), range(RANKS))
    plan = strategy.reduce([one.layout for one in group], SITE)
    single = weights(np.random.default_rng(1))
    shared = single
    losses = []
    for _ in range(STEPS):
        synced = [carried_out(plan, before) for before in held(group, shared)]
        for after in synced:
            for one in group:
                np.testing.assert_allclose(steps_of(one, after), steps_of(group[0], after), rtol=0, atol=TOLERANCE)
        shared = [block - RATE * steps_of(group[0], after) for block, after in zip(shared, synced, strict=True)]
        single = [block - RATE * step for block, step in zip(single, on_one_device(group, single), strict=True)]
        losses.append((sum(loss(shared, one.batch) for one in group), loss(single, whole(group))))

    apart, together = np.array(losses).T
    np.testing.assert_allclose(apart, together, rtol=0, atol=TOLERANCE)
    assert together[-1] < 0.5 * together[0]


def test_the_gradient_is_that_of_the_loss() -> None:
    """Against central differences."""
    (one,) = replicas((1,), (6,), (0,))
    parameters = weights(np.random.default_rng(2))
    for block, gradient in enumerate(on_one_device([one], parameters)):
        for index in range(0, UNITS * UNIT_SIZE, 5):
            moved = [[other.copy() for other in parameters] for _ in range(2)]
            for sign, other in zip((1, -1), moved, strict=True):
                other[block][index] += sign * 1e-6
            slope = (loss(moved[0], one.batch) - loss(moved[1], one.batch)) / 2e-6
            assert gradient[index] == pytest.approx(slope, abs=1e-8)


def test_what_a_plan_forgets_is_missed() -> None:
    group = replicas((3, 2), (5, 8), range(RANKS))
    plan = Lcm().reduce([one.layout for one in group], SITE)
    before = held(group, weights(np.random.default_rng(0)))[0]
    right, wrong = (carried_out(some, before) for some in (plan, replace(plan, steps=plan.steps[:-1])))

    assert np.abs(steps_of(group[0], right) - steps_of(group[0], wrong)).max() > 0.001


def test_means_of_unlike_local_batches_would_be_wrong() -> None:
    """The sum is right because each replica divides by the whole batch: a mean of local means is another gradient."""
    group = replicas((3, 2), (9, 2), range(RANKS))
    parameters = weights(np.random.default_rng(3))
    alone = [replace(one.batch, whole=len(one.batch.inputs)) for one in group]
    local = [gradients(parameters, batch, (0, UNITS))[0][0] for batch in alone]

    assert np.abs(np.mean(local, axis=0) - on_one_device(group, parameters)[0]).max() > 0.01
