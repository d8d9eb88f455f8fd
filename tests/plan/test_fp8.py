"""Products of layers in fp8: which they are, what their casts cost, what is kept, and what refuses it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.examples import load
from tests.plan.search.small import question, tables_of
from tests.plan.toy import cluster, device, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.plan.compute.roofline import Roofline
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.memory import deployment_memory
from xsim.plan.operator import Exchange, ShardedOperator
from xsim.plan.operators import layer_operators
from xsim.plan.recompute import kept_tensors, recomputed
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.sketch import place
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import Recompute
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment

NARROW = {"qkv", "out", "up", "down", "expert_up", "expert_down"}
DENSE = model(hidden=128, heads=8, ffn=512, gated=True, tied=False)
FAST = replace(device(), peak_flops_per_s=(*device().peak_flops_per_s, ("fp8", 200e12)))
MIXED = replace(DENSE, experts=4, experts_per_token=2, expert_ffn=256)


def asked(spec: ModelSpec, precision: str) -> Scenario:
    wide = scenario(cluster(2), spec, plan((stage((0, 1), layers=range(1, 5), sequence_parallel=True),)))
    return replace(wide, precision=precision)  # type: ignore[arg-type]


def operators(
    spec: ModelSpec, precision: str, layer: int = 1, *, samples: int = 2, tp: int = 2
) -> dict[str, ShardedOperator]:
    found = layer_operators(asked(spec, precision), layer, samples=samples, tp=tp, index=0, sequence_parallel=tp > 1)
    return {part.name: part for part in found if isinstance(part, ShardedOperator)}


@pytest.mark.parametrize("spec", [DENSE, MIXED])
def test_products_of_layers_are_narrow_and_all_else_is_as_in_bf16(spec: ModelSpec) -> None:
    narrow, wide = operators(spec, "fp8"), operators(spec, "bf16")
    products = NARROW & set(wide)

    assert set(narrow) == set(wide) | {f"{name}_cast" for name in products}
    assert {name for name, each in narrow.items() if each.dtype == "fp8"} == products
    assert {name: narrow[name] for name in set(wide) - products} == {name: wide[name] for name in set(wide) - products}
    assert all(each.dtype == "bf16" for each in operators(spec, "fp8", layer=spec.layers + 1).values())


@given(st.sampled_from([DENSE, MIXED]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
def test_narrow_products_do_as_much_and_move_and_keep_less(spec: ModelSpec, samples: int, tp: int) -> None:
    narrow, wide = (operators(spec, precision, samples=samples, tp=tp) for precision in ("fp8", "bf16"))

    for name in NARROW & set(wide):
        for pass_ in ("forward", "input_gradient", "weight_gradient"):
            own, other = narrow[name].work(pass_), wide[name].work(pass_)
            assert (own.flops, own.product) == (other.flops, other.product)
            assert own.moved_bytes < other.moved_bytes
        assert 2 * narrow[name].kept_bytes == wide[name].kept_bytes


def test_casts_read_two_bytes_and_write_two_of_each_element() -> None:
    """64 tokens, width 128, a rank's half of an MLP of 512: that after the norm is made by the norm."""
    found = operators(DENSE, "fp8")
    tokens, hidden, ffn = 64, 128, 256

    assert found["up_cast"].forward is None
    assert found["up_cast"].work("input_gradient").moved_bytes == tokens * 2 * ffn * 4
    assert found["down_cast"].work("forward").moved_bytes == tokens * ffn * 4
    assert found["down_cast"].work("input_gradient").moved_bytes == tokens * hidden * 4
    moved = found["down"].work("forward").moved_bytes
    assert moved == tokens * ffn + ffn * hidden + 2 * tokens * hidden


def test_collectives_are_those_of_bf16() -> None:
    def exchanges(precision: str) -> list[Exchange]:
        parts = layer_operators(asked(DENSE, precision), 1, samples=1, tp=2, index=0, sequence_parallel=True)
        return [part for part in parts if isinstance(part, Exchange)]

    assert exchanges("fp8") == exchanges("bf16") != []


