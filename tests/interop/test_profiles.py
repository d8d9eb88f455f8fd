"""Measured times in the formats of others, as rows of a table."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runners.user_files import with_texts
from xsim.errors import SpecError
from xsim.interop.aceso import aceso_rows
from xsim.interop.aicb import aicb_rows
from xsim.interop.amp import amp_rows
from xsim.interop.metis import metis_rows
from xsim.interop.profiles import Row, device_name
from xsim.interop.sailor import sailor_rows
from xsim.plan.compute.profile import Profile
from xsim.plan.profile import COLUMNS

SAILOR = {"2": {"1": {"0": [0.001, 0.002, 0.004], "1": [0.01, 0.02, 0.04], "2": [0.03, 0.04, 0.04], "3": [1, 2, 4]}}}
METIS = {
    "model": {"parameters": {"parameters_per_layer_bytes": [10, 20, 20, 50]}},
    "execution_time": {"layer_compute_total_ms": [1.0, 4.0, 6.0, 2.0], "optimizer_time_ms": 10.0},
}
ACESO = "op_name,fwd,bwd,in,out\nencoder-embedding,10,20,1,1\nenc-attention-qkv,30.5,60,1,1\nwhatever,1,1,1,1\n"
AICB = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1
4
grad_gather\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLGATHER\t64\t100
attention_layer\t-1\t5000\tALLREDUCE\t32\t9000\tALLREDUCE\t32\t1\tNONE\t0\t100
attention_layer\t-1\t7000\tALLREDUCE\t32\t9000\tALLREDUCE\t32\t1\tNONE\t0\t100
mlp_layer\t-1\t8000\tALLREDUCE\t32\t8000\tALLREDUCE\t32\t6000\tNONE\t0\t100
"""


def rounded(rows: Iterator[Row]) -> list[tuple[object, ...]]:
    return [(*place, round(time_us, 6)) for *place, time_us in rows]


def test_layers_of_sailor_between_the_first_and_the_last_count_on_average() -> None:
    assert rounded(sailor_rows(json.dumps(SAILOR), "v100_16", "x")) == [
        ("v100_16", "embedding", "forward", 1, 2, 0, 1e3),
        ("v100_16", "transformer", "forward", 1, 2, 0, 2e4),
        ("v100_16", "head", "forward", 1, 2, 0, 1e6),
        ("v100_16", "embedding", "backward", 1, 2, 0, 2e3),
        ("v100_16", "transformer", "backward", 1, 2, 0, 3e4),
        ("v100_16", "head", "backward", 1, 2, 0, 2e6),
        ("v100_16", "embedding", "update", 1, 0, 0, 4e3),
        ("v100_16", "transformer", "update", 1, 0, 0, 4e4),
        ("v100_16", "head", "update", 1, 0, 0, 4e6),
    ]


def test_metis_times_both_passes_at_once_and_one_optimizer() -> None:
    """10 ms for 100 bytes."""
    assert rounded(metis_rows(json.dumps(METIS), "a100_80", 4, 2, "x")) == [
        ("a100_80", "embedding", "forward_backward", 4, 2, 0, 1e3),
        ("a100_80", "transformer", "forward_backward", 4, 2, 0, 5e3),
        ("a100_80", "head", "forward_backward", 4, 2, 0, 2e3),
        ("a100_80", "embedding", "update", 4, 0, 0, 1e3),
        ("a100_80", "transformer", "update", 4, 0, 0, 2e3),
        ("a100_80", "head", "update", 4, 0, 0, 5e3),
    ]


def test_operators_of_aceso_have_names_of_ours() -> None:
    assert rounded(aceso_rows(ACESO, "gh200", 2, 4, "x")) == [
        ("gh200", "embedding", "forward", 2, 4, 0, 10.0),
        ("gh200", "embedding", "backward", 2, 4, 0, 20.0),
        ("gh200", "qkv", "forward", 2, 4, 0, 30.5),
        ("gh200", "qkv", "backward", 2, 4, 0, 60.0),
    ]


def array(values: list[float]) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array(values))
    return out.getvalue()


def test_layers_of_amp_are_all_but_six_and_its_backward_is_twice_its_forward(tmp_path: Path) -> None:
    measured = array([0.25, 0.0, 0.5, 1.0, 1.5, 0.0, 0.0, 2.0, 0.0])
    (tmp_path / "gpt2_G4_2.npy").write_bytes(measured)

    assert list(amp_rows(measured, "t4", 2, "x")) == [
        ("t4", "embedding", "forward", 2, 1, 0, 0.25e6),
        ("t4", "embedding", "backward", 2, 1, 0, 0.5e6),
        ("t4", "transformer", "forward", 2, 1, 0, 1e6),
        ("t4", "transformer", "backward", 2, 1, 0, 2e6),
        ("t4", "head", "forward", 2, 1, 0, 2e6),
        ("t4", "head", "backward", 2, 1, 0, 4e6),
    ]
    assert "t4,transformer,forward,2,1,,1000000.0" in text_of(tmp_path / "gpt2_G4_2.npy").splitlines()


