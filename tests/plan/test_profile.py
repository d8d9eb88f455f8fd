"""Tables of measured times: what is read from them, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.examples import load
from tests.plan.toy import US, cluster, device, model
from xsim.errors import SpecError
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.plan.compute.profile import Profile
from xsim.plan.compute.roofline import Roofline
from xsim.plan.compute.scaled import Scaled
from xsim.plan.operator import Exchange, Pass, Place, ShardedOperator, Work, placed
from xsim.plan.operators import layer_operators
from xsim.plan.optimizer import optimizer_operators
from xsim.plan.profile import BLOCKS, KNOWN, parse_table
from xsim.spec.cluster import DeviceSpec
from xsim.spec.codec import from_plain
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

HEAD = "device,operator,pass,tp,micro_batch,seq,time_us"
DEVICE = device()


def table(*rows: str) -> str:
    return "\n".join([HEAD, *rows])


def scenario(batch: int = 8) -> Scenario:
    return Scenario(cluster=cluster(2, devices=(DEVICE,)), model=model(), batch=batch)


def layer(samples: int = 1, tp: int = 1, shares: Sequence[float] = (), index: int = 0) -> dict[str, ShardedOperator]:
    """The first transformer layer of a rank."""
    parts = layer_operators(scenario(), 1, samples=samples, tp=tp, index=index, sequence_parallel=False, shares=shares)
    return {part.name: part for part in parts if isinstance(part, ShardedOperator)}


def time_us(profile: Profile, operator: ShardedOperator, pass_: Pass = "forward") -> float:
    return profile.time_ps(DEVICE, operator, pass_) / US


def test_an_operator_takes_the_time_of_its_row() -> None:
    profile = Profile(text=table(f"{DEVICE.name},qkv,forward,1,2,,7.5", f"{DEVICE.name},qkv,forward,2,2,,5"))

    assert time_us(profile, layer(2)["qkv"]) == pytest.approx(7.5)
    assert time_us(profile, layer(2, tp=2)["qkv"]) == pytest.approx(5)
    assert profile.doubt(DEVICE, layer(2)["qkv"], "forward") == ""


def test_between_micro_batches_times_follow_the_logarithms() -> None:
    """2 us at 1 and 18 us at 9: a power of 1 between, so 6 us at 3."""
    profile = Profile(text=table(f"{DEVICE.name},qkv,forward,1,1,,2", f"{DEVICE.name},qkv,forward,1,9,,18"))

    assert time_us(profile, layer(3)["qkv"]) == pytest.approx(6)
    assert profile.doubt(DEVICE, layer(3)["qkv"], "forward") == ""


@pytest.mark.parametrize(("rows", "expected"), [((1, 2), 16.0), ((1, 1), 1.0), ((1, 8), 64.0), ((2, 1), 1.0)])
def test_beyond_them_the_line_goes_on_and_is_doubted(rows: tuple[float, float], expected: float) -> None:
    """Of 1 and 2 samples, read at 16: no steeper than the work, and never falling."""
    first, second = rows
    profile = Profile(text=table(f"{DEVICE.name},qkv,forward,1,1,,{first}", f"{DEVICE.name},qkv,forward,1,2,,{second}"))

    assert time_us(profile, layer(16)["qkv"]) == pytest.approx(expected)
    assert "beyond" in profile.doubt(DEVICE, layer(16)["qkv"], "forward")


def test_a_table_is_read_once() -> None:
    text = table("h100_80,up,forward,1,1,,10")

    assert parse_table(text) is parse_table(text)


def test_a_row_of_its_length_goes_before_one_of_any() -> None:
    length = model().seq_len
    profile = Profile(text=table(f"{DEVICE.name},qkv,forward,1,1,,9", f"{DEVICE.name},qkv,forward,1,1,{length},4"))

    assert time_us(profile, layer()["qkv"]) == pytest.approx(4)


@pytest.mark.parametrize("row", ["other,qkv,forward,1,1,,9", "{0},up,forward,1,1,,9", "{0},qkv,forward,4,1,,9"])
def test_what_the_table_lacks_is_the_rooflines_and_said_so(row: str) -> None:
    profile, operator = Profile(text=table(row.format(DEVICE.name))), layer()["qkv"]

    assert profile.time_ps(DEVICE, operator, "forward") == Roofline().time_ps(DEVICE, operator, "forward")
    assert profile.doubt(DEVICE, operator, "forward") == "not measured: the roofline"


def test_both_gradients_share_the_time_of_a_backward_pass() -> None:
    profile = Profile(text=table(f"{DEVICE.name},qkv,backward,1,1,,12"))
    operator = layer()["qkv"]

    halves = [time_us(profile, operator, "input_gradient"), time_us(profile, operator, "weight_gradient")]

    assert sum(halves) == pytest.approx(12, abs=1e-5)
    assert halves[1] / halves[0] == pytest.approx(
        Roofline().time_ps(DEVICE, operator, "weight_gradient") / Roofline().time_ps(DEVICE, operator, "input_gradient")
    )


def test_the_operators_of_a_layer_share_its_time() -> None:
    profile = Profile(
        text=table(f"{DEVICE.name},transformer,forward,2,1,,100", f"{DEVICE.name},transformer,backward,2,1,,300")
    )

    forward = [time_us(profile, each) for each in layer(tp=2).values()]
    backward = [
        time_us(profile, each, pass_)
        for each in layer(tp=2).values()
        for pass_ in ("input_gradient", "weight_gradient")  # type: tuple[Pass, ...]
    ]

    assert sum(forward) == pytest.approx(100, abs=1e-4)
    assert sum(backward) == pytest.approx(300, abs=1e-4)


def test_ranks_with_larger_parts_take_longer() -> None:
    profile = Profile(text=table(f"{DEVICE.name},transformer,forward,2,1,,100"))
    large, small = (layer(tp=2, shares=(3, 1), index=index)["up"] for index in (0, 1))

    assert sum(time_us(profile, each) for each in layer(tp=2, shares=(3, 1)).values()) == pytest.approx(150, abs=1e-4)
    assert time_us(profile, large) > time_us(profile, small)
    assert "even parts" in profile.doubt(DEVICE, large, "forward")


@pytest.mark.parametrize(("collectives", "expected"), [("apart", 1.0), ("inside", 0.0)])
def test_collectives_inside_a_layers_time_are_taken_off(collectives: str, expected: float) -> None:
    """Two layers of 400 us each way: alone on their wires, the sums of activations make them longer, or not."""
    rows = [f"{DEVICE.name},transformer,{pass_},2,1,,400" for pass_ in ("forward", "backward")]
    planner = build("planner", {"name": "uniform", "pp": 1, "tp": 2, "micro_batch": 1})
    layers = replace(model(), vocab=0, tied=False, learned_positions=False)
    scenario = Scenario(cluster=cluster(2, devices=(DEVICE,)), model=layers, batch=1)
    told = run(
        Experiment(scenario=scenario, planner=planner, compute=Profile(text=table(*rows), collectives=collectives))
    )

    took = {cause: int(told.account.cause_ps(cause)[0]) for cause in ("compute", "tp_comm")}

    assert took["tp_comm"] > 0
    assert took["compute"] + took["tp_comm"] == pytest.approx(
        layers.layers * 800 * US + expected * took["tp_comm"], abs=100
    )


def test_only_times_of_whole_layers_hold_collectives() -> None:
    place = layer(tp=2)["qkv"].place
    assert place is not None
    whole, parts, single = (
        Profile(text=table(row.format(DEVICE.name)), collectives="inside")
        for row in ("{},mlp_block,forward,2,1,,9", "{},qkv,forward,2,1,,9", "{},transformer,forward,1,1,,9")
    )

    assert whole.holds(DEVICE, place)
    assert not replace(whole, collectives="apart").holds(DEVICE, place)
    assert not parts.holds(DEVICE, place)
    assert not single.holds(DEVICE, place)
    assert Scaled(device="h100_80", text=table("h100_80,mlp_block,forward,2,1,,9"), collectives="inside").holds(
        DEVICE, place
    )


def test_a_time_above_that_of_a_larger_micro_batch_is_that_one() -> None:
    profile = Profile(text=table(f"{DEVICE.name},qkv,forward,1,1,,20", f"{DEVICE.name},qkv,forward,1,2,,8"))

    assert time_us(profile, layer(1)["qkv"]) == pytest.approx(8)


def test_an_update_is_that_of_its_layers() -> None:
    """Two layers of 40 us; half of their parameters, as with optimizer sharding, take half."""
    whole, part = (
        ShardedOperator(kind="optimizer", name="adam", bound="memory", dtype="fp32", update=Work(0, size))
        for size in (2 * 10**9, 10**9)
    )
    place = Place(layers=("transformer",) * 2, samples=0, tp=1, seq_len=8, share=1.0, whole=(whole,))
    profile = Profile(text=table(f"{DEVICE.name},transformer,update,1,,,40"))

    assert time_us(profile, replace(whole, place=place), "update") == pytest.approx(80)
    assert time_us(profile, replace(part, place=place), "update") == pytest.approx(40)


def test_a_run_says_what_was_not_measured() -> None:
    rows = [f"{DEVICE.name},{name},{pass_},1,1,,50" for name in ("qkv", "up") for pass_ in ("forward", "backward")]
    planner = build("planner", {"name": "uniform", "pp": 1, "tp": 1, "micro_batch": 1})
    planned = Experiment(scenario=scenario(batch=2), planner=planner)

    plain = run(planned)
    told = run(replace(planned, compute=Profile(text=table(*rows))))

    (doubt,) = (text for text in told.stand_ins if "not measured: the roofline" in text)
    assert "times of operators on" in doubt
    assert told.metrics.fallbacks.endswith(doubt)
    assert told.timeline.makespan_ps != plain.timeline.makespan_ps


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", "path = 'a,b': it has no column device"),
        (table(), "path = 'device,.*time_us': it has no times below its head"),
        (table("x,qkv,sideways,1,1,,2"), r"path\[line 2\].pass = 'sideways': there is no such pass"),
        (table("x,,forward,1,1,,2"), r"path\[line 2\].operator = '': it is missing"),
        (table("x,qvk,forward,1,1,,2"), r"path\[line 2\].operator = 'qvk': there is no such .*; did you mean qkv\?"),
        (table("x,qkv,forward,0,1,,2"), r"path\[line 2\].tp = '0': it is no whole number"),
        (table("x,qkv,forward,1,,,2"), r"path\[line 2\].micro_batch = '': it is no whole number"),
        (table("x,qkv,forward,1,1,,fast"), r"path\[line 2\].time_us = 'fast': it is no time"),
        (table("x,qkv,forward,1,1,,0"), r"path\[line 2\].time_us = '0': it is no time"),
        (table("x,qkv,forward,1,1,,1", "x,qkv,forward,1,1,,2"), r"path\[line 3\] = .*: a line before it"),
        (table("x,qkv,forward"), r"path\[line 2\].tp = None: it is no whole number"),
    ],
)
def test_what_is_no_table_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        Profile(text=text)


MODELS = ("gpt3_13b", "llama3_8b", "mixtral_8x7b")


def operators_of(name: str) -> set[str]:
    """Names of all operators of a model of the library, however it is trained."""
    spec, found = replace(load(ModelSpec, name), dropout=True), set[str]()
    for precision, attention, cp, optimizer in (("bf16", "flash", 2, "adam"), ("fp8", "unfused", 1, "sgd")):
        settings: dict[str, Any] = {"precision": precision, "attention": attention, "optimizer": optimizer}
        asked = replace(scenario(), model=spec, **settings)
        for layer in (0, 1, spec.layers + 1):
            parts = layer_operators(asked, layer, samples=1, tp=1, index=0, sequence_parallel=False, cp=cp)
            found |= {part.name for part in parts if isinstance(part, ShardedOperator)}
        found |= {part.name for part in optimizer_operators(8, asked)}
    return found


@pytest.mark.parametrize("name", MODELS)
def test_every_operator_may_have_a_row(name: str) -> None:
    """And no table may name more, but for whole layers and their blocks: of these three models that is all of them."""
    assert operators_of(name) <= KNOWN
    assert KNOWN - {"embedding", "transformer", "head", *BLOCKS} <= set().union(*map(operators_of, MODELS))


def test_times_of_an_unknown_device_cannot_be_carried() -> None:
    with pytest.raises(SpecError, match="device = 'h101': there is no such device"):
        Scaled(device="h101")


def test_an_unknown_way_of_collectives_is_refused() -> None:
    with pytest.raises(SpecError, match="collectives = 'somewhere': it is unknown"):
        Profile(collectives="somewhere")


def test_places_know_all_of_their_layer() -> None:
    exchange = Exchange(kind="mlp", forward="all_reduce", backward=None, cuts=(0, 8))
    one, two = (layer()[name] for name in ("qkv", "up"))

    parts = placed((one, exchange, two), layers=("head",), samples=1, tp=2, seq_len=8, share=1.0)

    place = parts[0].place if isinstance(parts[0], ShardedOperator) else None
    assert place is not None
    assert place.whole == (one, two)
    assert parts[0] == one


def test_scaled_times_go_by_the_ratio_of_the_rooflines() -> None:
    """Large products by FLOP/s, what moves bytes by bandwidth."""
    source, target = (from_plain(DeviceSpec, name) for name in ("a100_80", "h100_80"))
    scaled = Scaled()
    product = ShardedOperator(kind="mlp", name="x", bound="matmul", dtype="bf16", forward=Work(10**15, 0))
    moving = ShardedOperator(kind="mlp", name="x", bound="memory", dtype="bf16", forward=Work(0, 10**12))

    def ratio(operator: ShardedOperator) -> float:
        return scaled.time_ps(source, operator, "forward") / scaled.time_ps(target, operator, "forward")

    assert ratio(product) == pytest.approx(989.4 / 312, rel=1e-3)
    assert ratio(moving) == pytest.approx(3350 / 2039, rel=1e-3)
    assert scaled.doubt(source, product, "forward") == ""
    assert "carried from a100_80, 17% off on average" in scaled.doubt(target, product, "forward")


def test_a_profile_is_carried_too() -> None:
    """What took twice the roofline's time on the source takes twice that of the carried curve on the target."""
    source, target = (from_plain(DeviceSpec, name) for name in ("a100_80", "h100_80"))
    operator = layer()["qkv"]
    twice_us = 2 * Roofline().time_ps(source, operator, "forward") / US
    scaled = Scaled(text=table(f"a100_80,qkv,forward,1,1,,{twice_us}"))

    assert scaled.time_ps(source, operator, "forward") == pytest.approx(twice_us * US, abs=2)
    assert scaled.time_ps(target, operator, "forward") == pytest.approx(
        2 * Scaled().time_ps(target, operator, "forward"), rel=1e-6
    )
    assert "not measured" in scaled.doubt(target, layer()["up"], "forward")


