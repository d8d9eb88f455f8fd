"""Plans are shown, compared with what they take, and written so that other commands and tools read them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.plan import main as redrawn
from runners.plan import KEYS, main
from runners.plan_files import FORMATS
from runners.run import main as run

SMALL = ["model=llama2_7b", "model.seq_len=64", "memory=report", "network=analytic"]
UNIFORM = "h100x4_a100x4_llama2_7b_uniform_tp2_pp2_dp2"
PLAN = {
    "model": "llama2_7b",
    "layers": 32,
    "gbs": 8,
    "name": "mine",
    "predicted_s": 0.02,
    "pipelines": [
        {
            "mbs": 2,
            "lbs": 5,
            "stages": [
                {"layers": [0, 20], "replicas": [{"type": "H100", "tp": 2, "count": 1}], "recompute": "full"},
                {"layers": [20, 32], "replicas": [{"type": "A100", "tp": 1, "count": 2}]},
            ],
        },
        {"mbs": 1, "micro_batches": 3, "stages": [{"layers": [0, 32], "replicas": [{"type": "A100", "tp": 2}]}]},
    ],
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_plan_of_a_file_is_shown_simulated_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.json").write_text(json.dumps(PLAN))

    assert main([*SMALL, "cluster=fig4", "from=plan.json"]) == 0

    told = capsys.readouterr()
    assert told.err.startswith("note: 5 samples do not divide into micro-batches of 2: rounded up to 3 of them, 6 ")
    assert "mine: llama2_7b on fig4, 9 samples\n" in told.out
    assert "| 0        |     0 | 0..20  | 2 x h100_80 |  2 |      1 |       2 |" in told.out
    assert "pipeline 0: 3 micro-batches of 2, 6 samples\npipeline 1: 3 micro-batches of 1, 3 samples\n" in told.out
    assert "Predicted by its maker: 0.0200" in told.out
    assert "| gradient sync after the last " in told.out
    assert "| computing " in told.out
    folder = Path("outputs/plan/fig4_llama2_7b_mine")
    assert (folder / "figures" / "plan.png").stat().st_size > 10_000
    (folder / "figures" / "plan.png").unlink()
    assert redrawn([str(folder)]) == 0
    assert capsys.readouterr().out == "Figure: outputs/plan/fig4_llama2_7b_mine/figures/plan.png\n"
    assert (folder / "figures" / "plan.png").is_file()
    assert redrawn(["elsewhere"]) == 2
    stages, passes = (pq.read_table(folder / f"{name}.parquet").to_pylist() for name in ("stages", "passes"))
    assert [(row["device"], row["copies"], row["recompute"]) for row in stages] == [
        ("h100_80", 1, "full in 20"),
        ("a100_40", 2, ""),
        ("a100_40", 1, ""),
    ]
    assert [row["micro_batch"] for row in passes if row["pipeline"] == 1 and row["pass"] == "F"] == [0, 1, 2]


def test_what_is_written_is_read_by_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.json").write_text(json.dumps(PLAN))
    assert main([*SMALL, "cluster=fig4", "from=plan.json", "simulate=false"]) == 0
    first = capsys.readouterr().out

    words = shlex.split(re.findall(r"\nDeployment: python -m runners.run (.*)\n", first)[0])
    assert {*SMALL, "cluster=fig4", "deployment=fig4_llama2_7b_mine"} < set(words)
    assert main([*words, "simulate=false", "out=again"]) == 0
    second = capsys.readouterr().out
    assert first.split("Deployment: ")[0] == second.split("Deployment: ")[0]
    assert (
        main(
            [
                *SMALL,
                "cluster=fig4",
                "from=outputs/plan/fig4_llama2_7b_mine/fig4_llama2_7b_mine.json",
                "simulate=false",
                "out=third",
            ]
        )
        == 0
    )
    assert (
        Path("outputs/plan/fig4_llama2_7b_mine/fig4_llama2_7b_mine.json").read_bytes()
        == Path("third/plan/fig4_llama2_7b_mine/fig4_llama2_7b_mine.json").read_bytes()
    )

    assert run(words) == 0
    (row,) = (pq.read_table(path).to_pylist()[0] for path in Path("outputs/run/detail").rglob("iterations.parquet"))
    assert row


def test_a_picture_has_as_many_pipelines_as_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 40 unlike pipelines, as HexiScale makes them of many devices, those that fit into 32 lanes."""
    unlike = [
        {"mbs": 1, "micro_batches": 1 + number, "stages": [{"layers": [0, 32], "replicas": [{"type": "h100_80"}]}]}
        for number in range(40)
    ]
    Path("many.json").write_text(json.dumps({"layers": 32, "name": "many", "pipelines": unlike}))

    assert main([*SMALL, "cluster=h100_16x8", "from=many.json", "simulate=false"]) == 0

    assert "pipeline 39: 40 micro-batches of 1, 40 samples\n" in capsys.readouterr().out
    height = int.from_bytes(Path("outputs/plan/h100_16x8_llama2_7b_many/figures/plan.png").read_bytes()[20:24])
    assert 3_000 < height < 6_000


