"""What is advised where memory is short: it helps, and it has its price."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_memory import question, two_stages, verdict
from tests.plan.toy import plan, stage
from xsim.plan.load import loads
from xsim.plan.remedies import Remedy, remedies
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.spec.deployment import DeploymentPlan, Recompute, Stage
from xsim.spec.scenario import Scenario, check_deployment


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
