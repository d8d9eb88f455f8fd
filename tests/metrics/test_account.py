"""The time account: numbers by hand, then random timelines against the independent checker."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.metrics.toy import Pace, cases, graph, pipeline, play, program, sync
from xsim.account import Account, account
from xsim.plan.workload import Body, Collect, Compute, Program, Ready, Workload
from xsim.sim.timeline import Timeline
from xsim.waits import CAUSES

UPDATE = (Compute("optimizer", (5,)),)


def two_stages(replica: int, slow: int = 1, syncs: tuple[int | None, int | None] = (None, None)) -> list[Program]:
    """A pipeline of two one-rank stages: forward 10, backward 20, update 5, times ``slow``; two micro-batches."""
    stages: list[Program] = []
    for stage in range(2):
        number = syncs[stage]
        ready = () if number is None else (Ready(number),)
        forward = (Compute("mlp", (10 * slow,)),)
        backward = (Compute("mlp", (20 * slow,)), *ready)
        stages.append(program(replica, stage, (2 * replica + stage,), "F0 F1 B0 B1", forward, backward, UPDATE))
    return stages


def causes(found: Account, rank: int) -> dict[str, int]:
    """The causes of ``rank`` that took any time."""
    row = found.causes_ps[found.ranks.tolist().index(rank)].tolist()
    return {cause: time for cause, time in zip(CAUSES, row, strict=True) if time}


def test_two_stages_wait_for_each_other() -> None:
    programs = two_stages(0)
    workload = Workload(tuple(programs), pipeline(programs), ())

    found = check_account(workload, play(workload))

    # Stage 1 ends at 75; its replica goes backward until 90 and then updates stage 0 until 95: all that is bubble.
    assert found.makespan_ps == 95
    assert causes(found, 0) == {"compute": 60, "optimizer": 5, "bubble": 30}
    assert causes(found, 1) == {"compute": 60, "optimizer": 5, "bubble": 30}


@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_equal_replicas_have_no_stragglers_and_the_bubble_of_one(replicas: int) -> None:
    programs = [each for r in range(replicas) for each in two_stages(r, syncs=(0, 1))]
    syncs = tuple(sync(*range(stage, 2 * replicas, 2)) for stage in range(2))
    workload = Workload(tuple(programs), pipeline(programs), syncs)

    found = check_account(workload, play(workload, Pace(sync_ps=((7,) * replicas,) * 2)))

    # Stage 1's sync ends at 77, before its replica's last backward (90); stage 0's lasts from 90 to 97.
    assert found.makespan_ps == 102
    for rank in range(2 * replicas):
        assert causes(found, rank) == {"compute": 60, "optimizer": 5, "dp_comm": 7, "bubble": 30}


def test_a_fast_replica_waits_for_the_slow_one() -> None:
    programs = [*two_stages(0, syncs=(0, 1)), *two_stages(1, slow=3, syncs=(0, 1))]
    workload = Workload(tuple(programs), pipeline(programs), (sync(0, 2), sync(1, 3)))

    found = check_account(workload, play(workload, Pace(sync_ps=((7, 7), (7, 7)))))

    # The slow stages release at 270 and 210; the fast ones have nothing to do from 90 and 70 on.
    assert found.makespan_ps == 282
    assert causes(found, 0) == {"compute": 60, "optimizer": 5, "dp_comm": 7, "bubble": 30, "straggler_wait": 180}
    # Rank 1: bubble until 90; straggler until 210, dp_comm until 217, update until 222; then as rank 0, which waits for
    # its own missing member until 270, syncs until 277 and updates.
    assert causes(found, 1) == {
        "compute": 60,
        "optimizer": 5,
        "dp_comm": 7 + 7,
        "bubble": 10 + 20 + 5,
        "straggler_wait": (210 - 90) + (270 - 222),
    }
    assert "straggler_wait" not in causes(found, 2) | causes(found, 3)


def test_a_member_missing_in_one_of_two_syncs_counts() -> None:
    one = program(0, 0, (0,), "F0 B0", (Compute("mlp", (10,)),), (Compute("mlp", (20,)), Ready(0), Ready(1)), UPDATE)
    two = program(1, 0, (1,), "F0 B0", (Compute("mlp", (10,)),), (Compute("mlp", (20,)), Ready(0)), UPDATE)
    late = program(2, 0, (2,), "F0 B0", (Compute("mlp", (10,)),), (Compute("mlp", (90,)), Ready(1)), UPDATE)
    workload = Workload((one, two, late), (), (sync(0, 1), sync(0, 2)))

    found = check_account(workload, play(workload, Pace(sync_ps=((8, 8), (4, 4)))))

    assert causes(found, 0) == {"compute": 30, "optimizer": 5, "straggler_wait": 70, "dp_comm": 4}
    assert causes(found, 1) == {"compute": 30, "optimizer": 5, "dp_comm": 8, "straggler_wait": 109 - 43}
    assert causes(found, 2) == {"compute": 100, "optimizer": 5, "dp_comm": 4}


def test_the_fast_rank_of_a_group_waits_for_the_slowest() -> None:
    forward = (Compute("attention", (3, 5)), Collect("attention", graph((1, 0))), Compute("mlp", (2, 1)))
    backward = (Compute("mlp", (4, 4)), Collect("mlp", graph((1, 0))))
    update = (Compute("optimizer", (6, 2)),)
    only = program(0, 0, (1, 0), "F0 F1 B0 B1", forward, backward, update)
    workload = Workload((only,), (), ())

    found = check_account(workload, play(workload, Pace(default_ps=10, walked={(0, 1): (50,)})))

    tp_comm = 10 + 50 + 10 + 10  # the second forward was walked, and slowed by others
    assert causes(found, 1) == {"compute": 18, "optimizer": 6, "tp_comm": tp_comm, "straggler_wait": 4}
    # Its part of the update is done 4 before that of rank 1, the last of its replica: bubble.
    assert causes(found, 0) == {"compute": 20, "optimizer": 2, "tp_comm": tp_comm, "straggler_wait": 2, "bubble": 4}
    assert operators(found, 1) == {
        "attention": 6,
        "mlp": 12,
        "optimizer": 6,
        "attention_comm": 60,
        "mlp_comm": 20,
    }


def test_a_rank_that_has_updated_shares_the_cause_of_the_last_of_its_replica() -> None:
    leader, other = two_stages(0, syncs=(0, None)), two_stages(1, syncs=(0, None))[0]
    backward = (Compute("mlp", (20, 20)),)
    uneven = program(
        0, 1, (1, 3), "F0 F1 B0 B1", (Compute("mlp", (10, 10)),), backward, (Compute("optimizer", (2, 40)),)
    )
    workload = Workload((leader[0], uneven, other), pipeline([leader[0], uneven]), (sync(0, 2),))

    found = check_account(workload, play(workload, Pace(sync_ps=((30, 30),))))

    # Stage 1 updates from 70 on, rank 1 until 72 and rank 3 until 110. Their replica goes backward until 90; then
    # stage 0, its last, syncs until 120 and updates until 125.
    assert found.makespan_ps == 125
    assert causes(found, 1) == {"compute": 60, "optimizer": 2, "bubble": 10 + (90 - 72) + 5, "dp_comm": 30}
    assert causes(found, 3) == {"compute": 60, "optimizer": 40, "bubble": 10 + 5, "dp_comm": 10}


def test_a_replica_that_ended_waits_for_the_rest() -> None:
    programs = [*two_stages(0), *two_stages(1, slow=2)]
    workload = Workload(tuple(programs), pipeline(programs), ())

    found = check_account(workload, play(workload))

    assert found.makespan_ps == 185
    assert causes(found, 0) == {"compute": 60, "optimizer": 5, "bubble": 30, "straggler_wait": 90}


def test_exposed_resharding_is_bubble() -> None:
    programs = two_stages(0)
    workload = Workload(tuple(programs), pipeline(programs), ())

    found = check_account(workload, play(workload, Pace(move_ps=4)))

    assert causes(found, 0)["bubble"] == 30 + 2 * 4
    # Rank 1 waits for both activations, one of them hidden behind F0 in part: F1 is sent at 20, F0 runs from 14 to 24.
    # Rank 0 waits for both gradients, which stage 1 sends at 54 and 74: B0 runs from 58 to 78.
    assert (operators(found, 0)["reshard_comm"], operators(found, 1)["reshard_comm"]) == (4 + 0, 4 + 0)


def test_only_what_has_been_sent_is_resharding() -> None:
    """With a slower second stage everything but the first activation and the last gradients is hidden."""
    programs = two_stages(0)
    slow = two_stages(0, slow=3)[1]
    workload = Workload((programs[0], slow), pipeline([programs[0], slow]), ())

    found = check_account(workload, play(workload, Pace(move_ps=4)))

    assert operators(found, 0)["reshard_comm"] == 4 + 4
    assert operators(found, 1)["reshard_comm"] == 4


def test_a_hand_over_that_takes_no_time_is_no_resharding() -> None:
    programs = two_stages(0)
    workload = Workload(tuple(programs), pipeline(programs), ())

    assert "reshard_comm" not in operators(check_account(workload, play(workload)), 1)


@given(cases())
def test_exposed_resharding_by_definition(case: tuple[Workload, Timeline]) -> None:
    """Instant by instant: a rank does nothing, and what its next action waits for has been sent."""
    workload, timeline = case
    columns = zip(timeline.program.tolist(), timeline.kind.tolist(), timeline.micro_batch.tolist(), strict=True)
    row_of = {key: row for row, key in enumerate(columns)}
    expected = [0] * len(workload.programs)
    for (index, kind, micro_batch), row in row_of.items():
        senders = [m.source for m in workload.moves if (m.target, m.kind) == (index, kind)]
        sent = [int(timeline.end_ps[row_of[source, kind, micro_batch]]) for source in senders]
        mine = np.flatnonzero((timeline.program == index) & (np.arange(len(timeline.program)) < row))
        free = int(timeline.end_ps[mine].max(initial=0))
        instants = range(free, int(timeline.start_ps[row]))
        expected[index] += sum(bool(sent) and at >= max(sent) for at in instants)

    found = account(workload, timeline)

    column = found.operators_ps[:, found.operators.index("reshard_comm")]
    assert column.tolist() == [expected[index] for index in found.program.tolist()]
    assert (column <= found.cause_ps("bubble")).all()


def test_overlapping_syncs_count_once_as_operator() -> None:
    backward = (Compute("mlp", (10,)), Ready(0), Compute("mlp", (10,)), Ready(1))
    programs = [program(r, 0, (r,), "F0 B0", (Compute("mlp", (0,)),), backward, UPDATE) for r in range(2)]
    workload = Workload(tuple(programs), (), (sync(0, 1), sync(0, 1)))

    found = check_account(workload, play(workload, Pace(sync_ps=((15, 15), (15, 15)))))

    # One from 10 to 25, one from 20 to 35: under way for 25, of which 15 are exposed.
    assert operators(found, 0)["grad_sync"] == 25
    assert causes(found, 0)["dp_comm"] == 15


def operators(found: Account, rank: int) -> dict[str, int]:
    row = found.operators_ps[found.ranks.tolist().index(rank)].tolist()
    return {kind: time for kind, time in zip(found.operators, row, strict=True) if time}


@given(cases())
def test_every_picosecond_has_one_cause(case: tuple[Workload, Timeline]) -> None:
    workload, timeline = case

    found = check_account(workload, timeline)

    assert (found.causes_ps >= 0).all()
    assert (found.causes_ps.sum(axis=1) == timeline.makespan_ps).all()
    computing = [k for k, kind in enumerate(found.operators) if not kind.endswith(("_comm", "_sync", "_gather"))]
    computed = found.cause_ps("compute") + found.cause_ps("optimizer")
    assert (found.operators_ps[:, computing].sum(axis=1) == computed).all()


@given(cases(), st.data())
def test_the_checker_catches_a_picosecond_under_the_wrong_cause(
    case: tuple[Workload, Timeline], data: st.DataObject
) -> None:
    workload, timeline = case
    right = account(workload, timeline)
    row = data.draw(st.integers(0, len(right.ranks) - 1))
    source, target = data.draw(st.permutations(range(len(CAUSES))))[:2]
    wrong = right.causes_ps.copy()
    wrong[row, source] -= 1
    wrong[row, target] += 1

    with pytest.raises(AssertionError, match=rf"rank {right.ranks[row]}: the account says"):
        check_account(workload, timeline, replace(right, causes_ps=wrong))


@given(cases(), st.data())
def test_the_checker_catches_an_impossible_timeline(case: tuple[Workload, Timeline], data: st.DataObject) -> None:
    workload, timeline = case
    column = data.draw(st.sampled_from(["start_ps", "end_ps", "reached_ps", "synced_ps"]))
    values = getattr(timeline, column).copy()
    values[data.draw(st.integers(0, len(values) - 1))] += data.draw(st.sampled_from([-1, 1]))

    with pytest.raises(AssertionError):
        check_account(workload, replace(timeline, **{column: values}))


@given(cases())
def test_the_checker_catches_a_lost_action(case: tuple[Workload, Timeline]) -> None:
    workload, timeline = case
    kept = np.arange(len(timeline.program)) != 0
    columns = ("program", "kind", "micro_batch", "chunk", "start_ps", "end_ps", "walk")

    with pytest.raises(AssertionError, match="program 0 ran"):
        check_account(workload, replace(timeline, **{name: getattr(timeline, name)[kept] for name in columns}))


@given(cases())
def test_renumbered_ranks_keep_their_account(case: tuple[Workload, Timeline]) -> None:
    workload, timeline = case
    assume(len(workload.programs) > 1)
    top = max(rank for each in workload.programs for rank in each.devices.ranks)
    renumbered = [
        replace(each, devices=replace(each.devices, ranks=tuple(top - r for r in each.devices.ranks)))
        for each in workload.programs
    ]

    other = account(replace(workload, programs=tuple(renumbered)), timeline)

    assert other.ranks.tolist() == sorted(other.ranks.tolist())
    assert (other.causes_ps == account(workload, timeline).causes_ps[::-1]).all()


def test_bodies_without_collectives_need_no_folded_entry() -> None:
    body = Body((Compute("mlp", (4,)),))
    only = replace(two_stages(0)[0], bodies={("F", 0): body, ("B", 0): body, ("U", 0): Body(())})
    workload = Workload((only,), (), ())

    found = check_account(workload, replace(play(workload), folded={}))

    assert causes(found, 0) == {"compute": 16}
