"""Files of plans that are wrong are refused in a line, whatever is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop.foreign import ACESO, AMP, HEXISCALE, JSON, LOG, MEGATRON, METIS, SAILOR, target
from xsim.errors import SpecError
from xsim.interop.plans.aceso import aceso_plan
from xsim.interop.plans.amp import amp_plan
from xsim.interop.plans.hexiscale import hexiscale_plan
from xsim.interop.plans.interchange import read_plan
from xsim.interop.plans.megatron import megatron_plan
from xsim.interop.plans.metis import metis_plan
from xsim.interop.plans.sailor import sailor_plan
from xsim.interop.plans.target import Imported, Target
from xsim.plan.sketch import place

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
        ("json", '"mbs": 4', '"mbs": 3', "f.pipelines[0].stages[0].copies = 2: 2 copies cannot take equal parts of a "),
        ("json", '"gbs": 60', '"gbs": 60, "zero": 4', "f.zero = 4: there is no such stage of ZeRO; choose 0, 1, "),
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
