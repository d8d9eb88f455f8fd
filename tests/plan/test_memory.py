from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import cluster, device, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.families import members
from xsim.plan.contracts import Schedule
from xsim.plan.memory import Load, Verdict, deployment_memory, memory_curves, rank_memory, shortfall
from xsim.plan.planner.uniform import Uniform
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.spec.deployment import DeploymentPlan, Recompute
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
