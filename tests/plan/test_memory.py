from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import cluster, device, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.families import members
from xsim.plan.contracts import Schedule
from xsim.plan.load import loads
from xsim.plan.memory import Load, Verdict, deployment_memory, memory_curves, rank_memory, shortfall
from xsim.plan.planner.uniform import Uniform
from xsim.plan.remedies import Remedy, remedies
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.spec.deployment import DeploymentPlan, Recompute, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment

LLAMA = model(layers=8, hidden=1024, heads=16, ffn=4096, vocab=2000, seq_len=1024, gated=True, tied=False)


def question(deployment: DeploymentPlan, memory_gb: float = 80.0, spec: ModelSpec = LLAMA) -> Scenario:
    return scenario(cluster(8, devices=(device(memory_gb=memory_gb),)), spec, deployment)


def verdict(asked: Scenario, schedule: Schedule | None = None) -> Verdict:
    assert asked.deployment is not None
    return deployment_memory(asked, check_deployment(asked.deployment, asked), (schedule or OneFOneB()).order)


def two_stages(samples: int = 1, *, sequence_parallel: bool = False) -> DeploymentPlan:
    return plan(
        (
            stage((0, 1), layers=range(1, 5), samples=samples, sequence_parallel=sequence_parallel),
            stage((2, 3), layers=range(5, 9), samples=samples, sequence_parallel=sequence_parallel),
        ),
        micro_batches=6,
    )


def test_sixteen_bytes_per_parameter_for_adam_in_bf16() -> None:
    needs = verdict(question(two_stages())).needs

    fixed = sum(need.weight_bytes + need.gradient_bytes + need.optimizer_bytes for _, need in needs)
    assert fixed == 16 * LLAMA.parameters


@pytest.mark.parametrize(
    ("optimizer", "precision", "per_parameter"), [("sgd", "fp32", 8), ("adam", "fp32", 16), ("sgd", "bf16", 8)]
)
def test_other_optimizers_and_precisions(
    optimizer: Literal["adam", "sgd"], precision: Literal["bf16", "fp32"], per_parameter: int
) -> None:
    asked = replace(question(two_stages()), optimizer=optimizer, precision=precision)

    fixed = sum(need.weight_bytes + need.gradient_bytes + need.optimizer_bytes for _, need in verdict(asked).needs)
    assert fixed == per_parameter * LLAMA.parameters


def test_a_tied_table_on_one_stage_is_held_once() -> None:
    tied = replace(LLAMA, tied=True)
    asked = question(plan((stage((0,), layers=range(1, 9)),)), spec=tied)

    assert verdict(asked).needs[0][1].weight_bytes == 2 * tied.parameters


def test_one_f_one_b_keeps_as_many_micro_batches_as_stages_follow() -> None:
    early, late = (verdict(question(two_stages()), schedule).needs for schedule in (OneFOneB(), GPipe()))
    first, last = early[0][1].activation_bytes, early[2][1].activation_bytes

    assert late[0][1].activation_bytes == 6 * first // 2
    assert late[2][1].activation_bytes == 6 * last


def test_a_halved_backward_keeps_activations_until_the_second_half() -> None:
    whole, halved = (verdict(question(two_stages()), schedule).needs for schedule in (OneFOneB(), ZbH1()))

    assert halved[0][1].activation_bytes == whole[0][1].activation_bytes
    assert halved[2][1].activation_bytes == 2 * whole[2][1].activation_bytes


@given(st.integers(1, 3), st.integers(0, 1), st.booleans())
def test_less_work_needs_less(samples: int, index: int, sequence_parallel: bool) -> None:
    asked = question(two_stages())
    load = Load((range(6),), samples, 2, (), sequence_parallel, OneFOneB().order(0, 2, 6))
    need = rank_memory(asked, load, index)

    assert rank_memory(asked, replace(load, samples=samples + 1), index).total_bytes > need.total_bytes
    assert rank_memory(asked, replace(load, layers=(range(5),)), index).total_bytes < need.total_bytes
    assert rank_memory(asked, replace(load, tp=4), index).total_bytes < need.total_bytes
    assert (
        rank_memory(asked, replace(load, sequence_parallel=True), index).activation_bytes
        <= rank_memory(asked, replace(load, sequence_parallel=False), index).activation_bytes
    )