def test_a_planner_is_asked_and_its_search_timed(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*SMALL, "cluster=h100x4_a100x4", "batch=8", "planner=uniform", "planner.tp=2", "planner.pp=2"]

    assert main(asked) == 0

    told = capsys.readouterr()
    assert "uniform_tp2_pp2_dp2: llama2_7b on h100x4_a100x4, 8 samples, found in " in told.out
    assert "| 0 (of 2 equal) |     1 | 17..33 | 2 x a100_" in told.out
    assert "its maker predicts nothing" in told.out
    arguments = Path(f"outputs/plan/{UNIFORM}/{UNIFORM}.args").read_text()
    assert arguments.startswith("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers 32 ")
    assert main([*asked[:-3], f"from=outputs/plan/{UNIFORM}/{UNIFORM}.args"]) == 0
    again = capsys.readouterr().out
    assert told.out.split("\n", 1)[1].split("Deployment: ")[0] == again.split("\n", 1)[1].split("Deployment: ")[0]


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        (
            ["model=llama2_7b", "cluster=h100x4_a100x4", "planner.tp=2", "planner.cp=2"],
            ["| pipeline | stage | layers | devices     | tp | cp | copies |", "| 4 x a100_40 |  2 |  2 |      1 |"],
        ),
        (
            ["model=mixtral_8x7b", "cluster=h100x4_a100x4", "planner.tp=1", "planner.ep=2", "planner.pp=2"],
            [
                "| pipeline       | stage | layers | devices     | tp | ep | copies |",
                "| 2 x a100_40 |  1 |  2 |      2 |",
            ],
        ),
    ],
)
def test_cuts_over_contexts_and_experts_are_shown_simulated_and_read_back(
    asked: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shared = ["model.seq_len=64", "memory=report", "network=analytic"]
    planned = [*shared, *asked, "batch=8", "planner=uniform"]

    assert main(planned) == 0

    told = capsys.readouterr()
    assert all(line in told.out for line in lines)
    assert re.search(
        r"note: cut over contexts or experts, in closed form it takes [\d.]+ s, not told in parts\n", told.err
    )
    assert "\nArguments of Megatron-LM: " in told.out
    assert "\nWhat the iteration waited for, one after another:\n" in told.out
    (folder,) = Path("outputs/plan").iterdir()
    for suffix in ("json", "args"):
        (file,) = folder.glob(f"*.{suffix}")
        assert main([*shared, *asked[:2], f"from={file}", "simulate=false", "out=again"]) == 0
        shown = capsys.readouterr().out.partition("\n")[2].partition("\n\n")[0]
        assert shown == told.out.partition("\n")[2].partition("\n\n")[0]


def test_the_given_deployment_is_no_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["planner=given", "simulate=false", "memory=report"]) == 0
    assert capsys.readouterr().out.startswith("fig4_7b: llama2_7b on fig4, 24 samples\n")
    assert main(["planner=given", "--cfg", "job"]) == 0
    assert "\nmodel:\n" in capsys.readouterr().out


def test_the_plan_of_the_page_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    Path("shown.json").write_text(shown)

    assert main(["cluster=fig4", "from=shown.json", "simulate=false", "memory=report"]) == 0

    told = capsys.readouterr()
    assert told.err == ""
    assert "two_pipelines: llama2_7b on fig4, 24 samples\n" in told.out
    assert all(f"| `{key}` |" in page for key in KEYS)
    assert all(f"| `{name}` |" in page for name in FORMATS)


def test_what_does_not_fit_is_shown_and_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["model=llama2_70b", "cluster=fig4", "batch=8", "planner=uniform", "planner.tp=1", "planner.pp=10"]

    assert main(words) == 2

    told = capsys.readouterr()
    assert "GB too little" in told.out
    assert told.err == "error: it does not fit; memory=report simulates it all the same\n"
    assert not Path("outputs/plan/fig4_llama2_70b_uniform_tp1_pp10_dp1/passes.parquet").exists()


def test_long_names_are_cut_in_folders() -> None:
    Path("plan.json").write_text(json.dumps(PLAN | {"name": "\u00e9" * 200}))

    assert main([*SMALL, "cluster=fig4", "from=plan.json", "simulate=false"]) == 0

    name = "fig4_llama2_7b_" + "\u00e9" * 52
    assert Path("outputs/plan", name, f"{name}.json").is_file()


