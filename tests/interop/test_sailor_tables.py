"""Sailor's formulas on its own data, and our plans for its common problem, priced by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.plan.toy import device
from xsim.errors import SpecError
from xsim.interop.sailor_tables import SailorTables, sailor_tables
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.search.contracts import Kind, Seat
from xsim.plan.search.hunt import Hunt
from xsim.plan.search.orders import Space
from xsim.plan.search.price import fits, price

MEMORY_BYTES = {"A100-40": 42338615296, "V100-16": 17179869184}  # basic_cluster_config.json
SECOND_PS = 1e12
SPACE = Space(stages=8, width=4, micro_batch=8)


OURS = [(32, 96, 4.880204), (80, 240, 2.384507), (128, 384, 1.763791)]  # docs/planner_xsim.md rounds them


def small(batch: int = 8) -> SailorTables:
    """Two layers between the ends; forward takes a second and backward two, at half the time with two ranks."""
    times = {tp: {str(layer): [1 / tp, 2 / tp, 0.25] for layer in range(4)} for tp in (1, 2)}
    info = {
        str(tp): {
            str(layer): {"params_floats": 1000 // tp, "act_mem_floats": 10 // tp, "act_output_floats": 250_000}
            for layer in range(4)
        }
        for tp in (1, 2)
    }
    rates = {"zone": {"card": {n: {"zone": {"card": {n: [[0.0, 2.0], 1e9]}}} for n in ("1", "2")}}}
    rates["zone"]["card"]["1"]["zone"]["card"]["2"] = [[0.0, 1.0], 1e9]
    return sailor_tables(
        [Kind("card", replace(device("card"), memory_bytes=4 << 30), 4, 2, (2, 2))],
        {"card": json.dumps({"1": {str(tp): own for tp, own in times.items()}})},
        json.dumps({"model": info}),
        json.dumps(rates),
        model="model",
        batch=batch,
    )


def test_times_are_those_of_the_profile() -> None:
    known = small()

    assert known.layers == 2
    assert known.tps("card") == (1, 2)
    assert known.micro_batches("card", 1) == (1,)
    assert (known.forward_ps("card", 2, 1) == SECOND_PS / 2).all()
    assert (known.backward_ps("card", 2, 1) == SECOND_PS).all()
    assert known.update_ps("card", 1, range(4)) == SECOND_PS / 4


def test_a_hand_over_goes_at_the_rate_of_the_two_degrees() -> None:
    one, two = Seat("card", 1, 1), Seat("card", 2, 1)

    assert small().boundary_ps(one, one) == 1e6 / 2e9 * SECOND_PS
    assert small().boundary_ps(one, two) == 1e6 / 1e9 * SECOND_PS
    assert small().hand_overs_ps([(one,)] * 2) == (5e8, 1e9)  # what the last sends back counts twice
    assert small().hand_overs_ps([(one,)] * 4) == (1e9, 1e9, 1e9, 1e9)  # and what the first sends, of four


def test_memory_is_24_bytes_a_parameter_activations_in_flight_and_the_framework() -> None:
    known = small()

    assert known.memory_bytes("card", 1, 1, range(3), 2) == 3 * 1000 * 24 + 2 * 3 * 10 * 4 + (2 << 30)
    assert known.memory_bytes("card", 2, 1, range(3), 2) == 3 * 500 * 24 + 2 * 3 * 5 * 4 + (3 << 30)
    column = known.memory_column("card", 1, 1, (True, False), 2)
    assert column.tolist() == [known.memory_bytes("card", 1, 1, range(1 + n), 2) for n in range(3)]


def test_gradients_are_summed_in_rings_of_single_devices() -> None:
    pipelines = tuple(Pipeline((SketchStage(range(1, 3), (Copies("card", tp),)),), 1, 4) for tp in (1, 2))

    found = small().sync_ps(Sketch(pipelines))

    assert found == 2 * (4 * 1000 * 4 / 2) / 2e9 * SECOND_PS  # 2 (d - 1) hand-overs of half of them


@pytest.mark.parametrize("name", ["llm_info", "bandwidths"])
def test_a_wrong_file_is_told(name: str) -> None:
    texts = {"llm_info": "{}", "bandwidths": '{"one": {}, "two": {}}'} if name == "llm_info" else {}
    layers = texts.get("llm_info", '{"model": {}}')
    with pytest.raises(SpecError, match=name):
        sailor_tables([], {}, layers, '{"one": {}, "two": {}}', model="model", batch=8)


def common(reference: Path, fast: int, slow: int) -> SailorTables:
    """OPT-350M on A100-40 and V100-16, batch 1024."""
    folder = reference / "planner_data" / "sailor"
    if not folder.is_dir():
        pytest.skip("the reference data has no planner_data/sailor")
    counts = {"A100-40": fast, "V100-16": slow}
    kinds = [
        Kind(name, replace(device(name), memory_bytes=MEMORY_BYTES[name]), count, 4, (4,) * (count // 4))
        for name, count in counts.items()
    ]
    profiles = {name: (folder / "OPT-350" / name / "profile.json").read_text() for name in counts}
    layers, rates = (folder / "llm_info.json").read_text(), (folder / "bandwidths_one_zone.json").read_text()
    return sailor_tables(kinds, profiles, layers, rates, model="OPT-350", batch=1024)


def of_sailor(copies: int) -> Sketch:
    """The plan of Sailor's planner at 320 and 512 devices: seven stages of so many copies, micro-batches of one."""
    layers = (range(1, 3), range(3, 6), range(6, 10), range(10, 14), range(14, 18), range(18, 22), range(22, 25))
    seats = (("V100-16", 4), *[("A100-40", 1)] * 4, ("V100-16", 4), ("V100-16", 4))
    each = zip(layers, seats, strict=True)
    stages = tuple(SketchStage(own, (Copies(kind, tp, copies),)) for own, (kind, tp) in each)
    return Sketch((Pipeline(stages, copies, -(-1024 // copies)),))


def test_plans_of_sailor_take_what_its_simulator_says_digit_for_digit(reference_data: Path) -> None:
    """Its planner at 128, 320 and 512 devices: 5.883749, 2.770739 and 1.912419 s (own runs of branch sosp25_ae)."""
    first = SketchStage(range(1, 13), (Copies("A100-40", 1, 3, 2), Copies("V100-16", 4, 24, 2)))
    last = SketchStage(range(13, 25), (Copies("A100-40", 1, 27, 2),))
    sketch = Sketch((Pipeline((first, last), 54, 19),))  # 19 of 54 are 1026: it rounds up

    found = price(sketch, common(reference_data, 32, 96))

    assert (found.iteration_ps - found.sync_ps) / SECOND_PS == pytest.approx(4.491085, abs=5e-7)
    assert found.sync_ps / SECOND_PS == pytest.approx(1.392664, abs=5e-7)
    assert found.iteration_ps / SECOND_PS == pytest.approx(5.883748912533088, abs=1e-9)
    for counts, copies, seconds in (((80, 240), 20, 2.7707394889209165), ((128, 384), 32, 1.9124191987209473)):
        tables = common(reference_data, *counts)
        assert price(of_sailor(copies), tables).iteration_ps / SECOND_PS == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(("fast", "slow", "seconds"), OURS)
def test_our_plans_of_the_common_problem(reference_data: Path, fast: int, slow: int, seconds: float) -> None:
    known = common(reference_data, fast, slow)
    hunt = Hunt(known, SPACE)

    hunt.look()

    assert hunt.best is not None
    assert hunt.best.time_ps / SECOND_PS == pytest.approx(seconds, abs=1e-6)
    assert hunt.best.sketch.samples == 1024
    assert fits(hunt.best.sketch, known)
    used = hunt.best.sketch.devices
    assert used["A100-40"] <= fast
    assert used["V100-16"] <= slow
    assert np.all([price(sketch, known) == priced for sketch, priced in hunt.found.items()])
