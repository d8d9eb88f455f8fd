"""Plans of other tools are read as they count layers and samples, or refused in a line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_sketch import drawn, hosts
from tests.plan.toy import model
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
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage, merged, place
from xsim.spec.scenario import Scenario

TWO = hosts((("fast", 4),), (("fast", 4),), (("slow", 4),), (("slow", 4),))
NAMES = {"A100": "fast", "T4": "slow"}


def target(layers: int = 8, batch: int | None = None, **more: Any) -> Target:
    scenario = Scenario(cluster=more.pop("cluster", TWO), model=model(layers=layers), batch=1, attention="unfused")
    return Target(scenario, batch=batch, devices=NAMES, **more)


METIS = """\
    parser.add_argument('--gbs', type=int, default=128)
rank, cost, node_sequence, device_group, strategies(dp_deg, tp_deg), batches(number of batch), layer_partition
1, 2396.5, (<DeviceType.T4: 't4'>, <DeviceType.A100: 'a100'>), [8, 8], [(4, 2), [8, 1]], 8, [0, 4, 10]
2, 2728.0, (<DeviceType.A100: 'a100'>, <DeviceType.T4: 't4'>), [4, 12], [(1, 4), (6, 2)], 16, [0, 9, 10]
3, 2728.0, (<DeviceType.A100: 'a100'>, <DeviceType.T4: 't4'>), [8, 8], [(4, 2), (4, 2)], 16, [0, 4, 4]
"""
SAILOR = json.dumps(
    {
        "mbs": 2,
        "iter_time": 5.25,
        "global_batch_size": 128,
        "pipeline_list": [
            {
                "num_stages": 2,
                "layers_per_stage": [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]],
                "tmp_per_stage": [
                    [[[["A100", 1, "us"]], 1], [[["A100", 1, "us"]], 1], [[["T4", 4, "us"]], 4]],
                    [[[["A100", 1, "us"]], 1]] * 3,
                ],
                "dp": [3, 3],
            }
        ],
    }
)
AMP = """\
{'hidden_size': tensor([64.]), 'num_layers': tensor([8.])}
gbs:32
rank 0: ((1, {'mp_deg': tensor([2.]), 'dp_deg': tensor([4.]), 'pp_deg': tensor([2.])}, \
defaultdict(<class 'list'>, {0: [0, 1, 2, 3], 1: [8, 9, 10, 11], 2: [4, 5, 6, 7], 3: [12, 13, 14, 15]}), \
[0, 7, 14]), tensor([1.0859]))
rank 1: ((2, {'mp_deg': tensor([1.]), 'dp_deg': tensor([1.]), 'pp_deg': tensor([3.])}, \
defaultdict(<class 'list'>, {0: [0, 1, 2, 3]}), [0, 1, 2, 14]), tensor([1.3]))
"""
ACESO = json.dumps(
    {
        "num_layers": 8,
        "global_batch_size": 64,
        "micro_batch_size": 4,
        "num_stages": 2,
        "num_gpus": [8, 4],
        "num_ops_in_each_stage": [52, 55],
        "model_parallel_size_of_each_op": [[2] * 52, [4] * 55],
        "data_parallel_size_of_each_op": [[4] * 52, [1] * 55],
        "recompute_ops": [[0] * 4 + [1, 1] + [0] * 46, [0] * 55],
    }
)
HEXISCALE = """\
torchrun --nproc_per_node 8 llama_train.py \\
--total-layer-num 8 --hetero_configs "[[4, 2]] + [[1] * 2]" --layer_partitions "[[5, 3], [4, 4]]" \\
--chunks 4 2 --global_bsz_size 8 6 --fp16
"""
LOG = """\
Optimal time: 8.012
    0-th pipeline: [1, 2]
     - devices: [[0], [1, 1]]
     - devices name: [['A100'], ['T4', 'T4']]
     - layer partitions: [3, 5]
     - memory estimation: [1, 2]
    1-th pipeline: [2]
     - devices: [[2, 2]]
     - devices name: [['A100', 'A100']]
     - layer partitions: [8]
