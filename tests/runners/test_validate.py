"""Published runs are replayed: their rows as experiments, how far off these are, and the command that reports it."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.validation import Case, Group, grouped
from runners import pool
from runners.cli import read_command
from runners.points import Point
from runners.pool import Finished, Limits
from runners.published import plan
from runners.published.machines import Unknown
from runners.published.measures import measured_s
from runners.published.plan import Planned, fits, plan_rows
from runners.published.replay import replay
from runners.published.rows import MIXED, RUNS, Row, read_rows
from runners.published.sections import sections
from runners.published.sources import read_sources, source_of
from runners.validate import BOUNDS, OWN, VARIABLE, bounds, cases, fastest, main, missed
from runners.worker import simulate
from xsim.errors import SpecError

# Mean absolute errors of the project's rows when this was last looked at, and two points: a change of the model that
# makes a source worse shows here. Lower them when it gets better.
NO_WORSE = {
    "vtrain_multi": 0.066,
    "korthikanti_2022": 0.054,
    "megatron_sc21": 0.035,
    "mcore_h100": 0.079,
    "simumax_b200": 0.085,
    "dgxc_pretrain": 0.067,
    "bigscience_a100": 0.14,
    "sailor_clariden": 0.585,
    "sailor_mit": 0.525,
    "amp_het_cluster": 0.331,
}
NO_WORSE_MEMORY = {"simumax_b200": 0.035}
HELD = (
    "vtrain_multi",
    "korthikanti_2022",
    "megatron_sc21",
    "simumax_b200",
    "dgxc_pretrain",
)  # sources whose bound the project's rows meet
LARGEST = 64  # devices of rows that every test run predicts; a soak run predicts all
LARGE = {"bigscience_a100"}  # sources without any
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def rows_by_name() -> dict[str, Row]:
    return {row.name: row for row in read_rows([OWN / RUNS, OWN / MIXED])}


ROWS = rows_by_name()
SOURCES = {row.group: source_of(row.group, read_sources()[0]) for row in ROWS.values()}
MODELS = read_sources()[1]


def simulated(points: Iterator[Point]) -> dict[str, dict[str, Any]]:
    """As rows of a store."""
    found: dict[str, dict[str, Any]] = {}
    for point in points:
        if point.key not in found:
            outcome = simulate(point.config)
            told = {"key": point.key, "status": outcome["status"], "reason": outcome["reason"]}
            found[point.key] = {**told, "wall_s": outcome["wall_s"], **outcome["metrics"]}
    return found


@pytest.fixture(scope="module")
def groups() -> Mapping[str, Group]:
    """Rows of the project, predicted; in a soak run all of them."""
    command = read_command([], "")
    rows = [row for row in ROWS.values() if SOAK or row.whole["num_gpus"] <= LARGEST]
    planned, _ = plan_rows(rows, command)
    trials = simulated(point for each in planned for point in each.trials)
    planned = fastest(planned, trials)
    results = simulated(each.point for each in planned if each.point)
    return {group.name: group for group in grouped(cases(planned, results))}


def test_every_row_of_the_project_is_predicted(groups: Mapping[str, Group]) -> None:
    assert {name: group.left_out for name, group in groups.items() if group.left_out} == {}
    assert set(groups) | LARGE == set(NO_WORSE)
    assert sum(len(group.shown) for group in groups.values()) >= 28


def test_the_project_has_a_few_dozen_rows_of_every_source_with_their_addresses() -> None:
    assert 36 <= len(ROWS) <= 60
    assert {row.group for row in ROWS.values()} == set(NO_WORSE)
    assert all(row.texts["source"].startswith("https://") for row in ROWS.values())


@pytest.mark.parametrize("name", [name for name in NO_WORSE if SOAK or name not in LARGE])
def test_predictions_are_no_worse_than_they_were(groups: Mapping[str, Group], name: str) -> None:
    assert (groups[name].mape or 1) < NO_WORSE[name]
    if name in NO_WORSE_MEMORY:
        assert (groups[name].memory_mape or 1) < NO_WORSE_MEMORY[name]


@pytest.mark.parametrize("name", HELD)
def test_bounds_that_hold_are_kept(groups: Mapping[str, Group], name: str) -> None:
    (asked,) = (bound for bound in bounds()[0] if fnmatchcase(name, bound.name))

    assert asked.time is not None
    assert (groups[name].mape or 1) < asked.time


def test_the_documentation_shows_the_bounds_that_are_missed() -> None:
    listed = yaml.safe_load(BOUNDS.read_text(encoding="utf-8"))["missed"]
    names = ("group", "bound", "reached", "why")
    page = (Path(__file__).parents[2] / "docs" / "model.md").read_text(encoding="utf-8")
    table = page.partition("## Bounds that are missed")[2]

    shown = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]

    assert shown == [[f"`{each['group']}`", *(str(each[name]) for name in names[1:])] for each in listed]
    assert missed() == {each["group"]: each["why"] for each in listed}
    assert {name for name in NO_WORSE if name not in HELD} >= set(missed())


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


def changed(name: str, **texts: str) -> Row:
    """A row with other cells."""
    row = ROWS[name]
    whole = {**row.whole, **{key: int(text) for key, text in texts.items() if text.isdecimal()}}
    whole = {key: count for key, count in whole.items() if texts.get(key, "x")}
    return replace(row, texts={**row.texts, **texts}, whole=whole)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ({"cp": "2"}, "its degrees do not make its number of devices"),
        ({"notes": "EP=8; more"}, "the experts of its model are not known"),
        ({"notes": "LoRA"}, "LoRA is not simulated"),
        ({"notes": "SUSPECT: copied"}, "the table flags it: SUSPECT"),
        ({"precision": "FP8"}, "precision FP8 is not simulated"),
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

    assert planned == Planned(
        row=planned.row, reason="nothing is known of its source's hosts and software", step_s=None
    )


def test_flops_are_counted_as_the_source_counts_them() -> None:
    """GPT-3 175B on 1,024 A100: 138 TFLOP/s with recomputation are the 32 s that its source states beside them."""
    facts = {"tied": True, "bias": True, "learned_positions": True, "gated": False, "norm": "layernorm"}
    shape = {"layers": 96, "hidden": 12288, "heads": 96, "kv_heads": 96, "ffn": 49152, "vocab": 51200, "seq_len": 2048}
    model = {"name": "gpt", **shape, **facts}
    row = replace(ROWS["megatron_apr2021_1.7B"], whole={"num_gpus": 1024, "gbs": 1536}, floats={"tflops_per_gpu": 138})

    recomputed, plain = measured_s(row, model, "recomputed"), measured_s(row, model, "model")

    assert recomputed == pytest.approx(32, rel=0.02)
    assert plain == pytest.approx(24, rel=0.02)


def table(path: Path, *names: str, **texts: str) -> Path:
    """Some rows of the project in a file, the cells of all of them changed."""
    chosen = [{**ROWS[name].texts, **texts} for name in names]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(chosen[0]))
        writer.writeheader()
        writer.writerows(chosen)
    return path


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", "it has no column id, source, group"),
        (None, r"pp = 'two': line 2 (vtrain_multi_0003): a whole number above 0 belongs here"),
        ("missing", "it cannot be read"),
    ],
)
def test_a_bad_table_is_one_line(
    text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    if text is None:
        table(path, "vtrain_multi_0003", pp="two")
    elif text != "missing":
        path.write_text(text)

    assert main(["--rows", str(path), f"out={tmp_path}"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


def test_a_row_with_too_many_cells_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "rows.csv", "vtrain_multi_0003")
    path.write_text(path.read_text().replace("GPT-3.6B", "GPT,3.6B"))

    assert main(["--rows", str(path), f"out={tmp_path}"]) == 2
    assert "line 2 = " not in (line := capsys.readouterr().err)
    assert "it has another number of cells than the first line" in line


def test_an_environment_without_tables_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    assert main([]) == 2
    assert "there is no measured/training_runs.csv in it" in capsys.readouterr().err


def in_process(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
    """The pool without Ray."""
    for point in points:
        yield Finished(point, simulate(point.config), 0, 1)


@pytest.mark.parametrize(("share", "code"), [(1.0, 0), (0.4, 1)])
def test_the_command_writes_a_page_and_fails_where_a_bound_is_passed(
    share: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    name = "korthikanti_t5_megatron-22B_full"
    (planned,), _ = plan_rows([ROWS[name]], read_command([], ""))
    (result,) = simulated(point for point in (planned.point,) if point).values()
    rows = table(tmp_path / "a.csv", name, step_time_s=str(share * result["training_time_s"]))
    others = table(tmp_path / "b.csv", "vtrain_multi_0003", notes="LoRA")

    assert main(["--rows", str(rows), "--rows", str(others), f"out={tmp_path}"]) == code

    page = (tmp_path / "validate" / "report.md").read_text()
    told = capsys.readouterr()
    assert "1 row compared, 1 left out" in told.out
    assert f"| {'ok' if code == 0 else 'passed'} |" in page
    assert "| vtrain_multi | 1 | LoRA is not simulated |" in page
    assert (tmp_path / "validate" / "figures" / "korthikanti_2022.png").stat().st_size > 10_000
    assert ("the bounds of korthikanti_2022" in told.err) == bool(code)


def test_kernels_and_collectives_are_judged_where_their_tables_are(reference_data: Path, tmp_path: Path) -> None:
    kernels, collectives = sections(reference_data / "measured", {"kernels": 0.05, "collectives": 0.10})

    assert "kernels (product) of a100_80" in kernels.passed
    assert "kernels (product) of h200" not in kernels.passed
    assert [line.split("|")[1].strip() for line in collectives.lines[5:]] == ["ampere", "hopper", "blackwell", "ada"]
    assert collectives.passed == []
    assert list(sections(tmp_path, {})) == []
    assert list(sections(None, {})) == []


def case(name: str, measured_s: float, predicted_s: float | None, **more: Any) -> Case:
    return Case(
        name=name,
        group="a",
        source="",
        sweep="",
        deployed="",
        figures={},
        measured_s=measured_s,
        predicted_s=predicted_s,
        **more,
    )


def test_errors_of_a_group() -> None:
    (group,) = grouped([case("long", 2.0, 2.2), case("short", 2.0, 1.4), case("none", 2.0, None, reason="no")])

    assert group.errors == pytest.approx([0.1, -0.3])
    assert group.mape == pytest.approx(0.2)
    assert group.bias == pytest.approx(-0.1)
    assert [each.name for each in group.worst] == ["short", "long"]
    assert group.left_out == {"no": 1}


@pytest.mark.parametrize("word", ["only=ffff", "shard=1/8", "copy_to=file:///nowhere.parquet"])
def test_what_only_a_sweep_knows_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--group", "simumax_b200", "dry_run=true", word]) == 2

    assert capsys.readouterr().err.startswith(f"error: {word.partition('=')[0]} = ")
