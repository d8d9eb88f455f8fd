"""The trace: slices of a rank nest and cover the iteration."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given

from tests.metrics.toy import Pace, cases, pipeline, play, program, sync
from xsim.account import account
from xsim.plan.workload import Compute, Ready, Workload
from xsim.sim.timeline import Timeline
from xsim.trace import Event, trace_events
from xsim.waits import CAUSES


def pieces(events: list[Event], rank: int) -> list[tuple[int, int, str, str]]:
    """(start, end, category, name) of a rank's slices in picoseconds, outer ones first."""
    found = [
        (round(e["ts"] * 1e6), round(e["ts"] * 1e6) + round(e["dur"] * 1e6), str(e["cat"]), str(e["name"]))
        for e in events
        if e["ph"] == "X" and e["tid"] == rank
    ]
    return sorted(found, key=lambda piece: (piece[0], -piece[1]))


@given(cases())
def test_slices_nest_and_tell_the_account(case: tuple[Workload, Timeline]) -> None:
    workload, timeline = case
    events = json.loads(json.dumps(trace_events(workload, timeline)))
    found = account(workload, timeline)

    for row, rank in enumerate(found.ranks.tolist()):
        end_of_outer, told = 0, Counter[str]()
        for start, end, category, name in pieces(events, rank):
            if start == end:
                continue
            inner = start < end_of_outer
            assert not inner or end <= end_of_outer, f"{name} sticks out"
            if not inner:
                assert start == end_of_outer, f"a hole before {name}"
                end_of_outer = end
            if category != "action":
                told[name if category == "wait" else category] += end - start
        assert end_of_outer == timeline.makespan_ps
        assert [told[cause] for cause in CAUSES] == found.causes_ps[row].tolist()


def test_arrows_join_the_actions_of_neighbouring_stages() -> None:
    step = (Compute("mlp", (3_000_000,)),)
    programs = [program(0, stage, (stage,), "F0 B0", step, (*step, Ready(0))) for stage in range(2)]
    workload = Workload(tuple(programs), pipeline(programs), (sync(0, 1),))

    events = trace_events(workload, play(workload, Pace(move_ps=1_000_000, sync_ps=((0, 0),))))

    arrows = [(e["ph"], e["name"], e["tid"], e["ts"]) for e in events if e.get("cat") == "move"]
    assert arrows == [
        ("s", "activation", 0, 0.0),
        ("f", "activation", 1, 4.0),
        ("s", "gradient", 1, 7.0),
        ("f", "gradient", 0, 11.0),
    ]
    syncs = [(e["ph"], e["id"], e["ts"]) for e in events if e.get("cat") == "sync"]
    assert syncs == [("b", "0/0", 14.0), ("e", "0/0", 14.0), ("b", "0/1", 10.0), ("e", "0/1", 14.0)]


def test_only_the_ranks_asked_for_are_shown() -> None:
    step = (Compute("mlp", (3, 3)),)
    programs = [program(0, stage, (2 * stage, 2 * stage + 1), "F0 B0", step, step) for stage in range(2)]
    workload = Workload(tuple(programs), pipeline(programs), ())

    events = trace_events(workload, play(workload), ranks={1})

    assert {event["tid"] for event in events} == {1}
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == ["rank 1, stage 0, TP 1"]