"""
MEGATRON = """\
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers 8 \\
--micro-batch-size 2 --global-batch-size=64 --sequence-parallel --recompute-granularity full \\
--recompute-method block --recompute-num-layers 3 --use-distributed-optimizer
"""
JSON = json.dumps(
    [
        {
            "id": "first",
            "layers": 8,
            "gbs": 60,
            "predicted_s": 1.5,
            "pipelines": [
                {
                    "mbs": 4,
                    "lbs": 36,
                    "stages": [
                        {
                            "type": "A100",
                            "devices": 4,
                            "dp": 2,
                            "tp": 2,
                            "layers": [0, 3],
                            "recompute": ["2 AS", "Qkv"],
                        },
                        {"type": "A100", "devices": 4, "dp": 1, "tp": 4, "layers": [3, 8], "recompute": "full"},
                    ],
                },
                {"mbs": 4, "lbs": 24, "stages": [{"type": "T4", "tp": 4, "ranks": [8, 9, 10, 11], "layers": [0, 8]}]},
            ],
        },
        {
            "id": "second",
            "layers": 10,
            "gbs": 1000,
            "mbs": 2,
            "pipelines": [
                {
                    "count": 2,
                    "stages": [
                        {"layers": [0, 1], "replicas": [{"type": "fast", "tp": 1, "count": 1}]},
                        {"layers": [1, 10], "replicas": [{"type": "slow", "tp": 2, "count": 1}]},
                    ],
                },
                {"stages": [{"layers": [0, 10], "replicas": [{"type": "fast", "tp": 1, "count": 4}]}]},
            ],
        },
    ]
)


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


def test_shares_of_states_are_written_too() -> None:
    stage = SketchStage(
        range(1, 9), (Copies("fast", 2, samples=3, state_shares=(1.0, 2.5)), Copies("slow", 1, samples=1))
    )
    sharded = Sketch((Pipeline((stage,), 4, 2),), zero=2)

    assert read_plan(plan_json(sharded, target().scenario), target(), "plan").sketch == sharded


READERS: Mapping[str, tuple[Callable[[str, Target, str], Imported], str]] = {
    "metis": (metis_plan, METIS),
    "sailor": (sailor_plan, SAILOR),
    "amp": (amp_plan, AMP),
    "aceso": (aceso_plan, ACESO),
    "hexiscale": (hexiscale_plan, HEXISCALE),
    "hexiscale log": (hexiscale_plan, LOG),
    "megatron": (megatron_plan, MEGATRON),
    "json": (read_plan, JSON),
}
WORDS = st.one_of(
    st.sampled_from(
        ("", "-1", "0", "1.5", "1e9", "999999999999", "null", "[]", "{", '"x"', "(", "nan", "\n", "tensor(")
    ),
    st.integers(0, 12).map(str),
    st.text(max_size=3),
)


@pytest.mark.parametrize("reader", READERS)
@given(changes=st.lists(st.tuples(st.integers(0, 400), WORDS), min_size=1, max_size=3))
def test_a_changed_file_is_read_or_refused(reader: str, changes: list[tuple[int, str]]) -> None:
    read, text = READERS[reader]
    pieces = re.split(r"(\W)", text)
    for position, word in changes:
        pieces[position % len(pieces)] = word
    with suppress(SpecError):
        found = read("".join(pieces), target(batch=24), "plan")
        place(found.sketch, replace(target().scenario, batch=found.sketch.samples))


@pytest.mark.parametrize(
    ("reader", "old", "new", "message"),
    [
        (
            "metis",
            "[0, 4, 10]",
            "[0, 4, 9]",
            "f[1].layer_partition = [0, 4, 9]: for the 8 layers of toy it would cover",
        ),
        (
            "metis",
            "[0, 4, 10]",
            "[0, 0, 10]",
            "f[1].layer_partition = [0, 0, 10]: the stage between 0 and 0 has no layer",
        ),
        (
            "metis",
            "[8, 8], [(4, 2), [8, 1]]",
            "[8, 7], [(4, 2), [7, 1]]",
            "f[1].device_groups = 15: its stages have 15",
        ),
        ("sailor", "A100", "H900", "f.pipeline_list[0].tmp_per_stage[0][0] = 'H900': the cluster has fast, slow; say "),
        (
            "sailor",
            "[5, 6",
            "[6, 6",
            "f.pipeline_list[0].layers_per_stage = [0, 1, 2, 3, 4, 6, 6, 7, 8, 9]: they do not",
        ),
        ("amp", "0: [0, 1, 2, 3]", "0: [0, 1, 2]", "f[1].ranks = {0: [0, 1, 2], 1: "),
        ("aceso", "[8, 4]", "[8, 8]", "f.num_gpus[1] = 8: tp 4 x dp 1 are not as many; "),
        (
            "hexiscale",
            "[5, 3]",
            "[5, 4]",
            "f.layer_partitions[0] = [0, 5, 9]: for the 8 layers of toy it would cover 0..8",
        ),
        (
            "megatron",
            "size 2 --pipe",
            "size 3 --pipe",
            "f.tensor-model-parallel-size = 3: tensor 3 x pipeline 2 does not",
        ),
        (
            "megatron",
            "--sequence",
            "--context-parallel-size 3 --s",
            "f.tensor-model-parallel-size = 2: tensor 2 x context 3 x pipeline 2 does not",
        ),
        (
            "json",
            '"layers": [3, 8]',
            '"layers": [4, 8]',
            "f.pipelines[0].stages[1].layers = [4, 8]: the stage before it",
        ),
        ("json", '"dp": 2', '"pd": 2', "f.pipelines[0].stages[0].pd = 2: there is no such key; it has layers, "),
        (
            "json",
            "[8, 9, 10, 11]",
            "[6, 7, 8, 9]",
            "plan.pipelines[1].stages[0].copies[0].ranks = [6, 7, 8, 9]: rank 6",
        ),
    ],
)
def test_what_is_wrong_is_named(reader: str, old: str, new: str, message: str) -> None:
    read, text = READERS[reader]
    assert old in text
    with pytest.raises(SpecError) as caught:
        read(text.replace(old, new), target(), "f")

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("reader", "old", "new", "message"),
    [
        ("json", '"gbs": 60', '"gbs": 60, "name": "\\ud800x"', "f.name = '\\ud800x': it has unprintable characters; "),
        ("json", '"gbs": 60', '"gbs": 60, "name": "a\\nb"', "f.name = 'a\\nb': it has unprintable characters; "),
        ("json", '"gbs": 60', f'"gbs": 60, "name": "{"a" * 201}"', "f.name = "),
        ("json", '"gbs": 60', '"gbs": 60, "gbs": 61', "f = 'gbs': a mapping has this key twice; "),
        ("json", '"gbs": 60', '"gbz": 60', "f.gbz = 60: there is no such key; "),
        ("json", '"predicted_s": 1.5', '"predicted_s": -1', "f.predicted_s = -1: it is no time that an iteration "),
        ("json", '"predicted_s": 1.5', '"predicted_s": NaN', "f.predicted_s = nan: it is no time that an iteration "),
        ("json", '"predicted_s": 1.5', '"predicted_s": "x"', "f.predicted_s = 'x': it is no time that an iteration "),
        (
            "json",
            '"tp": 2',
            '"tp": 2, "sequence_parallel": "yes"',
            "f.pipelines[0].stages[0].sequence_parallel = 'yes': ",
        ),
        ("json", '"2 AS"', f'"{"9" * 5000} AS"', "f.pipelines[0].stages[0].recompute = "),
        ("json", '"lbs": 36', '"micro_batches": 1', "batch = 60: the pipelines of the plan train 28 samples; "),
        ("amp", "0: [0, 1, 2, 3]", "0: [0, 1, 2, 2]", "f[1].ranks = {0: [0, 1, 2, 2], 1: "),
        ("amp", "0: [0, 1, 2, 3]", "0: [0, 1, 2, 3.5]", "f[1].ranks = 3.5: it is no whole number of 0 or more; "),
        ("amp", "0: [0, 1, 2, 3]", "0: [0, 1e999]", "f[1].ranks = inf: it is no whole number of 0 or more; "),
        ("amp", "[0, 7, 14]", f"0x{'f' * 5000}", "f[1] = "),
        ("amp", "gbs:32", f"gbs:{'9' * 5000}", "f.gbs = "),
        ("metis", "default=128", f"default={'9' * 5000}", "f.gbs = "),
        ("hexiscale", "_size 8 6", f"_size {'9' * 5000}", "f.global_bsz_size = "),
        ("sailor", '[["A100", 1, "us"]]', "[{}]", "f.pipeline_list[0].tmp_per_stage[0][0] = [[{}], 1]: a copy is "),
        ("megatron", "size=64", f"size={'9' * 5000}", "f.global-batch-size = "),
        ("megatron", "--sequence-parallel", "--sequence-parallel=false", "f.sequence-parallel = 'false': it takes no "),
        ("megatron", "granularity full", "granularity", "f.recompute-granularity = '': it has no value; "),
        ("megatron", "-model-parallel-size", "-size", "f = '': it has no --tensor-model-parallel-size and no "),
    ],
)
def test_what_would_fail_later_is_named(reader: str, old: str, new: str, message: str) -> None:
    read, text = READERS[reader]
    assert old in text
    with pytest.raises(SpecError) as caught:
        read(text.replace(old, new), target(), "f")

    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 500


def test_a_set_is_no_mapping_of_configurations() -> None:
    with pytest.raises(SpecError, match=r"^f = \{.*'hetero_configs'.*\}: it is no mapping; "):
        hexiscale_plan("{'hetero_configs', 2}", target(), "f")


def test_samples_of_a_micro_batch_are_bounded() -> None:
    plan = json.loads(JSON)[0]
    plan["pipelines"][0] |= {"mbs": 999_999_998, "lbs": 999_999_998}

    with pytest.raises(
        SpecError, match=r"^plan\.pipelines\[0\]\.micro_batch = 999999998: no micro-batch is as large; "
    ):
        read_plan(json.dumps(plan), target(), "f")


def test_a_file_of_one_plan_has_no_third() -> None:
    plan = json.dumps(json.loads(JSON)[0])

    assert read_plan(plan, target(which="first"), "f") == read_plan(plan, target(), "f")
    for read, text in ((read_plan, plan), (sailor_plan, SAILOR)):
        with pytest.raises(SpecError, match=r"^which = '3': the file has one plan; leave it out"):
            read(text, target(which="3"), "f")
    with pytest.raises(
        SpecError, match=r"^which = '9+\.\.\.9+': it lists 2 plans; write 1 to 2, or one of first, second"
    ):
        read_plan(JSON, target(which="9" * 5000), "f")


def test_what_a_plan_was_not_made_for_and_what_is_ignored_are_noted() -> None:
    plan = json.loads(JSON)[0]
    assert read_plan(json.dumps(plan | {"model": "T-O Y"}), target(), "f").notes == ()
    assert read_plan(json.dumps(plan | {"model": "OPT-350M"}), target(), "f").notes == (
        "it was planned for the model OPT-350M, and this is toy",
    )
    assert megatron_plan(MEGATRON, target(), "f").notes == ()
    assert megatron_plan(f"{MEGATRON.rstrip()} $MORE --bf16 --lr 1e-4\n", target(), "f").notes == (
        "what is no part of a plan is ignored: --bf16, --lr",
    )


def test_a_long_name_of_a_kind_is_cut_in_the_message() -> None:
    with pytest.raises(SpecError) as caught:
        read_plan(JSON.replace("A100", "Z" * 5000), target(), "f")

    assert len(str(caught.value)) < 500