def test_a_profile_goes_by_the_times_of_another_model_where_both_devices_have_them() -> None:
    """Forward passes of layers take a fifth of the time on the target, whatever the rooflines say of it."""
    source, target = (from_plain(DeviceSpec, name) for name in ("a100_80", "h100_80"))
    operator = layer()["qkv"]
    own = table("a100_80,qkv,forward,1,1,,50", "a100_80,qkv,backward,1,1,,90")
    measured = table("a100_80,transformer,forward,1,1,,1000", "h100_80,transformer,forward,1,1,,200")
    scaled = Scaled(text=own, ratios_text=measured)

    assert scaled.time_ps(target, operator, "forward") == 10 * US
    assert "by the times of another model" in scaled.doubt(target, operator, "forward")
    assert scaled.time_ps(source, operator, "forward") == 50 * US
    backward = scaled.time_ps(target, operator, "input_gradient")
    assert backward == Scaled(text=own).time_ps(target, operator, "input_gradient")


def test_ratios_that_can_carry_nothing_are_refused() -> None:
    measured = table("h100_80,transformer,forward,1,1,,200")

    with pytest.raises(SpecError, match="path = '': ratios carry measured times, and there are none; name"):
        Scaled(ratios_text=measured)
    with pytest.raises(SpecError, match="device = 'a100_80': ratios have no times of it; name one that both"):
        Scaled(text=table("a100_80,qkv,forward,1,1,,50"), ratios_text=measured)