def test_a_larger_share_needs_more_of_everything() -> None:
    asked = question(two_stages())
    load = Load((range(1, 6),), 1, 2, (3.0, 1.0), False, OneFOneB().order(0, 2, 6))
    large, small = (rank_memory(asked, load, index) for index in range(2))

    even = rank_memory(asked, replace(load, shares=()), 0)
    assert large.weight_bytes == 3 * small.weight_bytes
    assert large.weight_bytes + small.weight_bytes == 2 * even.weight_bytes
    assert large.activation_bytes > even.activation_bytes > small.activation_bytes


def test_a_deployment_that_fits_names_the_fullest_rank() -> None:
    found = verdict(question(two_stages()))

    assert found.fits
    assert found.text.startswith("all ranks fit; rank 0 has the fewest bytes to spare: it needs ")
    assert found.utilisation == found.needs[0][1].total_bytes / 80e9


def test_a_deployment_that_does_not_fit_says_who_how_much_and_what_helps() -> None:
    most = verdict(question(two_stages(4))).needs[0][1].total_bytes
    found = verdict(question(two_stages(4), memory_gb=most * 0.99 / 1e9))

    assert not found.fits
    assert found.rank == 0
    assert found.shortfall_bytes == most - int(most * 0.99)
    assert found.text.startswith("rank 0 (toy, deployment.replicas[0].stages[0].groups[0]) needs ")
    assert found.text.endswith(" too little; set sequence_parallel: true on its stage")


@pytest.mark.parametrize(
    ("share", "advice"),
    [
        (0.99, "recompute attention_norm in 3 of its 4 layers (about 0.151 ms an iteration)"),
        (0.90, "give it 3 of the 4 samples of a micro-batch (about 0.415 ms an iteration)"),
        (0.55, "spread its layers over 4 ranks"),
        (0.27, "spread its layers over 8 ranks"),
        (0.01, "use devices with more memory, or more ranks and more stages"),
    ],
)
def test_the_advice_is_the_cheapest_that_helps(share: float, advice: str) -> None:
    deployment = two_stages(4, sequence_parallel=True)
    most = verdict(question(deployment)).needs[0][1].total_bytes

    assert verdict(question(deployment, memory_gb=most * share / 1e9)).text.endswith(f"; {advice}")


def found_remedies(asked: Scenario) -> list[Remedy]:
    """Of rank 0 and its group."""
    assert asked.deployment is not None
    complete = check_deployment(asked.deployment, asked)
    return list(remedies(asked, complete, OneFOneB().order, next(loads(asked, complete, OneFOneB().order)), 0))


def pipelines(*layers: int) -> list[tuple[Stage, ...]]:
    """One, a rank for each stage, of two samples a micro-batch."""
    ends = list(accumulate(layers, initial=1))
    return [tuple(stage((s,), layers=range(*ends[s : s + 2]), samples=2) for s in range(len(layers)))]


def movable(deployment: DeploymentPlan, memory_bytes: int) -> list[str]:
    found = found_remedies(question(deployment, memory_bytes / 1e9))
    return [each.text for each in found if each.text.startswith("move")]


def test_layers_move_only_where_there_is_room() -> None:
    """Carried out, the advice fits; with a layer less moved it does not."""
    needs = [need.total_bytes for _, need in verdict(question(plan(*pipelines(6, 2)))).needs]
    assert needs[0] > needs[1]

    for share in (0.99, 0.9, 0.8, 0.7):
        has = int(needs[0] * share)
        texts = movable(plan(*pipelines(6, 2)), has)
        moved = {count: question(plan(*pipelines(6 - count, 2 + count)), has / 1e9) for count in range(1, 6)}
        fitting = [count for count, asked in moved.items() if verdict(asked).fits]
        assert bool(texts) == bool(fitting)
        if fitting:
            what = "one of its layers" if fitting[0] == 1 else f"{fitting[0]} of its layers"
            assert texts == [f"move {what} to another stage"]


def test_layers_move_to_several_stages_or_nowhere() -> None:
    """With a micro-batch alone stages of as many layers need much the same."""
    three = max(need.total_bytes for _, need in verdict(question(plan(*pipelines(3, 3, 2), micro_batches=1))).needs)
    both = [need.total_bytes for _, need in verdict(question(plan(*pipelines(4, 4)))).needs]

    assert movable(plan(*pipelines(6, 1, 1), micro_batches=1), three) == ["move 3 of its layers to other stages"]
    assert movable(plan(*pipelines(4, 4)), min(both) - 1) == []  # the other lacks too
    assert movable(plan(*pipelines(8)), both[0]) == []  # there is no other


