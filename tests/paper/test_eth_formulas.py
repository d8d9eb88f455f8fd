"""Equations 1 to 10 of ETH (https://arxiv.org/abs/2610.22035) and what its Table 3 adds up to."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.dealing import last_end_ps
from xsim.plan.search.batch_balance import Share, greedy_shares, shared
from xsim.plan.search.batches import Running, soonest
from xsim.plan.search.eth_formulas import best_split, inter_variance, intra_variance, order_cost
from xsim.plan.search.pipeline_choice import Choices
from xsim.plan.search.stage_balance import Configuration
from xsim.plan.search.sync import ring_ps

# Table 3: of each stage devices, TP, DP and layers; of each pipeline the micro-batch and the local batch
METIS = (
    [(8, 2, 4, 5), (8, 2, 4, 6), (8, 4, 2, 7), (8, 2, 4, 6), (8, 8, 1, 3), (8, 8, 1, 4), (8, 4, 2, 4), (8, 4, 2, 5)],
)
HEXISCALE = ([(4, 4, 1, 3)] * 3 + [(4, 4, 1, 4), (4, 4, 1, 5)] + [(4, 4, 1, 7)] * 2 + [(4, 4, 1, 8)],) * 2
ETH = (
    [(4, 4, 1, 4), (4, 4, 1, 4), (4, 4, 1, 5)] + [(4, 2, 2, 5)] * 3 + [(4, 1, 4, 6)] * 2,
    [(8, 8, 1, 8), (8, 8, 1, 9), (8, 4, 2, 11), (8, 4, 2, 12)],
)
SHARES = {"metis": ((4, 1024),), "hexiscale": ((4, 512), (4, 512)), "eth": ((4, 344), (8, 680))}


@pytest.mark.parametrize("plan", [METIS, HEXISCALE, ETH])
def test_the_plans_of_table_3_have_all_layers_and_devices(plan: tuple[list[tuple[int, int, int, int]], ...]) -> None:
    assert all(sum(layers for _, _, _, layers in stages) == 40 for stages in plan)
    assert sum(devices for stages in plan for devices, *_ in stages) == 64
    assert all(tp * dp == devices for stages in plan for devices, tp, dp, _ in stages)


@pytest.mark.parametrize("name", SHARES)
def test_the_local_batches_of_table_3_are_the_global_batch(name: str) -> None:
    assert sum(samples for _, samples in SHARES[name]) == 1024
    assert all(samples % micro_batch == 0 for micro_batch, samples in SHARES[name])


def test_eth_deals_out_86_and_85_micro_batches() -> None:
    assert [samples // micro_batch for micro_batch, samples in SHARES["eth"]] == [86, 85]
    assert 344 + 680 == 1024
    pipelines = [Running(700, 100, 4), Running(401, 101, 8)]
    found = soonest(pipelines, 1024)

    assert found is not None
    assert greedy_shares(pipelines, 1024) == tuple(min(own) for own in found[1])


def test_equation_1() -> None:
    one = Configuration(4, fill_ps=3 + 5 + 4, straggler_ps=5, after_ps=0, stages=())

    assert one.end_ps(4) == 12
    assert one.end_ps(40) == 12 + 9 * 5


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=5), st.integers(1, 20))
def test_equation_5_is_largest_at_the_first_stage(stages: list[tuple[int, int]], micro_batches: int) -> None:
    forward, backward = [f for f, _ in stages], [b for _, b in stages]
    both = [f + b for f, b in stages]
    ends = [sum(forward) + max(both) * (micro_batches - 1) + sum(backward[j:]) + 7 for j in range(len(stages))]

    found = Configuration(2, sum(both), max(both), after_ps=7, stages=()).end_ps(2 * micro_batches)

    assert found == ends[0] == max(ends)


def test_equation_2_is_the_last_end() -> None:
    shares = [Share(Configuration(4, 15, 10, 0, ()), 3), Share(Configuration(8, 30, 30, 0, ()), 2)]
    running = [Running(15, 10, 4), Running(30, 30, 8)]

    assert max(share.end_ps for share in shares) == last_end_ps(running, (3, 2)) == max(5 + 3 * 10, 2 * 30)
    assert last_end_ps(running, (3, 0)) == 35


PIPELINES = st.lists(
    st.builds(Running, st.integers(1, 60), st.integers(1, 20), st.sampled_from((1, 2, 3, 4, 8))), min_size=1, max_size=4
)


@given(PIPELINES, st.integers(1, 60))
def test_equation_3_greedy_shares_are_the_batch_and_no_micro_batch_more(pipelines: list[Running], batch: int) -> None:
    turns = greedy_shares(pipelines, batch)
    local = [each.micro_batch * n for each, n in zip(pipelines, turns, strict=True)]

    assert sum(local) >= batch
    assert min(sum(local) - each.micro_batch for each, n in zip(pipelines, turns, strict=True) if n) < batch


@given(PIPELINES, st.integers(1, 60), st.booleans())
def test_equations_3_and_4_of_every_way_to_share_out_the_batch(
    pipelines: list[Running], batch: int, exact: bool
) -> None:
    """Local batches are whole micro-batches, and sum to the batch itself: a deployment trains no sample more."""
    choices = [
        Choices(tuple(Configuration(size, own.fill_ps, own.straggler_ps, 0, ()) for size in (own.micro_batch, 1)))
        for own in pipelines
    ]
    ways = shared(choices, batch, rounds=2, exact=exact)

    assert ways or exact  # which gives each pipeline something
    for way in ways:
        local = [share.micro_batches * share.configuration.micro_batch for share in way]
        assert sum(local) == batch
        assert all(own % share.configuration.micro_batch == 0 < own for own, share in zip(local, way, strict=True))


def test_equations_2_to_4_by_hand() -> None:
    """Of ten samples a pipeline of micro-batches of 4 gets two, one of micro-batches of 2 one: 20 is the end."""
    pipelines = [
        Running(fill_ps=10, straggler_ps=10, micro_batch=4),
        Running(fill_ps=15, straggler_ps=10, micro_batch=2),
    ]
    ends = {(2, 1): max(10 + 10, 15), (1, 3): max(10, 15 + 2 * 10), (0, 5): 15 + 4 * 10}  # those of 4 a + 2 b = 10

    found = soonest(pipelines, 10)

    assert found is not None
    assert (
        (found[0], tuple(min(own) for own in found[1]))
        == (20, (2, 1))
        == (min(ends.values()), min(ends, key=lambda own: ends[own]))
    )
    assert greedy_shares(pipelines, 10) == (2, 1)


def test_equation_6() -> None:
    assert ring_ps(1000, 4, 1, 0.5e12, 0) == 3000
    assert ring_ps(1000, 1, 1, 0.5e12, 0) == 0


def test_equations_7_to_9() -> None:
    apart, mixed = [[376.0, 376.0], [280.0, 280.0]], [[376.0, 280.0], [376.0, 280.0]]

    assert inter_variance(apart) == 96.0**2
    assert intra_variance(apart) == 0
    assert inter_variance(mixed) == 0
    assert intra_variance(mixed) == 2 * 48.0**2
    assert order_cost(apart, 1024, 40) == 96.0**2 / 1024
    assert order_cost(apart, 1024, 40) < order_cost(mixed, 1024, 40)
    assert order_cost(apart, 4, 400) > order_cost(mixed, 4, 400)


@given(st.data(), st.integers(1, 6))
def test_equation_10_finds_the_best_cuts(data: st.DataObject, devices: int) -> None:
    value = {
        (i, j): float(data.draw(st.integers(0, 9), label=f"{i}-{j}")) for j in range(1, devices + 1) for i in range(j)
    }
    for p, (total, ends) in enumerate(best_split(devices, devices, lambda i, j: value[i, j]), start=1):
        sums = []
        for cuts in combinations(range(1, devices), p - 1):
            parts = [value[span] for span in pairwise((0, *cuts, devices))]
            sums.append(sum(parts) if all(parts) else 0.0)
        assert total == max(sums)
        if total:
            assert total == sum(value[span] for span in pairwise((0, *ends)))
            assert len(ends) == p
            assert ends[-1] == devices
