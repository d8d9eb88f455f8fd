from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.oracles.data_balanced import every_configuration
from tests.plan.search.small import question, tables_of
from xsim.plan.search.batch_balance import Share, sketched
from xsim.plan.search.groupings import Grouping, stage_sequence_count, stage_sequences
from xsim.plan.search.pipeline_choice import PipelineChoice
from xsim.plan.search.price import fits, price
from xsim.plan.search.stage_balance import StageBalance
from xsim.plan.search.stage_lists import stage_lists
from xsim.plan.search.stage_options import StageOptions
from xsim.plan.search.stage_passes import StagePasses
from xsim.plan.sketch import check, whole_layers

HOSTS = (("fast", 2), ("slow", 2))
sequences = st.sampled_from([s for n in (1, 2, 3, 4) for s in stage_sequences((2, 2), n)])


@cache
def options(memory: float = 1.0, layers: int = 6, batch: int = 16) -> StageOptions:
    tables = tables_of(question(*HOSTS, memory=memory, layers=layers, batch=batch))
    return StageOptions(StagePasses(tables, ("fast", "slow")))


def whole(options: StageOptions, memory: float, bound: bool = True) -> PipelineChoice:
    return PipelineChoice(StageBalance(options), 16, 1, (16, 4), (2.0, 1.0), (2, 2), limit=100, budget=100, bound=bound)


@settings(max_examples=25)
@given(sequences, st.sampled_from([1.0, 0.2, 0.1]), st.sampled_from([1, 2, 4]))
def test_what_a_configuration_takes_is_its_price(stages: Grouping, memory: float, micro_batch: int) -> None:
    own = options(memory)
    assume(micro_batch in own.micro_batches(stages, 16))
    found = StageBalance(own).balanced(stages, micro_batch, 16, 100)
    assume(found or memory == 1.0)

    assert found
    for configuration in found:
        plan = sketched([Share(configuration, 16 // micro_batch)], own, name="x", sequence_parallel=False)

        check(plan, question(*HOSTS, memory=memory))
        assert fits(plan, own.passes.tables)
        priced = price(plan, own.passes.tables)
        fill_ps, straggler_ps, _ = priced.pipelines[0]
        unlike = any(sum(n > 0 for n in stage) > 1 for stage in stages)
        if not unlike:
            assert (fill_ps, straggler_ps) == (configuration.fill_ps, configuration.straggler_ps)
            assert configuration.after_ps == pytest.approx(priced.sync_ps + priced.update_ps, rel=0.02)
        assert [stage.layers for stage in configuration.stages] == [
            len(held) - (0 in held) - (7 in held) for held in whole_layers(plan.pipelines[0], 6)
        ]


@settings(max_examples=25)
@given(sequences, st.sampled_from([1.0, 0.2, 0.1]), st.sampled_from([1, 2, 4]))
def test_no_configuration_is_below_the_bound(stages: Grouping, memory: float, micro_batch: int) -> None:
    own = options(memory)
    assume(micro_batch in own.micro_batches(stages, 16))
    least = own.least_ps(own.of(stages, micro_batch, 16))
    found = StageBalance(own).balanced(stages, micro_batch, 16, 100)
    assume(found or memory == 1.0)

    assert found
    assert least is not None
    assert all(c.fill_ps >= least[0] and c.straggler_ps >= least[1] and c.after_ps >= least[2] for c in found)
    ends = [c.end_ps(16) for c in found]
    assert all(a > b for a, b in pairwise(ends))


@pytest.mark.parametrize("memory", [1.0, 0.2, 0.1])
def test_moves_come_near_the_best_of_all_configurations(memory: float) -> None:
    own = options(memory)
    found = whole(own, memory).choices((2, 2))

    best = min(c.fill_ps + (16 // c.micro_batch - 1) * c.straggler_ps for c in every_configuration(own, (2, 2), 16))
    assert min(c.end_ps(16) - c.after_ps for c in found.found) <= 1.1 * best


def test_leaving_out_what_cannot_be_best_changes_no_result() -> None:
    bounded, every = whole(options(), 1.0), whole(options(), 1.0, bound=False)
    found, all_of_them = bounded.choices((2, 2)), every.choices((2, 2))

    assert bounded.balance.spent.states < every.balance.spent.states
    assert found.throughput(16) == all_of_them.throughput(16)


def test_a_stage_recomputes_no_more_than_it_must() -> None:
    own = options(0.06)
    passes, seats = own.passes, own.passes.seats((1, 0), 1, 4)
    capacity = passes.tables.capacity_bytes("fast")
    entries = [passes.again(seats, (False, False), 4, n) for n in range(1, 7)]

    assert entries[0] == ()
    assert any(entries)
    for n, again in enumerate(entries, start=1):
        need = passes.tables.memory_bytes("fast", 1, 4, range(1, n + 1), 4, again)
        time = passes.passes(seats, (False, False), 4)[n]
        assert (need <= capacity) == (time > 0)
        if time < 0:
            assert -time == need - capacity
        if again and time > 0:
            name, count = again[-1]
            less = (*again[:-1], (name, count - 1)) if count > 1 else again[:-1]
            assert passes.tables.memory_bytes("fast", 1, 4, range(1, n + 1), 4, less) > capacity


def test_all_sequences_are_tried_if_they_are_few_else_the_likelier_ones() -> None:
    assert len(stage_lists((2, 2), 9, 26)) == stage_sequence_count((2, 2)) == 26
    pure = stage_lists((2, 2), 9, 25)
    assert len(pure) == 14
    assert all(sum(n > 0 for n in stage) == 1 for stages in pure for stage in stages)
    blocks = stage_lists((4, 4), 99, 20)
    assert len(blocks) == 2 * 3 * 3
    assert ((2, 0), (2, 0), (0, 4)) in blocks
    assert all(tuple(map(sum, zip(*stages, strict=True))) == (4, 4) for stages in blocks)
    assert max(map(len, stage_lists((4, 4), 3, 20))) == 3


def test_more_alike_sequences_get_more_of_the_budget() -> None:
    own = whole(options(), 1.0)
    lists = [((1, 1), (1, 1)), ((2, 0), (0, 2))]
    found = own._budgets(lists)

    assert found[lists[0]] > own.budget > found[lists[1]]