def test_every_remedy_has_its_price() -> None:
    """Of 24 GB; rates of the toy are 100 TFLOPS and 1 TB/s, NICs have 50 GB/s."""
    tokens, hidden, ffn, layers, micro_batches = 2048, 1024, 4096, 8, 4
    replicas = [(stage((r,), layers=range(1, 9), samples=2),) for r in range(4)]
    deployment = plan(*replicas, micro_batches=micro_batches)
    asked = question(deployment)
    need = verdict(asked).needs[0][1]

    by_text = {each.text: each.cost_ps for each in found_remedies(question(deployment, need.total_bytes * 0.98 / 1e9))}

    assert by_text["set zero: 1 on the deployment"] == 0
    activation = micro_batches * 3 * tokens * ffn * 2  # bytes, or picoseconds at 1 TB/s: two are read, one is written
    count = next(int(text.split()[3]) for text in by_text if text.startswith("recompute activation"))
    assert by_text[f"recompute activation in {count} of its 8 layers"] == count * activation
    assert by_text["give it 1 of the 2 samples of a micro-batch"] == micro_batches * 3 * need.weight_bytes
    products = 2 * tokens * hidden * (4 * hidden + 3 * ffn)
    uneven = plan(*pipelines(7, 1), micro_batches=micro_batches)
    told = {each.text: each.cost_ps for each in found_remedies(question(uneven, need.total_bytes * 0.98 / 1e9))}
    moved = told["move one of its layers to another stage"]
    assert moved is not None
    assert 3 * micro_batches * products / 100 < moved < 2 * 3 * micro_batches * products / 100
    assert by_text["spread its layers over 2 ranks"] is None
    assert layers == asked.model.layers


@given(st.floats(0.2, 0.99), st.booleans(), st.integers(1, 4))
def test_what_is_recomputed_is_as_little_as_is_enough(share: float, sequence_parallel: bool, samples: int) -> None:
    """Advice is carried out: then it fits, and with a layer less it does not."""
    deployment = two_stages(samples, sequence_parallel=sequence_parallel)
    most = verdict(question(deployment)).needs[0][1].total_bytes
    asked = question(deployment, memory_gb=most * share / 1e9)

    for remedy in found_remedies(asked):
        told = re.fullmatch(r"recompute (\w+) in (\d) of its 4 layers", remedy.text)
        if told:
            for count, enough in ((int(told[2]), True), (int(told[2]) - 1, False)):
                again = tuple(Recompute(operator=told[1], layers=range(1, 1 + count)) for _ in range(count > 0))
                first, last = deployment.replicas[0].stages
                stages = (replace(first, recompute=again), last)
                changed = replace(deployment, replicas=(replace(deployment.replicas[0], stages=stages),))
                left = verdict(question(changed, memory_gb=most * share / 1e9)).needs[0][1].total_bytes
                assert (left <= int(most * share)) == enough


