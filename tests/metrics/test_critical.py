"""The critical path: by hand, then of random timelines and random experiments."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import backgrounds, experiments
from tests.metrics.toy import Pace, cases, pipeline, play, program, sync
from xsim.critical import Piece, critical_path
from xsim.experiment import run
from xsim.plan.workload import Compute, Ready, Workload
from xsim.sim.timeline import Timeline


def check(workload: Workload, timeline: Timeline) -> tuple[Piece, ...]:
    """The path, after it has been seen to cover the iteration once and to hold only what its programs did."""
    path = critical_path(workload, timeline)
    assert sum(piece.duration_ps for piece in path) == timeline.makespan_ps
    assert all(piece.duration_ps > 0 for piece in path)
    assert all(before.end_ps == after.start_ps for before, after in pairwise(path))
    for piece in path:
        own = timeline.program == piece.program
        done = (timeline.kind == piece.action.kind) & (timeline.chunk == piece.action.chunk)
        (row,) = (own & done & (timeline.micro_batch == piece.action.micro_batch)).nonzero()[0].tolist()
        start, end = int(timeline.start_ps[row]), int(timeline.end_ps[row])
        if piece.kind in ("compute", "collective"):
            assert start <= piece.start_ps < piece.end_ps <= end
        elif piece.kind == "hand_over":
            assert piece.start_ps >= end if workload.rendezvous else piece.start_ps == end
        else:
            assert start <= piece.start_ps
    return path


def told(path: tuple[Piece, ...]) -> list[str]:
    return [f"{each.operator} {each.program} {each.action} {each.duration_ps}" for each in path]


def test_a_pipeline_of_two_stages() -> None:
    """The second is slower; what it sends takes 3; the update of the first comes last."""
    update = (Compute("optimizer", (5,)),)
    programs = [
        program(0, 0, (0,), "F0 F1 B0 B1", (Compute("mlp", (10,)),), (Compute("mlp", (20,)),), update),
        program(0, 1, (1, 2), "F0 F1 B0 B1", (Compute("mlp", (11, 30)),), (Compute("mlp", (12, 40)),), update),
    ]
    workload = Workload(tuple(programs), pipeline(programs), ())

    path = check(workload, play(workload, Pace(move_ps=3)))

    assert told(path) == [
        "mlp 0 F0 10",
        "reshard_comm 0 F0 3",
        "mlp 1 F0 30",
        "mlp 1 F1 30",
        "mlp 1 B0 40",
        "mlp 1 B1 40",
        "reshard_comm 1 B1 3",
        "mlp 0 B1 20",
        "optimizer 0 U0 5",
    ]
    assert [piece.ranks for piece in path[:3]] == [(0,), (0, 1, 2), (2,)]


def test_a_sync_goes_back_to_who_came_last() -> None:
    """In the midst of its backward pass, which the sync hides from then on."""
    update = (Compute("optimizer", (5,)),)
    ready = (Ready(0),)
    programs = [
        program(0, 0, (0,), "F0 B0", (Compute("mlp", (10,)),), (*ready, Compute("mlp", (20,))), update),
        program(1, 0, (1,), "F0 B0", (Compute("mlp", (30,)),), (Compute("mlp", (5,)), *ready), update),
    ]
    workload = Workload(tuple(programs), (), (sync(0, 1),))

    path = check(workload, play(workload, Pace(sync_ps=((7, 9),))))

    assert told(path) == ["mlp 1 F0 30", "mlp 1 B0 5", "grad_sync 1 B0 9", "optimizer 1 U0 5"]
    assert path[2].ranks == (0, 1)


@given(cases())
def test_a_path_covers_any_timeline(case: tuple[Workload, Timeline]) -> None:
    check(*case)


@settings(max_examples=max(6, settings().max_examples // 4))
@given(st.data())
def test_a_path_covers_any_iteration(data: st.DataObject) -> None:
    """And leads from one program to another only by what they exchange."""
    experiment = data.draw(experiments())
    if data.draw(st.integers(0, 3)) == 0:
        experiment = replace(experiment, background=data.draw(backgrounds()))
    result = run(replace(experiment, memory="report", fold=data.draw(st.booleans())))

    ranks = [set(program.devices.ranks) for program in result.workload.programs]
    for before, after in pairwise(check(result.workload, result.timeline)):
        there = before.kind in ("hand_over", "sync") and ranks[after.program] <= set(before.ranks)
        assert after.program == before.program or there
