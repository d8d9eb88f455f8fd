"""Sharded weights (ZeRO stage 3): when they are fetched, what that takes, who waits for whom, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.account_checker import check_account
from tests.metrics.test_critical import check as check_path
from tests.plan.toy import GB_PER_S, US, cluster, device, lowered, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.experiment import Experiment, Result, run
from xsim.families import build
from xsim.plan.contracts import Schedule
from xsim.plan.memory import deployment_memory
from xsim.plan.schedule.dualpipe import DualPipe
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.plan.workload import Body, Compute, Fetch, Program
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import DeploymentPlan, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment

SPEC = model(layers=4, hidden=64, heads=4, ffn=256, vocab=1000, seq_len=32, gated=True, tied=False)
ONE_STAGE = (stage((0,), layers=range(1, 5)),), (stage((1,), layers=range(1, 5)),)
TWO_STAGES = tuple((stage((a,), layers=range(1, 3)), stage((a + 1,), layers=range(3, 5))) for a in (0, 2))


def sharded(
    deployment: DeploymentPlan, spec: ModelSpec = SPEC, hardware: ClusterSpec | None = None, zero: int = 3
) -> Scenario:
    return scenario(hardware or cluster(1, 1, 1, 1), spec, replace(deployment, zero=zero))


def simulated(question: Scenario, network: str = "flow") -> Result:
    backend = build("network", {"name": network})
    return run(Experiment(scenario=question, network=backend, schedule=GPipe(), memory="report", verify=True))


def shape(body: Body) -> str:
    """``f`` for a fetch, ``c`` for other steps that take time."""
    return "".join("f" if isinstance(step, Fetch) else "c" for step in body.steps if isinstance(step, Compute | Fetch))


def fetched(program: Program, kind: str, chunk: int = 0) -> list[int]:
    return [step.sync for step in program.bodies[kind, chunk].steps if isinstance(step, Fetch)]


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_volume_of_one_micro_batch_is_half_as_much_again(micro_batches: int) -> None:
    """ZeRO section 7.2.2: 3 times the parameters where plain data parallelism sends them twice."""
    question = plan(*ONE_STAGE, micro_batches=micro_batches)
    plain, found = (simulated(sharded(question, zero=zero)).metrics for zero in (0, 3))

    assert sum(size for _, size in plain.link_bytes) > 0
    for (kind, once), (_, more) in zip(plain.link_bytes, found.link_bytes, strict=True):
        assert 2 * more == 3 * micro_batches * once, kind


def test_layers_are_fetched_before_each_pass() -> None:
    """Embedding, layers 1 and 2 in one bucket, 3 and 4 in another, head; backward from the last to the first."""
    two_layers = 2 * 2 * SPEC.layer_parameters(1)
    workload = lowered(sharded(plan(*ONE_STAGE, micro_batches=2, bucket_bytes=two_layers)))

    program = workload.programs[0]
    layers = {kind: [workload.syncs[n].layers for n in fetched(program, kind)] for kind in "FB"}
    assert layers["F"] == [range(0, 1), range(1, 3), range(3, 5), range(5, 6)]
    assert layers["B"] == layers["F"][::-1]
    assert shape(program.bodies["F", 0]).startswith("fcf")
    assert [sync.does for sync in workload.syncs] == ["scatter"] * 4 * 2 + ["fetch"] * 8 * 2
    numbers = sorted(fetched(program, "F") + fetched(program, "B"))
    assert numbers == list(range(8, 16))  # of the first micro-batch; the second has the next eight


def test_the_gradients_of_weights_alone_need_no_weights() -> None:
    workload = lowered(sharded(plan(*TWO_STAGES, micro_batches=2)), ZbH1())

    program = workload.programs[0]
    assert [workload.syncs[n].layers for n in fetched(program, "I")] == [range(1, 3), range(0, 1)]
    assert not fetched(program, "W")


def test_a_tied_table_is_fetched_at_both_ends() -> None:
    """It is not kept whole from one end to the other: at most a bucket is."""
    tied = replace(SPEC, tied=True)
    workload = lowered(sharded(plan(*ONE_STAGE, micro_batches=1), tied))
    kinds = [(workload.syncs[n].kind, workload.syncs[n].size_bytes) for n in fetched(workload.programs[0], "F")]
    table = 2 * tied.vocab * tied.hidden
    assert [kind for kind in kinds if kind == ("embedding", table)] == [kinds[0], kinds[0]]

    question = sharded(plan(*ONE_STAGE, micro_batches=1, bucket_bytes=1), tied)
    assert question.deployment is not None
    needs = []
    for zero in (2, 3):
        deployment = check_deployment(replace(question.deployment, zero=zero), question)
        needs.append(deployment_memory(question, deployment, GPipe().order).needs[0][1].buffer_bytes)
    at_head = table + 2 * (tied.layer_parameters(tied.layers + 1) - tied.vocab * tied.hidden)
    assert needs[1] - needs[0] == max(at_head, 2 * tied.layer_parameters(1))


def test_two_equal_ranks_take_what_their_parts_take() -> None:
    """Every fetch sends half a bucket each way before the layers; only the last sums of gradients show at the end.

    Without contention. From host to host there are six links of 1 us each; PCIe is the narrowest.
    """
    found = simulated(sharded(plan(*ONE_STAGE, micro_batches=1)), "analytic")

    workload, program = found.workload, found.workload.programs[0]
    sizes = {sync.layers.start: sync.size_bytes for sync in workload.syncs}
    wire_ps = {layer: 6 * US + round(size / 2 / (32 * GB_PER_S) * 1e12) for layer, size in sizes.items()}
    assert wire_ps == {0: 8_000_000, 1: 14_208_000, 5: 8_002_000}
    compute_ps = {
        kind: sum(max(step.durations_ps) for step in program.bodies[kind, 0].steps if isinstance(step, Compute))
        for kind in "FBU"
    }
    forward_ps = sum(wire_ps.values()) + compute_ps["F"]
    backward_ps = sum(wire_ps.values()) + compute_ps["B"]
    assert found.timeline.end_ps[found.timeline.kind == "F"].tolist() == [forward_ps] * 2
    assert found.timeline.reached_ps.tolist() == [forward_ps + backward_ps] * 2
    embedding_ps = sum(max(step.durations_ps) for step in embedding_steps(program.bodies["B", 0]))
    late_ps = max(wire_ps[0], wire_ps[1] - wire_ps[0] - embedding_ps)
    assert found.timeline.makespan_ps == forward_ps + backward_ps + late_ps + compute_ps["U"]
    assert found.account.cause_ps("dp_comm").tolist() == [2 * sum(wire_ps.values()) + late_ps] * 2
    assert not found.account.cause_ps("straggler_wait").any()
    assert not found.account.cause_ps("bubble").any()


def embedding_steps(body: Body) -> list[Compute]:
    return [step for step in body.steps if isinstance(step, Compute) and step.kind == "embedding"]


def test_the_faster_replica_waits_in_every_fetch() -> None:
    """Between two fetches it computes for less time than the slower one, and waits for it with the difference."""
    hardware = cluster(1, 1, devices=(device("slow", 10.0), device("fast", 40.0)))
    found = simulated(sharded(plan(*ONE_STAGE, micro_batches=2), hardware=hardware), "analytic")
    check_account(found.workload, found.timeline, found.account)

    slow, fast = (found.account.cause_ps("straggler_wait")[rank] for rank in range(2))
    late_ps = 0
    for sync, joined in zip(found.workload.syncs, found.timeline.joined_ps, strict=True):
        assert joined[0] >= joined[1]
        late_ps += int(joined[0] - joined[1]) if sync.does == "fetch" else 0
    after_ps = int(found.timeline.reached_ps[0] - found.timeline.reached_ps[1])
    assert slow == 0
    assert late_ps > 0
    assert fast == late_ps + after_ps


def test_equal_replicas_wait_for_no_straggler() -> None:
    found = simulated(sharded(plan(*TWO_STAGES, micro_batches=3)))

    assert not found.account.cause_ps("straggler_wait").any()
    kinds = dict(found.metrics.operator_time_s)
    assert kinds["grad_param_comm"] > 0
    assert kinds["grad_gather"] > 0


def overlapped(question: Scenario) -> Scenario:
    assert question.deployment is not None
    return replace(question, deployment=replace(question.deployment, gather_overlap=True))


def test_the_next_weights_come_beside_what_is_done_with_these() -> None:
    """Two equal ranks without contention: a gather begins when the one before has come, and is in use."""
    question = sharded(plan(*ONE_STAGE, micro_batches=2, bucket_bytes=2 * SPEC.layer_parameters(1)))
    waiting, found = simulated(question, "analytic"), simulated(overlapped(question), "analytic")
    check_account(found.workload, found.timeline, found.account)

    program, at_ps, came_ps, bare_ps = found.workload.programs[0], 0, 0, 0
    for action, turn in zip(program.actions, program.turns(), strict=True):
        for step in program.body(action).steps:
            if isinstance(step, Fetch):
                size = found.workload.syncs[step.sync + step.every * turn].size_bytes
                takes_ps = 6 * US + round(size / 2 / (32 * GB_PER_S) * 1e12)
                came_ps, bare_ps = came_ps + takes_ps, bare_ps + takes_ps  # the first begins at 0
                at_ps = came_ps = max(at_ps, came_ps)
            elif isinstance(step, Compute):
                at_ps += max(step.durations_ps)
    assert int(found.timeline.reached_ps[0]) == at_ps
    hidden_ps = int(waiting.timeline.reached_ps[0]) - at_ps
    assert 0 < hidden_ps < bare_ps
    waits_ps = [each.account.cause_ps("dp_comm")[0] for each in (waiting, found)]
    after_ps = [int((each.timeline.synced_ps - each.timeline.reached_ps)[0]) for each in (waiting, found)]
    assert (waits_ps[0] - after_ps[0]) - (waits_ps[1] - after_ps[1]) == hidden_ps


def test_two_stretches_are_whole_where_the_next_comes_meanwhile() -> None:
    question = sharded(plan(*ONE_STAGE, bucket_bytes=2 * SPEC.layer_parameters(1)))
    needs = []
    for asked in (question, overlapped(question)):
        assert asked.deployment is not None
        deployment = check_deployment(asked.deployment, asked)
        needs.append(deployment_memory(asked, deployment, GPipe().order).needs[0][1].buffer_bytes)

    largest = sorted(2 * SPEC.layer_parameters(layer) for layer in range(SPEC.layers + 2))[-2]
    assert needs[1] - needs[0] == largest


@pytest.mark.parametrize("network", ["flow", "packet"])
@pytest.mark.parametrize("stages", [ONE_STAGE, TWO_STAGES])
def test_folding_changes_nothing_of_it(network: str, stages: tuple[tuple[Stage, ...], ...]) -> None:
    wide = tuple(
        tuple(
            replace(own, groups=tuple(replace(g, ranks=(2 * g.ranks[0], 2 * g.ranks[0] + 1)) for g in own.groups))
            for own in each
        )
        for each in stages
    )
    asked = replace(plan(*wide, bucket_bytes=2 * SPEC.layer_parameters(1)), zero=3, gather_overlap=True)
    whole = scenario(cluster(4, 4), SPEC, asked)
    backend = build("network", {"name": network})
    folded, walked = (
        run(Experiment(scenario=whole, network=backend, schedule=GPipe(), memory="report", fold=fold))
        for fold in (True, False)
    )

    check_account(folded.workload, folded.timeline, folded.account)
    check_path(folded.workload, folded.timeline)
    assert folded.timeline.makespan_ps == walked.timeline.makespan_ps
    assert folded.account.causes_ps.tolist() == walked.account.causes_ps.tolist()


@pytest.mark.parametrize("fold", [True, False])
def test_replicas_may_differ_in_devices_ranks_and_samples(fold: bool) -> None:
    wide = (stage((0, 1), layers=range(1, 3), samples=2), stage((2,), (3,), layers=range(3, 5), samples=1))
    narrow = (stage((4,), layers=range(1, 3)), stage((5,), layers=range(3, 5)))
    hardware = cluster(4, 2, devices=(device("fast", 40.0), device("slow", 10.0)))
    question = sharded(plan(wide, narrow, micro_batches=3), hardware=hardware)

    found = run(Experiment(scenario=question, fold=fold, verify=True, memory="report"))
    check_account(found.workload, found.timeline, found.account)
    assert np.all(found.account.cause_ps("straggler_wait")[2:4] > 0)


def refusal(deployment: DeploymentPlan, spec: ModelSpec = SPEC, schedule: Schedule | None = None) -> str:
    with pytest.raises(SpecError) as caught:
        lowered(sharded(deployment, spec), schedule)
    return str(caught.value)


WHY = "with zero: 3 all who hold a layer gather its weights together"


def test_pipelines_of_unlike_stages_are_refused() -> None:
    assert refusal(plan(ONE_STAGE[0], (TWO_STAGES[1]))) == (
        f"deployment.replicas[1].stages = 2: replicas[0] has 1 of them, and {WHY}; cut all replicas into the same "
        "stages, or write zero: 2"
    )
    later = (stage((2,), layers=range(1, 4)), stage((3,), layers=range(4, 5)))
    assert refusal(plan(TWO_STAGES[0], later)) == (
        f"deployment.replicas[1].stages[0].layers = [range(1, 4)]: replicas[0] has [range(1, 3)], and {WHY}; give all "
        "replicas the same, or write zero: 2"
    )


def test_unequal_counts_are_refused() -> None:
    deployment = plan(*ONE_STAGE)
    fewer = replace(deployment.replicas[1], micro_batches=2)
    assert refusal(replace(deployment, replicas=(deployment.replicas[0], fewer))) == (
        "deployment.replicas[1].micro_batches = 2: replicas[0] has 4, and with zero: 3 gradients are summed after "
        "every micro-batch; give all replicas as many, or write zero: 1"
    )


def test_a_table_in_two_stages_is_refused() -> None:
    assert refusal(plan(*TWO_STAGES), replace(SPEC, tied=True)) == (
        "deployment.zero = 3: the first and the last stage hold the tied token table and need it at unlike times; "
        "write zero: 2, or use one stage, or a model not tied"
    )


def test_a_schedule_of_two_directions_is_refused() -> None:
    assert refusal(plan(*TWO_STAGES), schedule=DualPipe()) == (
        "deployment.zero = 3: stages that mirror each other hold the same layers and need their weights at unlike "
        "times; write zero: 2, or choose a schedule of one direction"
    )
