"""A row of a measured run is a point that does what the run did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners.cli import read_command
from runners.published import plan
from runners.published.machines import Unknown
from runners.published.measures import measured_s
from runners.published.plan import Planned, fits, plan_rows
from runners.published.replay import replay
from runners.published.rows import Row
from runners.validate import fastest
from tests.runners.measured_rows import MODELS, ROWS, SOURCES, changed
from xsim.errors import SpecError


def test_devices_of_measured_runs_differ() -> None:
    """The slowest of many is slower than the one that the library describes; without noise none is."""
    (asked,), _ = plan_rows([ROWS["vtrain_multi_0003"]], read_command([], ""))
    (alike,), _ = plan_rows([ROWS["vtrain_multi_0003"]], read_command(["noise=none"], ""))

    assert asked.point is not None
    assert alike.point is not None
    assert (asked.point.labels["noise"], alike.point.labels["noise"]) == ("devices", "none")


def test_a_row_is_a_point_like_that_of_a_sweep() -> None:
    (planned,), _ = plan_rows([ROWS["vtrain_multi_0036"]], read_command([], ""))

    assert planned.point is not None
    config: Any = planned.point.config
    assert planned.step_s == 10.4348
    assert config["planner"]["tp"] == 8
    assert config["planner"]["pp"] == 2
    assert config["planner"]["recompute"] == "full"
    assert config["attention"] == "unfused"
    assert config["model"]["dropout"]
    assert config["cluster"]["hosts"][0]["count"] == 32
    assert planned.point.labels["cluster"] == "vtrain_multi"
    assert planned.point.labels["model"] == "GPT-18.4B"


def test_what_the_command_line_sets_holds_for_every_row() -> None:
    rows = [ROWS["vtrain_multi_0003"], ROWS["amp_het_cluster_01"]]

    planned, settings = plan_rows(rows, read_command(["network=analytic", "precision=bf16", "out=there"], ""))

    assert settings.out.name == "there"
    assert settings.timeout_s == 300
    assert plan_rows(rows, read_command(["timeout_s=7"], ""))[1].timeout_s == 7
    assert [each.point.config["precision"] for each in planned if each.point] == ["bf16", "bf16"]
    assert [each.point.labels["network"] for each in planned if each.point] == ["analytic", "analytic"]
    with pytest.raises(SpecError, match=r"^model = 'llama2_7b': the rows say that"):
        plan_rows(rows, read_command(["model=llama2_7b"], ""))


def test_a_placement_is_spelled_out_stage_by_stage() -> None:
    found = replay(ROWS["sailor_clariden_opt350_N4_D2"], SOURCES["sailor_clariden"], MODELS)

    (chosen,) = found.choices
    replicas = chosen["deployment"]["replicas"]
    assert [[stage["groups"][0]["ranks"] for stage in replica["stages"]] for replica in replicas] == [
        [[0, 1, 2, 3], [8, 9, 10, 11]],
        [[4, 5, 6, 7], [12, 13, 14, 15]],
    ]
    assert [stage["layers"] for stage in replicas[0]["stages"]] == [{"first": 0, "last": 11}, {"first": 12, "last": 25}]
    assert [host["count"] for host in chosen["cluster"]["hosts"]] == [4]


def test_units_before_the_first_layer_and_after_the_last_are_no_layers() -> None:
    found = replay(ROWS["amp_het_cluster_40"], SOURCES["amp_het_cluster"], MODELS)

    (chosen,) = found.choices
    (replica,) = chosen["deployment"]["replicas"]
    assert [tuple(stage["layers"].values()) for stage in replica["stages"]] == [(0, 5), (6, 11), (12, 17), (18, 25)]
    assert [(host["devices"][0]["device"], host["count"]) for host in chosen["cluster"]["hosts"]] == [
        ("v100_16", 3),
        ("t4", 1),
    ]


def test_what_a_source_tuned_is_tried_with_one_replica() -> None:
    row = ROWS["megatron_apr2021_3.6B"]

    found = replay(row, SOURCES["megatron_sc21"], MODELS)

    assert [chosen["planner.micro_batch"] for chosen in found.choices] == [1, 2, 4, 8, 16]
    assert {chosen["batch"] for chosen in found.choices} == {512}
    assert {(trial["batch"], trial["cluster"]["hosts"][0]["count"]) for trial in found.trials} == {(16, 1)}
    assert [trial["planner.micro_batch"] for trial in found.trials] == [1, 2, 4, 8, 16]


def test_times_that_a_source_has_measured_count_where_they_are(tmp_path: Path) -> None:
    row, other = ROWS["sailor_clariden_opt350_N4_D2"], ROWS["sailor_clariden_neo27_N4_D1"]
    folder = tmp_path / "planner_data" / "sailor" / "OPT-350"

    def compute(row: Row) -> object:
        (chosen,) = replay(row, SOURCES["sailor_clariden"], MODELS, tmp_path).choices
        return chosen.get("compute"), chosen.get("compute.path"), chosen.get("compute.collectives")

    assert compute(row) == (None, None, None)
    folder.mkdir(parents=True)
    assert compute(row) == ("profile", str(folder), "inside")
    assert compute(other) == (None, None, None)
    carried = tmp_path / "planner_data" / "sailor" / "GPT-Neo-2.7"
    carried.mkdir()
    assert compute(other) == ("scaled", str(carried), "inside")


def test_buckets_are_those_that_megatron_chooses() -> None:
    """40 million parameters of each of 2 ranks, in bf16; with 48 replicas 48 million, in fp32."""
    few, many = ROWS["dgxc_v25.04_nemotron4-15b-bf16_16h100_bf16_g64"], ROWS["mcore_h100_7.1B"]

    (of_few,) = replay(few, SOURCES["dgxc_pretrain"], MODELS).choices
    of_many = replay(many, SOURCES["mcore_h100"], MODELS).choices

    assert of_few["planner.bucket"] == "160 MB"
    assert {chosen["planner.bucket"] for chosen in of_many} == {"384 MB"}


def test_runs_in_fp8_are_those_of_any_granularity_of_scales() -> None:
    for word in ("FP8", "FP8-CS", "MXFP8", "FP8 (primary recipe; see footnote)"):
        (chosen,) = replay(
            changed("dgxc_v25.04_nemotron4-15b-fp8_16h100_fp8_g64", precision=word), SOURCES["dgxc_pretrain"], MODELS
        ).choices
        assert chosen["precision"] == "fp8"


def test_weights_are_sharded_where_the_row_says_so() -> None:
    sharded = changed("mbridge_25.11_pre-training_llama3_70b_64h100_fp8cs_g128_p8", notes="EP=1; FSDP=2; GA=64")
    whole = ROWS[sharded.name]

    zeros = [replay(row, SOURCES["mbridge_dense"], MODELS).choices[0]["planner.zero"] for row in (sharded, whole)]

    assert zeros == [3, 1]


def test_the_vocabulary_is_that_of_the_row_or_the_model_or_the_source() -> None:
    named, large = "dgxc_v25.04_nemotron4-15b-fp8_16h100_fp8_g64", "nemo_pretrain"

    assert replay(ROWS[named], SOURCES["dgxc_pretrain"], MODELS).model["vocab"] == 256000
    assert replay(changed(named, model="GPT3-20B"), SOURCES[large], MODELS).model["vocab"] == 51200
    assert replay(changed(named, vocab="1000"), SOURCES["dgxc_pretrain"], MODELS).model["vocab"] == 1000


def test_older_software_of_a_source_has_not_all_that_it_has_now() -> None:
    row = changed("megatron_apr2021_1.7B", pp="4", num_gpus="32", gbs="512", dp="8")
    older = replace(row, texts={**row.texts, "source": "https://example.org/images/cases_jan2021.png"})

    now, then = (replay(each, SOURCES["megatron_sc21"], MODELS).choices for each in (row, older))

    assert {chosen["planner.chunks"] for chosen in now} == {1, 2, 3, 6}
    assert {chosen["planner.chunks"] for chosen in then} == {1}


def test_the_fastest_trial_whose_whole_fits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS["megatron_apr2021_3.6B"]
    (planned,), _ = plan_rows([row], read_command([], ""))
    trials = {
        point.key: {"key": point.key, "status": "ok", "training_time_s": 10.0 - number}
        for number, point in enumerate(planned.trials)
    }

    def chosen() -> object:
        (settled,) = fastest([planned], trials)
        assert settled.point is not None
        return settled.point.config["planner"]["micro_batch"]  # type: ignore[index]

    assert planned.point is None
    assert chosen() == 16
    monkeypatch.setattr(plan, "fits", lambda point: point.config["planner"]["micro_batch"] < 8)
    assert chosen() == 4
    monkeypatch.setattr(plan, "fits", lambda point: False)
    assert chosen() == 16
    trials.clear()
    assert fastest([planned], trials)[0].choices == ()


def test_replicas_share_states_of_the_optimizer_that_one_alone_cannot_hold() -> None:
    (planned,), _ = plan_rows([changed("mcore_h100_7.1B", layers="60", mbs="")], read_command([], ""))

    assert fits(planned.choices[0])
    assert not fits(planned.trials[0])


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ({"cp": "2"}, "its degrees do not make its number of devices"),
        ({"notes": "EP=8; more"}, "the experts of its model are not known"),
        ({"notes": "LoRA"}, "LoRA is not simulated"),
        ({"notes": "SUSPECT: copied"}, "the table flags it: SUSPECT"),
        ({"precision": "NVFP4"}, "precision NVFP4 is not simulated"),
        ({"precision": "fp8 or fp4, see config"}, "precision FP8 is not simulated"),
        ({"heads": ""}, "it does not state heads"),
        ({"tp": ""}, "it does not state tp"),
        ({"mbs": ""}, "neither it nor its source states a micro-batch"),
        ({"dp": "5"}, "its degrees do not make its number of devices"),
        ({"gpu": "TPU"}, "no host with TPU is known"),
        ({"model": "ResNet"}, "the architecture of its model is not known"),
        ({"heads": "7"}, "7 heads do not divide a width of 3072"),
    ],
)
def test_what_cannot_be_replayed_says_why(texts: Mapping[str, str], why: str) -> None:
    with pytest.raises(Unknown, match=f"^{why}$"):
        replay(changed("vtrain_multi_0003", **texts), SOURCES["vtrain_multi"], MODELS)


def test_context_ranks_of_a_row_are_those_of_the_planner() -> None:
    (planned,), _ = plan_rows([ROWS["dgxc_v24.11.1_llama-3-1-70b-24-09-bf16_64h100_bf16_g128"]], read_command([], ""))

    assert planned.point is not None
    planner = planned.point.config["planner"]
    assert isinstance(planner, dict)
    assert {key: planner[key] for key in ("tp", "cp", "pp", "chunks")} == {"tp": 4, "cp": 2, "pp": 4, "chunks": 5}


def test_rows_of_an_unknown_source_are_left_out() -> None:
    (planned,), _ = plan_rows([changed("vtrain_multi_0003", group="mine")], read_command([], ""))

    reason = "nothing is known of its source's hosts and software: its group is not in sources.yaml"
    assert planned == Planned(row=planned.row, reason=reason, step_s=None)


def test_flops_are_counted_as_the_source_counts_them() -> None:
    """GPT-3 175B on 1,024 A100: 138 TFLOP/s with recomputation are the 32 s that its source states beside them."""
    facts = {"tied": True, "bias": True, "learned_positions": True, "gated": False, "norm": "layernorm"}
    shape = {"layers": 96, "hidden": 12288, "heads": 96, "kv_heads": 96, "ffn": 49152, "vocab": 51200, "seq_len": 2048}
    model = {"name": "gpt", **shape, **facts}
    row = replace(ROWS["megatron_apr2021_1.7B"], whole={"num_gpus": 1024, "gbs": 1536}, floats={"tflops_per_gpu": 138})

    recomputed, plain = measured_s(row, model, "recomputed"), measured_s(row, model, "model")

    assert recomputed == pytest.approx(32, rel=0.02)
    assert plain == pytest.approx(24, rel=0.02)