def test_large_products_take_half_as_long_on_a_device_with_twice_the_rate() -> None:
    large = model(hidden=8192, ffn=32768, seq_len=4096)
    narrow, wide = operators(large, "fp8"), operators(large, "bf16")

    for name in ("qkv", "out", "up", "down"):
        times = [Roofline().time_ps(FAST, each[name], "forward") for each in (narrow, wide)]
        assert 2 * times[0] == pytest.approx(times[1], rel=1e-6)


def test_weights_are_held_three_times_and_activations_of_products_once() -> None:
    def need(precision: str) -> tuple[int, int]:
        question = asked(DENSE, precision)
        assert question.deployment is not None
        verdict = deployment_memory(question, check_deployment(question.deployment, question), OneFOneB().order)
        own = dict(verdict.needs)[0]
        return own.weight_bytes, own.activation_bytes

    (narrow_weights, narrow_kept), (weights, kept) = need("fp8"), need("bf16")

    assert narrow_weights == 2 * weights
    assert narrow_kept < kept


def test_tables_of_planners_know_the_memory_of_it() -> None:
    small = replace(question(("fast", 2), ("slow", 2), layers=4), precision="fp8")
    tables = tables_of(small, OneFOneB())
    stages = tuple(
        SketchStage(layers, (Copies(kind, 2, 1),), (("activation", 1),))
        for kind, layers in (("fast", range(1, 3)), ("slow", range(3, 5)))
    )
    sketch = Sketch((Pipeline(stages, 1, small.batch),))
    needs = dict(deployment_memory(small, place(sketch, small), OneFOneB().order).needs)

    for number, held in enumerate((range(3), range(3, 6))):
        own = stages[number]
        flying = tables.in_flight(number, 2, small.batch)
        found = tables.memory_bytes(own.copies[0].device, 2, 1, held, flying, own.recompute)
        assert found == max(need.total_bytes for rank, need in needs.items() if rank // 2 == number)


@pytest.mark.parametrize(("name", "cast"), [("activation", "down"), ("mlp_norm", "up"), ("attention_norm", "qkv")])
def test_what_is_kept_as_it_is_cast_is_cast_again(name: str, cast: str) -> None:
    def kept(precision: str) -> tuple[frozenset[str], int]:
        parts = layer_operators(asked(DENSE, precision), 1, samples=2, tp=1, index=0, sequence_parallel=False)
        again = recomputed((Recompute(operator=name, layers=range(1, 2)),), 1, parts)
        every, left = (sum(t.size_bytes for t in kept_tensors(parts, own)) for own in (frozenset[str](), again))
        return again, every - left

    (wide, wide_saved), (narrow, narrow_saved) = kept("bf16"), kept("fp8")

    assert (set(wide), set(narrow)) == ({name}, {name, f"{cast}_cast"})
    assert 0 < 2 * narrow_saved == wide_saved


def test_attention_alone_is_computed_again_as_in_bf16() -> None:
    parts = layer_operators(asked(DENSE, "fp8"), 1, samples=2, tp=1, index=0, sequence_parallel=False)
    assert recomputed((Recompute(operator="selective", layers=range(1, 2)),), 1, parts) == {"core"}


@pytest.mark.parametrize("recompute", ["none", "activation", "selective", "full"])
def test_a_run_is_faster_than_in_bf16_and_accounted_for(recompute: str) -> None:
    spec = load(ModelSpec, "llama2_7b")
    hosts = cluster(4, 4, devices=(FAST, FAST))
    options = {"tp": 4, "pp": 2, "micro_batch": 1, "recompute": recompute, "sequence_parallel": True}
    planner = build("planner", {"name": "uniform", **options})

    def seconds(precision: str) -> float:
        wide = Scenario(cluster=hosts, model=spec, batch=16, precision=precision)  # type: ignore[arg-type]
        result = run(Experiment(scenario=wide, planner=planner, memory="report"))
        check_account(result.workload, result.timeline)
        return result.metrics.training_time_s

    assert 0.5 * seconds("bf16") < seconds("fp8") < 0.9 * seconds("bf16")


def test_devices_without_it_refuse_it() -> None:
    wide = Scenario(cluster=load(ClusterSpec, "fig4"), model=DENSE, batch=10, precision="fp8")
    planner = build("planner", {"name": "uniform", "tp": 1, "pp": 1})

    with pytest.raises(SpecError, match=r"precision = 'fp8': .* has no peak rate for it; choose one of"):
        run(Experiment(scenario=wide, planner=planner))