def test_where_one_operator_is_not_enough_others_follow_that_save_less_for_their_time() -> None:
    """Norms save an activation each for reading one and writing it, SwiGLU one of 4 for moving 12; all less is free."""
    deployment = two_stages(4, sequence_parallel=True)
    most = verdict(question(deployment)).needs[0][1].total_bytes
    asked = question(deployment, memory_gb=most * 0.9 / 1e9)

    told = {each.text: each.cost_ps for each in found_remedies(asked)}

    text = "recompute attention_norm and mlp_norm in all of its layers, and activation in 3 of its 4 layers"
    norm, activation = (elements * 2 for elements in (2 * 4 * 1024 * 1024 // 2, 3 * 4 * 1024 * 4096 // 2))  # bytes, ps
    assert told[text] == 6 * (8 * norm + 3 * activation)
    first, last = deployment.replicas[0].stages
    names = {"attention_norm": 4, "mlp_norm": 4, "activation": 3}
    for less in (0, 1):
        kinds = (names | {"activation": 3 - less}).items()
        again = tuple(Recompute(operator=name, layers=range(1, 1 + count)) for name, count in kinds)
        stages = (replace(first, recompute=again), last)
        changed = replace(deployment, replicas=(replace(deployment.replicas[0], stages=stages),))
        assert (verdict(question(changed)).needs[0][1].total_bytes <= int(most * 0.9)) == (less == 0)


@given(st.integers(1, 4), st.booleans(), st.sampled_from((OneFOneB(), GPipe(), ZbH1())), st.booleans())
def test_the_curve_of_a_rank_ends_empty_and_reaches_its_peak(
    samples: int, sequence_parallel: bool, schedule: Schedule, recompute: bool
) -> None:
    deployment = two_stages(samples, sequence_parallel=sequence_parallel)
    if recompute:
        replica = deployment.replicas[0]
        stages = tuple(replace(s, recompute=(Recompute(operator="full", layers=s.layers[0]),)) for s in replica.stages)
        deployment = replace(deployment, replicas=(replace(replica, stages=stages),))
    asked = question(deployment)
    complete = check_deployment(deployment, asked)

    curves = memory_curves(asked, complete, schedule.order)

    for rank, need in verdict(asked, schedule).needs:
        during, after = zip(*curves[rank].values(), strict=True)
        assert max(during) == need.activation_bytes
        assert after[-1] == 0
        assert all(most >= left >= 0 for most, left in curves[rank].values())


def test_what_neighbours_hand_over_has_room_on_both_sides() -> None:
    """An activation one way and its gradient the other, per boundary."""
    three = plan(
        tuple(stage((rank,), layers=layers) for rank, layers in enumerate((range(1, 4), range(4, 7), range(7, 9))))
    )
    one = plan((stage((0,), layers=range(1, 9)),))

    tensor = LLAMA.seq_len * LLAMA.hidden * 2
    assert [need.buffer_bytes for _, need in verdict(question(three)).needs] == [2 * tensor, 4 * tensor, 2 * tensor]
    assert verdict(question(one)).needs[0][1].buffer_bytes == 0


def test_a_framework_takes_its_part_and_fragments_take_theirs() -> None:
    plain = verdict(question(two_stages())).needs
    asked = replace(question(two_stages()), framework_bytes=10**9, fragmentation=0.2)

    for (_, without), (_, need) in zip(plain, verdict(asked).needs, strict=True):
        assert without.reserve_bytes == 0
        assert need.reserve_bytes == 10**9 + without.total_bytes // 4
        assert replace(need, reserve_bytes=0) == without


@pytest.mark.parametrize("part", [-0.1, 1.0])
def test_a_part_that_is_none_is_refused(part: float) -> None:
    with pytest.raises(SpecError, match=r"^fragmentation = "):
        replace(question(two_stages()), fragmentation=part)


def test_gpt3_175b_fits_128_hosts_of_80_gb() -> None:
    """Narayanan et al. 2021 trained it on 1024 A100-80 with TP 8 and PP 16."""
    gpt3 = model(layers=96, hidden=12288, heads=96, ffn=49152, vocab=51200, seq_len=2048)
    asked = Scenario(cluster=cluster(*(8,) * 128), model=gpt3, batch=512)
    deployment = Uniform(tp=8, pp=16).plan(asked, None)  # type: ignore[arg-type]  # it asks the site nothing
    found = deployment_memory(asked, check_deployment(deployment, asked), OneFOneB().order)

    assert found.fits
    assert 0.5 < found.utilisation < 0.9


@pytest.mark.parametrize("schedule", [pytest.param(cls(), id=name) for name, cls in members("schedule")])
@pytest.mark.parametrize("micro_batches", [1, 7, 13, 24, 40])
@pytest.mark.parametrize("memory_gb", [0.1, 80.0])
def test_what_lacks_most_is_known_from_a_few_micro_batches(
    schedule: Schedule, micro_batches: int, memory_gb: float
) -> None:
    asked = question(replace_micro_batches(two_stages(), micro_batches), memory_gb)
    assert asked.deployment is not None
    try:
        schedule.order(0, 2, micro_batches, 1)
    except SpecError:
        pytest.skip("the schedule refuses this shape")

    found = verdict(asked, schedule)

    whole = check_deployment(asked.deployment, asked)
    assert shortfall(asked, whole, schedule.order) == (found.rank, found.shortfall_bytes)


def replace_micro_batches(own: DeploymentPlan, micro_batches: int) -> DeploymentPlan:
    return replace(own, replicas=tuple(replace(each, micro_batches=micro_batches) for each in own.replicas))
