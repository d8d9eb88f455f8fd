"""Measuring a table of times: with PyTorch where it is, and one line where it is not."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from runners import torch_links
from runners.profile import main
from runners.user_files import with_texts
from tests.examples import load
from xsim.plan.compute.profile import Profile
from xsim.plan.operator import ShardedOperator
from xsim.plan.operators import layer_operators
from xsim.spec.cluster import ClusterSpec, DeviceSpec
from xsim.spec.codec import from_plain
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

WITH_TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
MODEL = """
name: small
layers: 2
hidden: 32
heads: 4
kv_heads: {kv_heads}
ffn: 64
vocab: 96
seq_len: 16
gated: {gated}
norm: {norm}
bias: false
learned_positions: {learned}
tied: false
dropout: {dropout}
"""
GPT = {"kv_heads": 4, "gated": "false", "norm": "layernorm", "learned": "true", "dropout": "true"}
LLAMA = {"kv_heads": 2, "gated": "true", "norm": "rmsnorm", "learned": "false", "dropout": "false"}
WORDS = ["--precision", "fp32", "--repeat", "2", "--micro-batch", "1,2", "--tp", "1,2"]


def model_file(folder: Path, shape: dict[str, object]) -> str:
    path = folder / "small.yaml"
    path.write_text(MODEL.format(**shape))
    return str(path)


def test_without_torch_it_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    assert main(["mine", "llama2_7b", str(tmp_path / "x.csv")]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "torch = None: it cannot be imported" in line
    assert "xsim[profile]" in line


@WITH_TORCH
@pytest.mark.parametrize(("shape", "attention"), [(GPT, "unfused"), (LLAMA, "flash")])
def test_a_measured_table_prices_every_operator(tmp_path: Path, shape: dict[str, object], attention: str) -> None:
    torch: Any = pytest.importorskip("torch")
    if attention == "flash" and not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        pytest.skip("this PyTorch has no fused attention")
    table = tmp_path / "mine.csv"

    assert main(["a100_80", model_file(tmp_path, shape), str(table), "--attention", attention, *WORDS]) == 0

    compute = with_texts({"compute": {"name": "profile", "path": str(table), "text": ""}})["compute"]
    assert isinstance(compute, dict)
    profile, device = Profile(text=compute["text"]), from_plain(DeviceSpec, "a100_80")
    model = from_plain(ModelSpec, _plain(Path(model_file(tmp_path, shape))))
    way: Any = attention
    scenario = Scenario(cluster=load(ClusterSpec, "fig4"), model=model, batch=8, attention=way, precision="fp32")
    for tp in (1, 2):
        for layer in (0, 1, 3):
            for part in layer_operators(scenario, layer, samples=2, tp=tp, index=0, sequence_parallel=False):
                if isinstance(part, ShardedOperator):
                    assert profile.doubt(device, part, "forward") == ""
                    assert profile.doubt(device, part, "input_gradient") == ""
                    assert profile.doubt(device, part, "weight_gradient") == ""


def _plain(path: Path) -> object:
    from xsim.spec.yaml_text import load as read

    return read(path.read_text())


@WITH_TORCH
def test_collectives_are_timed_among_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "links.csv"

    torch_links.link_rows(torch, path, 2, sizes=(1024,))

    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["collective"], row["ranks"], row["bytes"]) for row in rows][:2] == [
        ("all_reduce", "1", "1024"),
        ("all_gather", "1", "1024"),
    ]
    assert all(float(row["time_us"]) > 0 for row in rows)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["mine", "nothing", "x.csv"], "model = 'nothing'"),
        (["mine", "llama2_7b", "x.csv", "--tp", "0"], "it cannot be read"),
        (["mine", "llama2_7b"], "it cannot be read"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    words: list[str], problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))

    assert main(words) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line
