"""Plans of other tools are read as they count layers and samples."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given

from tests.interop.foreign import ACESO, AMP, HEXISCALE, JSON, LOG, MEGATRON, METIS, SAILOR, target
from tests.plan.test_sketch import drawn
from tests.planning import site_of
from xsim.errors import SpecError
from xsim.interop.plans.aceso import aceso_plan
from xsim.interop.plans.amp import amp_plan
from xsim.interop.plans.as_json import plan_json
from xsim.interop.plans.hexiscale import hexiscale_plan
from xsim.interop.plans.interchange import read_plan
from xsim.interop.plans.megatron import megatron_plan, megatron_words
from xsim.interop.plans.metis import metis_plan
from xsim.interop.plans.sailor import sailor_plan
from xsim.interop.plans.target import Imported, Target
from xsim.plan.forms import merged
from xsim.plan.planner.cephalo import Cephalo
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage, place, sketch_of
from xsim.spec.scenario import Scenario


def stages(found: Imported, pipeline: int = 0) -> list[tuple[tuple[int, int], list[tuple[str, int, int]]]]:
    return [
        ((s.layers.start, s.layers.stop - 1), [(c.device, c.tp, c.count) for c in s.copies])
        for s in found.sketch.pipelines[pipeline].stages
    ]


def loads(found: Imported) -> list[tuple[int, int, int]]:
    return [(each.micro_batch, each.micro_batches, each.count) for each in found.sketch.pipelines]


def test_metis_deals_types_out_in_order_and_counts_both_ends() -> None:
    first = metis_plan(METIS, target(), "metis")

    assert stages(first) == [((1, 3), [("slow", 2, 4)]), ((4, 8), [("fast", 1, 8)])]
    assert loads(first) == [(16, 8, 1)]
    assert (first.sketch.predicted_ps, first.notes) == (2_396_500_000_000, ())

    second = metis_plan(METIS, target(which="2"), "metis")
    assert stages(second) == [((1, 8), [("fast", 4, 1)]), ((9, 9), [("fast", 2, 2), ("slow", 2, 4)])]
    assert loads(second) == [(12, 11, 1)]
    assert second.notes == (
        "128 samples do not divide into micro-batches of 12: rounded up to 11 of them, 132 samples",
        "a stage of unlike devices shares out micro-batches equally: the list does not say how",
    )


def test_sailor_mixes_types_in_a_stage_and_rounds_up() -> None:
    found = sailor_plan(SAILOR, target(), "sailor")

    assert stages(found) == [((1, 4), [("fast", 1, 2), ("slow", 4, 1)]), ((5, 8), [("fast", 1, 3)])]
    assert loads(found) == [(6, 22, 1)]
    assert found.sketch.samples == 132
    assert found.sketch.predicted_ps == 5_250_000_000_000
    assert found.notes == ("128 samples do not divide into rounds of 6: rounded up to 22 of them, 132 samples",)
    with pytest.raises(SpecError, match=r"^batch = None: the plan does not say how many samples it trains"):
        sailor_plan(SAILOR.replace("global_batch_size", "other"), target(), "sailor")


def test_amp_has_six_pseudo_layers_and_a_map_of_ranks() -> None:
    found = amp_plan(AMP, target(), "amp")

    assert stages(found, 0) == [((1, 5), [("fast", 2, 1)]), ((6, 8), [("fast", 2, 1)])]
    assert stages(found, 1) == [((1, 5), [("slow", 2, 1)]), ((6, 8), [("slow", 2, 1)])]
    deployment = place(found.sketch, replace(target().scenario, batch=32))
    assert [[g.ranks for g in s.groups] for s in deployment.replicas[2].stages] == [[(8, 9)], [(12, 13)]]
    assert [[g.ranks for g in s.groups] for s in deployment.replicas[0].stages] == [[(0, 1)], [(4, 5)]]
    assert [(each.micro_batch, each.micro_batches) for each in deployment.replicas] == [(1, 8)] * 4

    with pytest.raises(SpecError, match=r"the stage between 1 and 2 has no whole layer"):
        amp_plan(AMP, target(which="2"), "amp")


def test_aceso_counts_operators_and_cuts_at_the_nearest_layer() -> None:
    found = aceso_plan(ACESO, target(), "aceso")

    assert stages(found) == [((1, 4), [("fast", 2, 4)]), ((5, 8), [("slow", 4, 1)])]
    assert loads(found) == [(4, 16, 1)]
    assert found.sketch.pipelines[0].stages[0].recompute == (("softmax", 1),)
    assert found.notes == (
        "stages were cut inside layers, and are cut here at the nearest end of one",
        "layers of this scenario have no operator attention_dropout (attention=unfused): that is not recomputed",
    )


def test_hexiscale_has_batches_of_its_own_for_each_pipeline() -> None:
    found = hexiscale_plan(HEXISCALE, target(), "args")

    assert stages(found) == [((1, 5), [("fast", 4, 1)]), ((6, 8), [("fast", 2, 1)])]
    assert stages(found, 1) == [((1, 4), [("fast", 1, 1)]), ((5, 8), [("fast", 1, 1)])]
    assert loads(found) == [(2, 4, 1), (3, 2, 1)]

    log = hexiscale_plan(LOG, target(batch=10), "log")
    assert stages(log) == [((1, 3), [("fast", 1, 1)]), ((4, 8), [("slow", 2, 1)])]
    assert loads(log) == [(1, 5, 1), (1, 5, 1)]
    assert log.sketch.predicted_ps == 8_012_000_000_000


def test_megatron_puts_stages_farthest_apart() -> None:
    found = megatron_plan(MEGATRON, target(), "args")

    deployment = place(found.sketch, replace(target().scenario, batch=64))
    assert deployment.zero == 1
    assert [[s.groups[0].ranks for s in each.stages] for each in deployment.replicas] == [
        [(2 * r, 2 * r + 1), (8 + 2 * r, 9 + 2 * r)] for r in range(4)
    ]
    assert all(stage.sequence_parallel for each in deployment.replicas for stage in each.stages)
    assert [(e.operator, e.layers) for e in deployment.replicas[0].stages[1].recompute] == [("full", range(5, 8))]
    again = megatron_plan(" ".join(megatron_words(found.sketch, target().scenario)), target(), "args")
    assert again.sketch == found.sketch
    modules = MEGATRON.replace("full \\", "selective \\").replace("--recompute-method block", "--recompute-modules mlp")
    some = megatron_plan(modules.replace("--recompute-num-layers 3", "layernorm"), target(), "args")
    assert [name for name, _ in some.sketch.pipelines[0].stages[0].recompute] == [
        *("up", "activation", "down"),
        *("attention_norm", "mlp_norm"),
    ]
    turned = Sketch(tuple(replace(each, stages=_turned(each.stages)) for each in found.sketch.pipelines))
    with pytest.raises(SpecError, match=r"in rank order its stages would get other devices, and Megatron-LM has no "):
        megatron_words(turned, target().scenario)
    uneven = Sketch((Pipeline((SketchStage(range(1, 9), (Copies("fast", 1), Copies("slow", 2))),), 2, 1),))
    with pytest.raises(SpecError, match=r"unlike TP degrees, and Megatron-LM has no argument for that"):
        megatron_words(uneven, target().scenario)


def test_megatron_cuts_contexts_and_experts() -> None:
    """Contexts lie inside a data-parallel rank; those that share out experts are one pipeline."""
    scenario = target().scenario
    mixture = replace(
        scenario, model=replace(scenario.model, experts=4, experts_per_token=2, bias=False), attention="flash"
    )
    text = MEGATRON.replace("--seq", "--context-parallel-size 2 --expert-model-parallel-size 2 --seq")

    found = megatron_plan(text, replace(target(), scenario=mixture), "args")

    deployment = place(found.sketch, replace(mixture, batch=64))
    assert [(g.ranks, g.cp, g.samples) for g in deployment.replicas[0].stages[0].groups] == [
        ((0, 1, 2, 3), 2, 2),
        ((4, 5, 6, 7), 2, 2),
    ]
    assert [stage.ep for stage in deployment.replicas[0].stages] == [2, 2]
    assert deployment.replicas[0].micro_batches == 16
    words = " ".join(megatron_words(found.sketch, mixture))
    assert " --context-parallel-size 2 --expert-model-parallel-size 2 " in words
    assert megatron_plan(words, replace(target(), scenario=mixture), "args").sketch == found.sketch
    with pytest.raises(SpecError, match=r"^args.expert-model-parallel-size = 4: it does not divide the 2 data-"):
        megatron_plan(text.replace("expert-model-parallel-size 2", "expert-model-parallel-size 4"), target(), "args")


def _turned(stages: tuple[SketchStage, ...]) -> tuple[SketchStage, ...]:
    """The layers of each on the devices of the other."""
    first, second = stages
    return replace(first, copies=second.copies), replace(second, copies=first.copies)


def test_json_has_several_spellings() -> None:
    first = read_plan(JSON, target(which="first"), "plans")

    assert stages(first) == [((1, 3), [("fast", 2, 2)]), ((4, 8), [("fast", 4, 1)])]
    assert loads(first) == [(4, 9, 1), (4, 6, 1)]
    assert [s.recompute for s in first.sketch.pipelines[0].stages] == [(("softmax", 2), ("qkv", 1)), (("full", 5),)]
    assert first.sketch.pipelines[1].stages[0].copies[0].ranks == ((8, 9, 10, 11),)

    second = read_plan(JSON, target(which="2"), "plans")
    assert stages(second) == [((0, 0), [("fast", 1, 1)]), ((1, 8), [("slow", 2, 1)])]
    assert loads(second) == [(2, 84, 2), (8, 84, 1)]
    assert second.notes == ("1000 samples do not divide into rounds of 12: rounded up to 84 of them, 1008 samples",)


def test_samples_that_pipelines_say_are_those_of_the_batch() -> None:
    plan = json.loads(JSON)[0]
    assert loads(read_plan(json.dumps(plan | {"gbs": 50}), target(), "f")) == [(4, 9, 1), (4, 6, 1)]
    assert read_plan(json.dumps(plan | {"gbs": 50}), target(), "f").notes == (
        "its pipelines train 60 samples, more than its batch of 50",
    )
    with pytest.raises(SpecError, match=r"^batch = 64: the pipelines of the plan train 60 samples; leave it out, or "):
        read_plan(json.dumps(plan), target(batch=64), "f")
    with pytest.raises(SpecError, match=r"^batch = 64: the pipelines of the plan train 14 samples; leave it out, or "):
        hexiscale_plan(HEXISCALE, target(batch=64), "f")
    del plan["pipelines"][1]["lbs"]
    assert loads(read_plan(json.dumps(plan), target(batch=50), "f")) == [(4, 9, 1), (4, 4, 1)]
    with pytest.raises(
        SpecError, match=r"^f.gbs = 36: pipelines that say how many they take have 36 samples, and none"
    ):
        read_plan(json.dumps(plan), target(batch=36), "f")


def test_operators_that_layers_do_not_have_are_named() -> None:
    flash = target(which="first")
    flash = replace(flash, scenario=replace(flash.scenario, attention="flash"))

    found = read_plan(JSON, flash, "plans")

    assert found.sketch.pipelines[0].stages[0].recompute == (("qkv", 1),)
    assert found.notes == (
        "layers of this scenario have no operator softmax (attention=flash): that is not recomputed",
    )


@given(drawn())
def test_what_is_written_as_json_comes_back(case: tuple[Sketch, Scenario]) -> None:
    sketch, scenario = case
    short = merged(replace(sketch, source="test", predicted_ps=1_500_000_000_000, zero=1), scenario.model.layers)

    with suppress(SpecError):  # no host has room for it, which check says of both
        place(short, scenario)
        assert read_plan(plan_json(short, scenario), Target(scenario), "plan").sketch == short


def test_what_cephalo_shares_out_comes_back_whole() -> None:
    """With its buckets and its gathers beside the passes: without them it would be slower, and need not fit."""
    scenario = replace(target().scenario, batch=24)
    plan = Cephalo().plan(scenario, site_of(scenario))
    sketch = sketch_of(plan, scenario)

    read = read_plan(plan_json(sketch, scenario), Target(scenario), "plan").sketch
    assert read == sketch
    assert place(read, scenario) == plan
    with pytest.raises(SpecError, match=r"^plan.gather_overlap = 'yes': it is neither; write true or false"):
        read_plan(plan_json(sketch, scenario).replace(": true", ': "yes"'), Target(scenario), "plan")


def test_shares_of_states_are_written_too() -> None:
    stage = SketchStage(
        range(1, 9), (Copies("fast", 2, samples=3, state_shares=(1.0, 2.5)), Copies("slow", 1, samples=1))
    )
    sharded = Sketch((Pipeline((stage,), 4, 2),), zero=2)

    assert read_plan(plan_json(sharded, target().scenario), target(), "plan").sketch == sharded