def test_another_plan_of_the_name_stays(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cluster=fig4", "memory=report", "planner=uniform", "planner.tp=1", "planner.pp=5", "simulate=false"]
    for batch in (24, 8, 24, 8):
        assert main([*words, f"batch={batch}"]) == 0
    printed = re.findall(r"\nDeployment: python -m runners.run (.*)\n", capsys.readouterr().out)

    name = "fig4_llama2_7b_uniform_tp1_pp5_dp2"
    assert sorted(path.name for path in Path("outputs/plan").iterdir()) == [name, f"{name}_2"]
    assert [shlex.split(line)[-1] for line in printed] == 2 * [f"deployment={name}", f"deployment={name}_2"]
    assert printed[0].endswith(f" model=llama2_7b cluster=fig4 memory=report deployment={name}")


def test_memory_beyond_counting_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = {"mbs": 10**7, "micro_batches": 1, "stages": [{"layers": [0, 32], "replicas": [{"type": "A100"}]}]}
    Path("plan.json").write_text(json.dumps({"layers": 32, "pipelines": [pipeline]}))

    words = ["cluster=fig4", "from=plan.json", "simulate=false", "memory=report", "model.seq_len=1000000"]
    assert main(["model=llama2_7b", *words]) == 2

    assert capsys.readouterr().err.startswith("error: micro_batch = 10000000: a stage of it needs about ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["from=none.json"], "error: from = 'none.json': there is no such file; write the path of one"),
        (
            ["from=odd.txt"],
            "error: from = 'odd.txt': it shows no sign of any format; say which it is: format=json|metis",
        ),
        (["from=odd.txt", "format=csv"], "error: format = 'csv': there is no such format; choose one of json, metis"),
        (["from=odd.txt", "format=json"], "error: odd.txt = 'nothing\\n': it is no JSON: "),
        (["from=odd.txt", "planner=uniform"], "error: planner = '': the plan comes from a file; leave out planner, or"),
        (["from=odd.txt", "deployment=fig4_7b"], "error: deployment = '': the plan comes from a file; leave out "),
        (["which=2"], "error: which = '2': it says something of a file, and there is none; write from=FILE"),
        (["from=odd.txt", "devices=T4"], "error: devices = 'T4': it cannot be read; write such as T4:t4,A100:a100_80"),
        (["from=odd.txt", "micro_batch=0"], "error: micro_batch = '0': it is no number of samples; write 1 or more"),
        (["simulate=no"], "error: simulate = 'no': it is neither; write true or false"),
        (["planner=uniform"], "error: batch = None: no deployment says how many samples to train; write batch=64, say"),
        (
            ["cluster=h100x4_a100x4", "planner=uniform", "planner.tp=4", "batch=10000000", "memory=report"],
            "error: batch = 10000000: that makes more than 10000000 forward and backward passes to simulate; lower it",
        ),
        (["planner=metis", "batch=1000000000"], "error: batch = 1000000000: it must be 10000000 or less; write 100"),
        (
            ["planner=uniform", "model=mixtral_8x7b", "model.experts=1000000", "batch=8"],
            "error: model.experts = 1000000: it must be 10000 or less; write 10000 or less",
        ),
        (["model.layers=100000"], "error: model.layers = 100000: it must be 1000 or less; write 1000 or less"),
        (
            [
                "model.seq_len=1000000000",
                "planner=uniform",
                "planner.tp=1",
                "batch=10",
                "network=analytic",
                "memory=report",
            ],
            "error: model = 'llama2_7b': an iteration may take more than 27 days, too long to count; choose a ",
        ),
        (["dry_run=true"], "error: dry_run = True: a plan is always shown; write simulate=false"),
        (
            [
                "planner=uniform",
                "planner.tp=5",
                "planner.chunks=2",
                "batch=2",
                "schedule=interleaved",
                "simulate=false",
            ],
            "error: deployment.replicas[0].stages[0].layers = [range(0, 17), range(17, 34)]: virtual stages cannot be ",
        ),
        (["from=broken.json"], "error: broken.json = '{\"a\": ': it is no JSON: "),
        (["from=one.args", "which=3"], "error: which = '3': the file has one plan; leave it out"),
        (["from=huge.json"], "error: from = 'huge.json': it has more than 64 MB; name the file of a plan"),
        (["from=odd.txt", f"micro_batch={'9' * 5000}"], "error: micro_batch = '9"),
        (["which="], "error: command line = 'which=': it cannot be read; write which=..., of several plans"),
    ],
)
def test_what_cannot_be_asked(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.txt").write_text("nothing\n")
    Path("broken.json").write_text('{"a": ')
    Path("one.args").write_text("--tensor-model-parallel-size 1 --pipeline-model-parallel-size 5")
    with Path("huge.json").open("wb") as file:
        file.truncate(65 * 10**6)

    assert main(words) == 2

    assert capsys.readouterr().err.splitlines()[-1].startswith(message), "lines before it tell how far it is"
