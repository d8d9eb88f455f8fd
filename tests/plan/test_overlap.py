"""Collectives of a device group beside the products that they feed or follow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.metrics.toy import Pace, graph, play, program
from tests.plan.toy import cluster, lowered, model, plan, scenario, stage
from xsim.experiment import Experiment, Result, run
from xsim.families import build
from xsim.plan.beside import PassExchange, in_pieces, slowed
from xsim.plan.operator import Exchange
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.plan.workload import Body, Collect, Compute, Workload
from xsim.sim.course import course_of
from xsim.spec.scenario import Scenario
from xsim.trace import trace_events

GPT = model()


def question(
    tp: int = 2, *, sequence_parallel: bool = False, overlap: bool = True, beside: bool = False, seq_len: int = 32
) -> Scenario:
    """Two stages of ``tp`` ranks."""
    first, last = (
        stage(tuple(range(s * tp, s * tp + tp)), layers=layers, sequence_parallel=sequence_parallel)
        for s, layers in enumerate((range(1, 3), range(3, 5)))
    )
    deployment = replace(plan((first, last)), tp_overlap=overlap, tp_async=beside)
    return scenario(cluster(2 * tp), model(seq_len=seq_len), deployment)


def text(body: Body) -> str:
    """A body to read: computed kinds, ``|`` for a collective, ``|mlp`` with what runs beside it."""
    words = []
    for step in body.steps:
        if isinstance(step, Compute):
            words.append(step.kind)
        elif isinstance(step, Collect):
            words.append("|" + (step.beside.kind if step.beside else ""))
    return " ".join(words)


def test_with_sequence_parallelism_gather_and_scatter_run_beside_their_products() -> None:
    last = lowered(question(sequence_parallel=True)).programs[1]

    forward = "layernorm |attention attention |attention layernorm |mlp mlp |mlp layernorm"
    backward = "layernorm |mlp mlp |mlp |mlp layernorm |attention attention |attention |attention layernorm"
    assert text(last.bodies["F", 0]) == f"{forward} {forward} layernorm |head head"
    assert text(last.bodies["B", 0]) == f"head |head |head layernorm {backward} {backward}"


def test_megatron_sums_beside_the_product_for_weights_and_gathers_its_input_again() -> None:
    for sequence_parallel, layer, head in (
        (False, "layernorm mlp |mlp layernorm attention |attention layernorm", "head |head"),
        (True, "layernorm | mlp |mlp |mlp layernorm | attention |attention |attention layernorm", "head |head |head"),
    ):
        asked = question(sequence_parallel=sequence_parallel, overlap=False, beside=True)
        plain = question(sequence_parallel=sequence_parallel, overlap=False)
        last, apart = (lowered(each).programs[1] for each in (asked, plain))

        assert text(last.bodies["F", 0]) == text(apart.bodies["F", 0])
        assert text(last.bodies["B", 0]) == f"{head} layernorm {layer} {layer}"


def test_without_it_the_sum_runs_beside_the_product_before_it() -> None:
    first = lowered(question()).programs[0]

    layer = "layernorm attention |attention layernorm mlp |mlp layernorm"
    assert text(first.bodies["F", 0]) == f"embedding | embedding {layer} {layer}"


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_it_is_the_same_work(sequence_parallel: bool) -> None:
    for schedule in (None, ZbH1()):
        plain, beside = (
            lowered(question(sequence_parallel=sequence_parallel, overlap=on, beside=True), schedule)
            for on in (False, True)
        )
        for one, two in zip(plain.programs, beside.programs, strict=True):
            for key, body in one.bodies.items():
                assert sum(computed(body)) == sum(computed(two.bodies[key]))
                sizes = [
                    [int(step.graph.sent_bytes().sum()) for step in each.steps if isinstance(step, Collect)]
                    for each in (body, two.bodies[key])
                ]
                assert sizes[0] == sizes[1]


def computed(body: Body) -> list[int]:
    work = (step.beside if isinstance(step, Collect) else step for step in body.steps)
    return [step.durations_ps[0] for step in work if isinstance(step, Compute)]


@given(st.integers(2, 4), st.booleans(), st.sampled_from((32, 512)), st.integers(0, 10**9))
def test_a_body_takes_no_less_than_either_and_no_more_than_both(
    tp: int, sequence_parallel: bool, seq_len: int, collect_ps: int
) -> None:
    """Collectives of any length; ranks are alike, so that no rank waits for another between products."""
    plain, beside = (
        lowered(question(tp, sequence_parallel=sequence_parallel, overlap=on, seq_len=seq_len)) for on in (False, True)
    )
    for one, two in zip(plain.programs, beside.programs, strict=True):
        for key, body in one.bodies.items():
            apart, together = (
                course_of(b, lambda _: collect_ps, lambda _: collect_ps) for b in (body, two.bodies[key])
            )
            compute_ps = sum(max(step.durations_ps) for step in body.steps if isinstance(step, Compute))
            talk_ps = collect_ps * len(apart.stops)
            assert apart.duration_ps == compute_ps + talk_ps
            again_ps = collect_ps * (len(together.stops) - len(apart.stops))
            assert max(compute_ps, talk_ps + again_ps) <= together.duration_ps <= apart.duration_ps + again_ps
            assert together.least_total_ps == together.duration_ps


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("network", ["analytic", "flow"])
def test_an_iteration_is_no_slower(network: str, sequence_parallel: bool) -> None:
    """Where sequence parallelism gathers again, that counts only if it may run beside products."""
    none, half, whole = (
        overlapped(network, sequence_parallel, *on) for on in ((False, False), (True, False), (False, True))
    )

    for plain, beside in ((half, whole),) if sequence_parallel else ((none, half), (half, whole)):
        assert beside.timeline.makespan_ps < plain.timeline.makespan_ps
        busiest = plain.account.cause_ps("compute").max()
        assert beside.timeline.makespan_ps > max(busiest, beside.account.cause_ps("tp_comm").max())
        assert (beside.account.cause_ps("compute") == plain.account.cause_ps("compute")).all()
        assert (beside.account.cause_ps("tp_comm") < plain.account.cause_ps("tp_comm")).all()


def overlapped(network: str, sequence_parallel: bool, half: bool, whole: bool) -> Result:
    asked = question(4, sequence_parallel=sequence_parallel, overlap=whole, beside=half, seq_len=512)
    return run(Experiment(scenario=asked, network=build("network", {"name": network}), memory="report"))


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_sum_in_pieces_hides_all_but_one_piece_of_the_shorter(own: int, collective: int) -> None:
    exchange = Exchange(kind="mlp", forward="reduce_scatter", backward="all_gather", cuts=(0, 1, 2))
    summed = PassExchange(exchange, "reduce_scatter", (), Compute("mlp", (own, own)), pieces=4)

    first, rest = in_pieces([summed], lambda _: collective)

    assert isinstance(first, Compute)
    assert isinstance(rest, PassExchange)
    assert rest.beside
    took = first.durations_ps[0] + max(rest.beside.durations_ps[0], collective)
    assert abs(took - max(own, collective) - min(own, collective) / 4) <= 1
    assert first.durations_ps[0] + rest.beside.durations_ps[0] == own


def test_compute_first_then_what_is_left_of_the_collective_then_the_slower_rank() -> None:
    """A collective of 100 beside 60, 100 and 140; and once, walked, of 150."""
    beside = Collect("mlp", graph((0, 1, 2)), Compute("attention", (60, 100, 140)))
    only = program(0, 0, (0, 1, 2), "F0 F1 B0 B1", (beside,), (Compute("mlp", (0, 0, 0)),))
    workload = Workload((only,), (), ())
    timeline = play(workload, Pace(default_ps=100, walked={(0, 1): (150,)}))

    found = check_account(workload, timeline)

    assert found.makespan_ps == 140 + 150
    assert found.cause_ps("compute").tolist() == [120, 200, 280]
    assert found.cause_ps("tp_comm").tolist() == [40 + 90, 0 + 50, 0 + 10]
    assert found.cause_ps("straggler_wait").tolist() == [40, 40, 0]
    kinds = {kind: found.operators_ps[:, k].tolist() for k, kind in enumerate(found.operators)}
    assert kinds["attention"] == [120, 200, 280]
    assert kinds["mlp_comm"] == [250] * 3
    shown = [
        (event["name"], event["ts"] * 1e6, event["dur"] * 1e6)
        for event in trace_events(workload, timeline, ranks={0})
        if event["ph"] == "X" and event["dur"] and event["cat"] != "action"
    ]
    assert [(name, round(start), round(duration)) for name, start, duration in shown] == [
        ("attention", 0, 60),
        ("mlp_comm", 60, 40),
        ("straggler_wait", 100, 40),
        ("attention", 140, 60),
        ("mlp_comm", 200, 90),
    ]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.0, 0.9))
def test_what_runs_beside_a_collective_has_the_processors_that_it_leaves(
    own: int, collective: int, share: float
) -> None:
    """Work is done at a lower rate until the collective ends, then at the whole."""
    (lasting,) = slowed(Compute("mlp", (own,)), collective, share).durations_ps

    done = min(lasting, collective) * (1 - share) + max(0, lasting - collective)
    assert abs(done - own) <= 1
    assert own <= lasting


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_contention_slows_products_beside_collectives_and_nothing_else(sequence_parallel: bool) -> None:
    asked = question(4, sequence_parallel=sequence_parallel, seq_len=512)
    results = [
        run(
            Experiment(
                scenario=replace(asked, contention=share), memory="report", network=build("network", {"name": name})
            )
        )
        for name in ("analytic", "flow")
        for share in (0.0, 0.25)
    ]

    for free, held in (results[:2], results[2:]):
        for one, two in zip(free.workload.programs, held.workload.programs, strict=True):
            for key, body in one.bodies.items():
                for before, after in zip(body.steps, two.bodies[key].steps, strict=True):
                    if isinstance(before, Collect) and isinstance(after, Collect) and before.beside and after.beside:
                        (own,), (lasting,) = set(before.beside.durations_ps), set(after.beside.durations_ps)
                        assert own < lasting <= math.ceil(own / 0.75)
                    elif isinstance(before, Compute):
                        assert before == after
        assert held.timeline.makespan_ps >= free.timeline.makespan_ps
        assert (held.account.cause_ps("compute") > free.account.cause_ps("compute")).all()
        check_account(held.workload, held.timeline)


def test_without_overlap_or_syncs_there_is_no_contention() -> None:
    asked = replace(question(4, overlap=False), model=model(seq_len=512, tied=False))
    free, held = (run(Experiment(scenario=replace(asked, contention=share), memory="report")) for share in (0.0, 0.25))

    assert held.timeline.makespan_ps == free.timeline.makespan_ps
