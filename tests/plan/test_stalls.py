"""Stalls fall into the actions in which a rank has computed for so long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.account_checker import check_account
from tests.metrics.toy import Pace, graph, pipeline, play, program
from xsim.plan.draw import Stall
from xsim.plan.stalls import loading, stalled
from xsim.plan.workload import UPDATE, Action, Collect, Compute, Program, Ready, Workload

Steps = tuple[Compute | Collect | Ready, ...]

BESIDE = Collect("mlp", graph((4, 7)), Compute("mlp", (5, 1)))
FORWARD: Steps = (Compute("mlp", (10, 4)),)
ONE: Steps = (Compute("mlp", (10,)),)
BACKWARD: Steps = (Compute("mlp", (20, 8)), BESIDE)
UPDATES: Steps = (Compute("optimizer", (3, 3)),)

# rank 7 computes 4, 4, 9, 9 and 3 ps in F0, F1, B0, B1 and the update


def of_rank_7(*stalls: tuple[int, int]) -> Workload:
    """One group of ranks 4 and 7, the second with these stalls."""
    one = program(0, 0, (4, 7), "F0 F1 B0 B1", FORWARD, BACKWARD, UPDATES)
    return stalled(Workload((one,), (), ()), lambda rank: iter([Stall(*each) for each in stalls] if rank == 7 else []))


@pytest.mark.parametrize(
    ("at_ps", "action"),
    [
        (0, Action("F", 0)),
        (3, Action("F", 0)),
        (4, Action("F", 1)),
        (8, Action("B", 0)),
        (16, Action("B", 0)),
        (17, Action("B", 1)),
        (26, UPDATE),
        (28, UPDATE),
    ],
)
def test_a_stall_delays_the_action_into_which_it_falls(at_ps: int, action: Action) -> None:
    (found,) = of_rank_7((at_ps, 100)).programs

    assert list(found.own) == [action]
    assert found.own[action].steps == (Compute("stall", (0, 100)), *found.bodies[action.kind, 0].steps)
    assert found.body(action) is found.own[action]
    assert found.body(Action("F", 9)) is found.bodies["F", 0]


def test_what_comes_after_the_last_action_does_not_happen_and_what_falls_together_adds_up() -> None:
    plain: Program = of_rank_7().programs[0]
    assert of_rank_7((29, 100)).programs[0].own == plain.own == {}

    (found,) = of_rank_7((8, 100), (9, 20), (17, 3), (40, 1)).programs
    assert {str(action): body.steps[0] for action, body in found.own.items()} == {
        "B0": Compute("stall", (0, 120)),
        "B1": Compute("stall", (0, 3)),
    }


def test_stalls_that_never_end_are_taken_as_far_as_needed() -> None:
    def endless(_: int) -> Iterator[Stall]:
        at_ps = 0
        while True:
            yield Stall(at_ps, 1)
            at_ps += 5

    one = program(0, 0, (4, 7), "F0 F1 B0 B1", FORWARD, BACKWARD, UPDATES)
    (found,) = stalled(Workload((one,), (), ()), endless).programs

    first = [body.steps[0] for body in found.own.values()]
    assert sum(step.durations_ps[1] for step in first if isinstance(step, Compute)) == 6  # at 0, 5, .. 25 of 29


def test_the_rank_that_stands_still_computes_and_the_other_waits_for_it() -> None:
    """F0 takes 10, F1 100 + 10, each backward 20 + 7 for the collective, the update 3."""
    workload = of_rank_7((5, 100))
    found = check_account(workload, play(workload, Pace(default_ps=7)))

    assert found.makespan_ps == 10 + 110 + 2 * 27 + 3
    assert found.cause_ps("compute").tolist() == [2 * 10 + 2 * 25, 2 * 4 + 2 * 9 + 100]
    assert found.cause_ps("straggler_wait").tolist() == [100, 2 * 6 + 2 * 12]
    assert found.operators_ps[:, found.operators.index("stall")].tolist() == [0, 100]


def test_samples_that_come_late_delay_who_begins_alone_and_nobody_else() -> None:
    programs = [program(0, stage, (stage,), "F0 B0", ONE, ONE, (Compute("optimizer", (3,)),)) for stage in range(2)]
    plain = Workload(tuple(programs), pipeline(programs), ())
    late = loading(plain, 50)
    first, second = late.programs

    assert loading(plain, 0) is plain
    assert {str(action): body.steps[0] for action, body in first.own.items()} == {"F0": Compute("data_loading", (50,))}
    assert second.own == {}
    (stands,) = stalled(loading(Workload((programs[0],), (), ()), 50), lambda _: iter([Stall(0, 3)])).programs
    assert stands.body(Action("F", 0)).steps == (Compute("stall", (3,)), Compute("data_loading", (50,)), *ONE)
    found, usual = (check_account(each, play(each)) for each in (late, plain))
    assert found.makespan_ps == usual.makespan_ps + 50
    assert found.operators_ps[:, found.operators.index("data_loading")].tolist() == [50, 0]
    assert (found.cause_ps("compute") - usual.cause_ps("compute")).tolist() == [50, 0]
    assert (found.cause_ps("bubble") - usual.cause_ps("bubble")).tolist() == [0, 50]
