"""Computing beside syncs of gradients and weights loses processors to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.metrics.test_critical import check as check_path
from tests.plan.toy import cluster, model, plan, scenario, stage
from xsim.company import _Spans
from xsim.experiment import Experiment, Result, run
from xsim.families import build
from xsim.plan.beside import slowed
from xsim.plan.workload import Action, Compute, Ready
from xsim.sim.timeline import Timeline
from xsim.spec.deployment import DeploymentPlan
from xsim.units import PS_PER_S

SPEC = model(layers=4, hidden=64, heads=4, ffn=256, vocab=1000, seq_len=32, gated=True, tied=False)
REPLICAS = (stage((0,), layers=range(1, 5)),), (stage((1,), layers=range(1, 5)),)
PIPELINES = tuple((stage((a,), layers=range(1, 3)), stage((a + 1,), layers=range(3, 5))) for a in (0, 2))
SHARE = 0.25


def simulated(
    deployment: DeploymentPlan, share: float, *, network: str = "analytic", fold: bool = True, launch_ps: int = 0
) -> Result:
    question = replace(scenario(cluster(1, 1, 1, 1), SPEC, deployment), contention=share, launch_ps=launch_ps)
    backend = build("network", {"name": network})
    return run(Experiment(scenario=question, network=backend, memory="report", fold=fold))


@given(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 1500)).map(lambda span: (span[0], sum(span))), max_size=8),
    st.lists(st.integers(1, 700), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.12, 0.5, 0.9]),
)
def test_work_in_steps_loses_what_it_loses_as_one(found: list[tuple[int, int]], steps: list[int], share: float) -> None:
    """A stretch is not met anew by each step: one of length c costs ``min(d p / (1 - p), p c)`` of d beside it."""
    whole, cut = _Spans.of(found), _Spans.of(found)
    total = sum(steps)

    (at_once,) = whole.lasting_ps(0, [total], share)
    starts = [sum(steps[:number]) for number in range(len(steps))]
    one_by_one = sum(cut.lasting_ps(start, [own], share)[0] for start, own in zip(starts, steps, strict=True))

    beside = [(max(0, min(b, total) - a), b - a) for a, b in zip(whole.starts, whole.ends, strict=True) if a < total]
    expected = sum(slowed(Compute("mlp", (d,)), c, share).durations_ps[0] - d if share else 0 for d, c in beside)
    assert abs(at_once - total - expected) <= 1 + len(beside)
    assert abs(at_once - one_by_one) <= 1 + len(steps)
    assert whole.meet(0, total) == bool([d for d, _ in beside if d])


def test_a_group_goes_on_with_its_slowest() -> None:
    """Of two ranks the longer one has lost half of 20: the stretch, of 30, is over for both when it has gone on."""
    spans = _Spans.of([(20, 50)])

    assert spans.lasting_ps(0, [10, 40], 0.5) == (10, 55)
    assert spans.lasting_ps(40, [10], 0.5) == (10,)


def test_the_last_backward_is_slower_beside_the_syncs_that_it_has_begun() -> None:
    """A sync is under way from when its gradients are complete, as long as it takes alone."""
    deployment = plan(*REPLICAS, micro_batches=2, bucket_bytes=1)
    free, held = simulated(deployment, 0.0), simulated(deployment, SHARE)
    last = Action("B", 1)
    (row,) = (row for row in range(len(free.timeline.program)) if _is(free.timeline, row, last))
    times = (free.timeline.joined_ps, free.timeline.done_ps)
    spans = _Spans.of((int(joined[0]), int(done[0])) for joined, done in zip(*times, strict=True))
    end_ps = int(free.timeline.end_ps[row])
    works = [(min(end, end_ps) - start, end - start) for start, end in zip(spans.starts, spans.ends, strict=True)]

    before, after = (
        [step.durations_ps[0] for step in each.workload.programs[0].body(last).steps if isinstance(step, Compute)]
        for each in (free, held)
    )

    expected = sum(slowed(Compute("mlp", (d,)), c, SHARE).durations_ps[0] - d for d, c in works if d > 0)
    assert abs(sum(after) - sum(before) - expected) <= len(before)
    assert expected > 0
    assert after[0] == before[0]
    assert list(held.workload.programs[0].own) == [last]
    assert free.timeline.makespan_ps < held.timeline.makespan_ps
    check_account(held.workload, held.timeline)


def _is(timeline: Timeline, row: int, action: Action) -> bool:
    return int(timeline.program[row]) == 0 and timeline.action(row) == action


@pytest.mark.parametrize(
    ("options", "slower"),
    [
        ({}, {"B2"}),
        ({"zero": 1}, {"B2"}),
        ({"zero": 1, "gather_overlap": True}, {"B2", "F0"}),
        ({"zero": 2}, {"B0", "B1", "B2", "F1", "F2"}),
        ({"zero": 3}, {"B0", "B1", "B2"}),
        ({"zero": 3, "gather_overlap": True}, {"B0", "B1", "B2", "F0", "F1", "F2"}),
    ],
)
def test_which_actions_have_company(options: dict[str, object], slower: set[str]) -> None:
    deployment = replace(plan(*REPLICAS, micro_batches=3, bucket_bytes=1), **options)  # type: ignore[arg-type]
    held = simulated(deployment, SHARE)

    free = simulated(deployment, 0.0)
    found = {
        str(action)
        for program, before in zip(held.workload.programs, free.workload.programs, strict=True)
        for action, body in program.own.items()
        if body.steps != before.body(action).steps
    }
    assert found == slower


@pytest.mark.parametrize("network", ["analytic", "flow", "packet"])
@pytest.mark.parametrize("options", [{}, {"zero": 2}, {"zero": 3, "gather_overlap": True}])
def test_folded_or_walked_it_is_the_same(network: str, options: dict[str, object]) -> None:
    deployment = replace(plan(*PIPELINES, micro_batches=3), **options)  # type: ignore[arg-type]
    folded, walked = (simulated(deployment, SHARE, network=network, fold=fold) for fold in (True, False))

    assert folded.timeline.makespan_ps == walked.timeline.makespan_ps
    check_account(folded.workload, folded.timeline)
    check_path(folded.workload, folded.timeline)


def test_who_waits_for_a_host_or_stands_still_loses_nothing() -> None:
    deployment = plan(*REPLICAS, micro_batches=2, bucket_bytes=1)
    free, held = (simulated(deployment, share, launch_ps=PS_PER_S // 10**6) for share in (0.0, SHARE))

    waits = [
        [step for step in each.workload.programs[0].body(Action("B", 1)).steps if step in _launching(each)]
        for each in (free, held)
    ]
    assert waits[0] == waits[1] != []


def _launching(result: Result) -> list[Compute]:
    steps = (step for body in result.workload.programs[0].each_body() for step in body.steps)
    return [step for step in steps if isinstance(step, Compute) and step.kind == "launch"]


def test_without_other_copies_there_is_nothing_to_lose() -> None:
    deployment = plan(REPLICAS[0], micro_batches=2)
    free, held = (simulated(deployment, share) for share in (0.0, SHARE))

    assert not any(isinstance(step, Ready) for body in held.workload.programs[0].each_body() for step in body.steps)
    assert held.timeline.makespan_ps == free.timeline.makespan_ps
