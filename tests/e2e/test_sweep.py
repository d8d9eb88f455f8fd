"""A small sweep from command line to tables and MLflow, and what a second start does."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

import analysis
from analysis import compare
from runners import mlflow_writer, pool, sweep, track
from runners.options import offered
from runners.points import Point
from runners.pool import Finished, Limits
from runners.store import VOLATILE, Store
from runners.track import Tracker
from tests.runners.in_process import in_process
from tests.runners.mlflow_stores import WriterThread

GRID = ["network=analytic", "reshard=lcm,hetauto"]


def forbidden(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
    raise AssertionError(f"{len(points)} points are run again")
    yield None


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outputs"


def runs(out: Path) -> tuple[Any, list[Any]]:
    """The parent run and its children."""
    client = MlflowClient(f"sqlite:///{out / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name != "Default"]
    everything = list(client.search_runs([experiment.experiment_id]))
    (parent,) = [run for run in everything if "xsim.sweep" in run.data.tags]
    children = [run for run in everything if "xsim.key" in run.data.tags]
    assert len(everything) == 1 + len(children)
    assert all(run.data.tags["mlflow.parentRunId"] == parent.info.run_id for run in children)
    return parent, children


def test_rows_and_runs_and_a_repeat(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sweep.main([*GRID, "num_workers=2"]) == 0

    shown = capsys.readouterr()
    assert "| fig4    | llama2_7b |" in shown.out
    assert "runners.ui" in shown.out
    assert f"Figure:  {out / 'adhoc' / 'figures' / 'by_reshard.png'}\n" in shown.out
    table = analysis.load(out / "adhoc")
    assert table["reshard"].to_pylist() == ["hetauto", "lcm"]
    assert table["status"].to_pylist() == ["ok", "ok"]
    assert json.loads((out / "adhoc" / "status.json").read_text())["done"] == {"ok": 2}
    parent, children = runs(out)
    assert parent.info.status == "FINISHED"
    logged = {run.data.tags["xsim.key"]: run for run in children}
    for row in table.to_pylist():
        run = logged[row["key"]]
        assert run.info.status == "FINISHED"
        for name in ("training_time_s", "bubble_time_s", "idle_time_s", "bubble_time_max_s", "fits"):
            assert run.data.metrics[name] == row[name]
        assert run.data.params["reshard"] == row["reshard"]
        config = Path(run.info.artifact_uri.removeprefix("file://")) / "config.json"
        assert json.loads(config.read_text()) == json.loads(row["config_json"])

    monkeypatch.setattr(pool, "finished", forbidden)
    assert sweep.main([*GRID, "num_workers=1"]) == 0
    assert analysis.load(out / "adhoc").equals(table)
    assert len(runs(out)[1]) == 2

    (out / "adhoc" / "tracked.json").unlink()  # the journal is a convenience: the tags decide
    unfinished = children[0].info.run_id
    MlflowClient(f"sqlite:///{out / 'mlflow.db'}").update_run(unfinished, status="RUNNING")  # as a crash leaves it
    assert sweep.main(GRID) == 0
    replaced = runs(out)[1]
    assert [run.info.status for run in replaced] == ["FINISHED", "FINISHED"]
    assert unfinished not in [run.info.run_id for run in replaced]
    assert children[1].info.run_id in [run.info.run_id for run in replaced]

    monkeypatch.setattr(pool, "finished", in_process)
    assert sweep.main([*GRID, "out=again", "tracking=none"]) == 0
    again = analysis.load(out.parent / "again" / "adhoc")
    assert again.drop_columns(VOLATILE).equals(table.drop_columns(VOLATILE))
    assert not (out.parent / "again" / "mlflow.db").exists()


PART = {  # of a grid, to be quick
    "eth_allreduce": ["cluster=eth_b2_b4", "model=gpt3_350m"],
    "hetero_llama_packets": ["cluster=h100x4_a100x4", "model=llama2_7b"],
    "packet_vs_flow": ["cluster.hosts.0.count=8"],
    "layerwise": ["network=flow,analytic", "deployment=b200x2_h200x4_7b"],
    "paper_baselines": ["deployment=xsim_testbed_nvlink_7b"],
    "paper_collectives": ["cluster=h200x8", "network=flow"],
}
BY = {  # what else than strategies a grid compares
    "schedules": "schedule",
    "packet_vs_flow": "network",
    "layerwise": "network",
    "paper_baselines": "estimate",
    "paper_collectives": "point",
}


def _of_plans(grid: str) -> bool:
    return grid in OF_PLANS or grid.startswith("eth_")


# Grids that compare plans, whose searches take long; tests/runners has a point of each.
OF_PLANS = ("failures", "mismatch", "moe", "planners_nvidia")


@pytest.mark.parametrize("grid", [each for each in offered("grid") if each in PART or not _of_plans(each)])
def test_every_grid_ends_in_tables_and_a_figure(
    grid: str, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    by = BY.get(grid, "reshard")

    assert (
        sweep.main([f"+grid={grid}", *PART.get(grid, ["cluster=h100x4_a100x4", "network=flow"]), "tracking=none"]) == 0
    )

    shown = capsys.readouterr().out
    assert "training time [s]" in shown
    compared = set(analysis.load(out / grid)[by].to_pylist())
    assert ("sync overhead of lcm" in shown) == ("lcm" in compared)
    figure = out / grid / "figures" / f"by_{by}.png"
    assert f"Figure:  {figure}\n" in shown
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert f"analysis.compare {out / grid}\n" in shown


def test_a_reused_run_is_compared_under_the_names_of_the_new_sweep(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    common = ["network=analytic", "tracking=none"]
    assert sweep.main(["reshard=lcm", "deployment.zero=0,1", *common]) == 0
    capsys.readouterr()

    assert sweep.main(["reshard=lcm,hetauto", *common]) == 0
    swept = capsys.readouterr().out
    assert compare.main([str(out / "adhoc")]) == 0

    for shown in (swept, capsys.readouterr().out):
        header = shown.splitlines()[1].replace(" ", "")
        assert header == "|cluster|model|lcm|hetauto|fastest|slowest|"
        assert "deployment.zero" not in shown


def test_runs_of_a_deleted_database_leave_nothing(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    left = out / "mlflow-artifacts" / "adhoc" / "some run" / "artifacts" / "config.json"
    left.parent.mkdir(parents=True)
    left.touch()
    (out / "mlflow-artifacts" / "note.txt").touch()

    assert sweep.main(GRID) == 0

    _, children = runs(out)
    folders = {path.name for path in (out / "mlflow-artifacts" / "adhoc").iterdir()}
    assert folders == {run.info.run_id for run in children}
    assert (out / "mlflow-artifacts" / "note.txt").exists()


def test_a_store_that_does_not_answer_costs_a_warning(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    def refuses(_uri: str) -> None:
        raise ConnectionError("nobody is there")

    def close(tracker: Tracker) -> None:
        shown.append(capsys.readouterr().out)
        real(tracker)

    real = Tracker.close
    monkeypatch.setattr(pool, "finished", in_process)
    monkeypatch.setattr(track, "writer", WriterThread)
    monkeypatch.setattr(mlflow_writer, "open_client", refuses)
    monkeypatch.setattr(Tracker, "close", close)

    assert sweep.main([*GRID, "tracking.uri=http://127.0.0.1:1"]) == 0

    assert "| fig4    | llama2_7b |" in shown[0], "the result does not wait for MLflow"
    assert "warning: MLflow has not all runs: ConnectionError: nobody is there" in capsys.readouterr().err
    assert len(analysis.load(out / "adhoc")) == 2


def test_a_disk_that_is_full_is_one_line(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_store: Store, _row: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pool, "finished", in_process)
    monkeypatch.setattr(Store, "write", full)

    assert sweep.main(GRID) == 1

    assert capsys.readouterr().err.endswith("error: [Errno 28] No space left on device\n")
    assert runs(out)[0].info.status == "FAILED"


def test_an_interrupted_sweep_goes_on_where_it_was(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(points: Sequence[Point], limits: Limits) -> Generator[Finished | None]:
        yield next(in_process(points, limits))
        raise KeyboardInterrupt

    def rest(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        assert len(points) == 1
        return in_process(points, limits)

    monkeypatch.setattr(pool, "finished", interrupted)
    assert sweep.main([*GRID, "tracking=none"]) == 130
    assert len(analysis.load(out / "adhoc")) == 1
    assert json.loads((out / "adhoc" / "status.json").read_text())["state"] == "interrupted"

    monkeypatch.setattr(pool, "finished", rest)
    assert sweep.main([*GRID, "tracking=none"]) == 0
    assert len(analysis.load(out / "adhoc")) == 2


def test_an_interruption_before_the_first_result_is_quiet(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        yield None
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "finished", interrupted)

    assert sweep.main([*GRID, "tracking=none"]) == 130

    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("interrupted: 0 of 2 are done; the same command runs the rest\n")


def test_a_narrower_sweep_and_a_newer_simulator(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    assert sweep.main([*GRID, "tracking=none"]) == 0
    assert "adhoc: 2 points, 0 already there\n" in capsys.readouterr().err

    assert sweep.main(["network=analytic", "reshard=hetauto", "seed=0,1", "tracking=none"]) == 0

    status = json.loads((out / "adhoc" / "status.json").read_text())
    assert (status["state"], status["total"], status["done"]) == ("finished", 2, {"ok": 2})
    assert status["pid"] == os.getpid()
    assert 0 <= time.time() - status["noted_unix_s"] < 60
    assert compare.main([str(out / "adhoc"), "--baseline", "lcm"]) == 2
    assert "--baseline = 'lcm': nothing that is compared has that name; choose one of" in capsys.readouterr().err
    assert compare.main([str(out / "adhoc")]) == 0
    assert "1 row of earlier sweeps not shown; --all shows everything" in capsys.readouterr().out

    monkeypatch.setattr("runners.resolve.code_hash", lambda: "newer")
    assert sweep.main([*GRID, "tracking=none"]) == 0
    changed = "0 already there; the simulator's code has changed since: 3 rows of an earlier version hidden"
    assert changed in capsys.readouterr().err


def test_contradictions_and_misfits_are_rows(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    words = ["network=analytic", "model=llama2_7b,llama2_13b", "deployment=fig4_7b,fig4_13b", "tracking=none"]

    assert sweep.main(words) == 0

    found = [(row["model"], row["deployment"], row["status"]) for row in analysis.load(out / "adhoc").to_pylist()]
    assert found == [
        ("llama2_13b", "fig4_13b", "does_not_fit"),
        ("llama2_13b", "fig4_7b", "invalid"),
        ("llama2_7b", "fig4_13b", "invalid"),
        ("llama2_7b", "fig4_7b", "ok"),
    ]
    shown = capsys.readouterr().out
    assert "1 x does_not_fit: rank" in shown
    assert "1 x invalid: deployment.replicas[0].stages[1].layers" in shown


def test_failed_rows_are_kept_until_asked_for(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlucky(points: Sequence[Point], limits: Limits) -> Iterator[Finished | None]:
        for done in in_process(points, limits):
            if done is not None:
                yield Finished(done.point, {**done.outcome, "status": "crashed", "metrics": {}}, 0, 2)

    monkeypatch.setattr(pool, "finished", unlucky)
    assert sweep.main([*GRID, "tracking=none"]) == 1
    monkeypatch.setattr(pool, "finished", forbidden)
    assert sweep.main([*GRID, "tracking=none"]) == 1
    monkeypatch.setattr(pool, "finished", in_process)
    assert sweep.main([*GRID, "tracking=none", "retry=failed"]) == 0
    assert analysis.load(out / "adhoc")["status"].to_pylist() == ["ok", "ok"]