def test_blocks_of_aicb_count_on_average_over_their_items() -> None:
    assert rounded(aicb_rows(AICB, "a100_80", 1, "x")) == [
        ("a100_80", "attention_block", "forward", 8, 1, 0, 6.0),
        ("a100_80", "attention_block", "backward", 8, 1, 0, 9.0),
        ("a100_80", "mlp_block", "forward", 8, 1, 0, 8.0),
        ("a100_80", "mlp_block", "input_gradient", 8, 1, 0, 8.0),
        ("a100_80", "mlp_block", "weight_gradient", 8, 1, 0, 6.0),
    ]


READERS: list[Callable[[str], Iterator[Row]]] = [
    lambda text: sailor_rows(text, "d", "x"),
    lambda text: metis_rows(text, "d", 1, 1, "x"),
    lambda text: aceso_rows(text, "d", 1, 1, "x"),
    lambda text: aicb_rows(text, "d", 1, "x"),
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "[]",
        "{}",
        '{"1": {"1": {"0": [1, 2]}}}',
        '{"1": {"1": {"0": [1, 2, 3], "1": [1, 2, 3], "2": [1, 2, "x"]}}}',
        '{"1": 2}',
        json.dumps(METIS | {"model": 3}),
        json.dumps(METIS | {"execution_time": {"layer_compute_total_ms": [1], "optimizer_time_ms": 1}}),
        "a,b\nenc-attention-qkv,fast,2\n",
        "a,b\nenc-attention-qkv,-1,2\n",
        AICB.replace("5000", "soon"),
        AICB.splitlines()[0],
        "[" * 100_000,
    ],
)
def test_what_is_no_profile_is_refused_in_one_line(reader: Callable[[str], Iterator[Row]], text: str) -> None:
    with pytest.raises(SpecError, match=r"^x"):
        list(reader(text))


def text_of(path: Path) -> str:
    found = with_texts({"compute": {"name": "profile", "path": str(path), "text": ""}})["compute"]
    assert isinstance(found, dict)
    assert found["path"] == ""
    Profile(text=found["text"])
    return str(found["text"])


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("A100-40/profile.json", json.dumps(SAILOR), "a100_40,embedding,forward,1,2,,1000.0"),
        ("DeviceType.A100_tp4_bs2.json", json.dumps(METIS), "a100_80,transformer,forward_backward,4,2,,5000.0"),
        ("GH-96/fp16/GPT_1_mbs4_tp2_algo0.csv", ACESO, "gh200,qkv,forward,2,4,,30.5"),
        ("G13B_tp8_pp1_mbs1_A100.txt", AICB, "a100_80,mlp_block,forward,8,1,,8.0"),
        ("mine.csv", ",".join(COLUMNS) + "\nmine,qkv,forward,1,1,,3\n", "mine,qkv,forward,1,1,,3"),
    ],
)
def test_a_file_is_known_by_its_name(tmp_path: Path, name: str, text: str, row: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

    assert row in text_of(path).splitlines()


def test_a_folder_is_all_its_files_and_means_of_what_they_repeat(tmp_path: Path) -> None:
    for batch, optimizer_ms in ((1, 10.0), (2, 30.0)):
        execution = {"layer_compute_total_ms": [1.0, 4.0, 6.0, 2.0], "optimizer_time_ms": optimizer_ms}
        (tmp_path / f"DeviceType.A100_tp4_bs{batch}.json").write_text(json.dumps(METIS | {"execution_time": execution}))
    (tmp_path / "readme.txt").write_text("about it")

    lines = text_of(tmp_path).splitlines()

    assert {line.split(",")[4] for line in lines if "forward_backward" in line} == {"1", "2"}
    assert "a100_80,transformer,update,4,,,4000.0" in lines


def test_parquet_is_read_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    columns = zip(COLUMNS, ("mine", "qkv", "forward", 1, 2, None, 3.5), strict=True)
    pq.write_table(pa.table({name: [value] for name, value in columns}), path)

    assert text_of(path) == "device,operator,pass,tp,micro_batch,seq,time_us\nmine,qkv,forward,1,2,,3.5\n"


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("mine.parquet", b"PAR1", "it is no Parquet table"),
        ("mine.csv", b"\xff", "it is no text"),
        ("A100-40/profile.json", b"{", "it is no JSON"),
        ("gpt2_G4_2.npy", b"\x93NUMPY", "it is no array"),
        ("gpt2_G4_2.npy", array([1.0] * 6), "it is no row of 7 numbers or more"),
        ("gpt2_G4_2.npy", array([1.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0]), "it has what is no time"),
        ("empty", None, "no file in it has a name of Metis, Sailor, AMP, Aceso or AICB"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str, data: bytes | None, problem: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if data is None:
        path.mkdir()
    else:
        path.write_bytes(data)

    with pytest.raises(SpecError, match=f"^compute.path.*{problem}"):
        text_of(path)


def test_devices_have_the_names_of_the_library() -> None:
    assert (device_name("RTX-3090"), device_name("mine")) == ("rtx_3090", "mine")
