"""Computing beside syncs of gradients and weights loses processors to them."""

from __future__ import annotations

from collections.abc import Sequence
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
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)).map(lambda span: (span[0], sum(span))), max_size=8),
    st.integers(0, 50),
    st.integers(0, 30),
)
def test_work_goes_on_at_a_lower_rate_within_stretches(found: list[tuple[int, int]], start: int, own: int) -> None:
    """Against counting instants one by one, at half the rate: a unit of work takes two of them there."""
    covered = {at for a, b in found for at in range(a, b)}
    at, left = start, 2 * own
    while left > 0:
        left -= 1 if at in covered else 2
        at += 1

    spans = _Spans.of(found)
    assert abs(spans.lasting_ps(start, own, 0.5) - (at - start)) <= 1
    assert spans.meet(start, start + own) == any(max(a, start) < min(b, start + own) for a, b in found)
    assert spans.lasting_ps(start, own, 0.0) == own


def test_the_last_backward_is_slower_beside_the_syncs_that_it_has_begun() -> None:
    """Step by step: a sync is under way from when its gradients are complete, as long as it takes alone."""
    deployment = plan(*REPLICAS, micro_batches=2, bucket_bytes=1)
    free, held = simulated(deployment, 0.0), simulated(deployment, SHARE)
    last = Action("B", 1)
    body = free.workload.programs[0].body(last)
    (row,) = (row for row in range(len(free.timeline.program)) if _is(free.timeline, row, last))
    at_ps, expected = int(free.timeline.start_ps[row]), list[Compute]()
    spans = sorted(
        (int(joined[0]), int(done[0]))
        for joined, done in zip(free.timeline.joined_ps, free.timeline.done_ps, strict=True)
    )
    for step in body.steps:
        if isinstance(step, Compute):
            ends = [(max(a, at_ps), b) for a, b in spans if b > at_ps]
            expected.append(_held(step, at_ps, ends))
            at_ps += max(step.durations_ps)

    found = [step for step in held.workload.programs[0].body(last).steps if isinstance(step, Compute)]

    assert found == expected
    assert sum(step not in body.steps for step in found) > 3
    assert found[0] == next(step for step in body.steps if isinstance(step, Compute))
    assert list(held.workload.programs[0].own) == [last]
    assert free.timeline.makespan_ps < held.timeline.makespan_ps
    check_account(held.workload, held.timeline)


def _is(timeline: Timeline, row: int, action: Action) -> bool:
    return int(timeline.program[row]) == 0 and timeline.action(row) == action


def _held(step: Compute, at_ps: int, spans: Sequence[tuple[int, int]]) -> Compute:
    """Beside syncs of which at most one begins during the step."""
    (own_ps,) = step.durations_ps
    begun_ps = min((start for start, _ in spans), default=at_ps + own_ps) - at_ps
    until_ps = max((end for start, end in spans if start <= at_ps + own_ps), default=at_ps) - at_ps
    if begun_ps >= own_ps:
        return step
    beside = slowed(replace(step, durations_ps=(own_ps - begun_ps,)), until_ps - begun_ps, SHARE)
    return replace(step, durations_ps=(begun_ps + beside.durations_ps[0],))


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
