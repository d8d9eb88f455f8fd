"""Parameter counts: the published ones, and the closed form of GPT."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from tests.spec.strategies import models
from xsim.errors import SpecError
from xsim.spec.model import ModelSpec
from xsim.spec.spellings import read_text

CONF = Path(__file__).parents[2] / "conf" / "model"
GPT = sorted(path.stem for path in CONF.glob("gpt3_*.yaml"))


def model(name: str) -> ModelSpec:
    return read_text(ModelSpec, (CONF / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama2_7b", 6_738_415_616),  # huggingface.co/meta-llama, safetensors totals
        ("llama2_13b", 13_015_864_320),
        ("llama2_70b", 68_976_648_192),
        ("llama3_8b", 8_030_261_248),
        ("llama3_70b", 70_553_706_496),
    ],
)
def test_llama_has_its_published_parameters(name: str, parameters: int) -> None:
    assert model(name).parameters == parameters


@pytest.mark.parametrize("name", [*GPT, "opt_350m", "gpt_neo_2_7b"])
def test_gpt_follows_its_closed_form(name: str) -> None:
    gpt = model(name)
    layers, hidden = gpt.layers, gpt.hidden

    closed = 12 * layers * hidden**2 + 13 * layers * hidden + 2 * hidden + (gpt.vocab + gpt.seq_len) * hidden
    assert gpt.parameters == closed


def test_layers_may_stand_alone() -> None:
    """Which is what makes the gradients of one layer exactly 1 MB in bf16."""
    layer = model("gradient_1mb")

    assert [layer.layer_parameters(number) for number in range(3)] == [0, 500_000, 0]
    assert layer.parameters == layer.held_parameters(range(3)) == 500_000
    with pytest.raises(SpecError, match="tied = True: without tokens there is no table for it"):
        replace(layer, tied=True)
    with pytest.raises(SpecError, match="learned_positions = True: without tokens there is no table for it"):
        replace(layer, learned_positions=True)


def test_gpt_neo_lacks_three_biases_a_layer() -> None:
    neo = model("gpt_neo_2_7b")

    assert neo.parameters - 3 * neo.layers * neo.hidden == 2_651_307_520  # huggingface.co/EleutherAI/gpt-neo-2.7B


def test_the_sizes_of_eth_table_2() -> None:
    shapes = {name: (model(name).layers, model(name).hidden) for name in GPT}

    assert shapes == {
        "gpt3_350m": (24, 1024),
        "gpt3_1_3b": (24, 2048),
        "gpt3_2_6b": (32, 2560),
        "gpt3_6_7b": (32, 4096),
        "gpt3_13b": (40, 5120),
        "gpt3_175b": (96, 12288),
    }


@given(models())
def test_layers_add_up_to_the_model(spec: ModelSpec) -> None:
    parts = sum(spec.layer_parameters(layer) for layer in range(spec.layers + 2))

    assert parts - (spec.vocab * spec.hidden if spec.tied else 0) == spec.parameters
    assert spec.held_parameters(range(spec.layers + 2)) == spec.parameters
