"""What MLflow is told, and what it is not told."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runners import mlflow_row, mlflow_runs, mlflow_writer
from runners.mlflow_runs import end_sweep, identity, open_client, origin, process, runs_of, sweep_run
from runners.mlflow_writer import Ending, Writer, tracked
from runners.store import Row, Store, row_of
from tests.runners.mlflow_stores import GRID, experiment_id, log, logged, target
from tests.runners.test_store import FIGURES, outcome, point, write


def row(key: str, status: str = "ok", attempt: int = 1, **values: Any) -> Row:
    return row_of(point(key), outcome(status), worker=0, attempt=attempt) | values


def test_statuses_mlflow_3932_skyrl_1516(store: Store, uri: str) -> None:
    """What failed is FAILED, an answer is FINISHED, and the sweep ends as it is told."""
    states = ("ok", "does_not_fit", "invalid", "failed", "timeout", "crashed", "out_of_memory")

    log(target(uri, store), [row(f"k{i}", state) for i, state in enumerate(states)], status="KILLED")

    (parent,), runs = logged(uri)
    assert parent.info.status == "KILLED"
    found = [runs[f"k{i}"].info.status for i in range(len(states))]
    assert found == ["FINISHED"] * 3 + ["FAILED"] * 4
    assert all(run.info.end_time >= run.info.start_time for run in runs.values())


def test_a_row_of_which_no_batch_is_known_is_logged(store: Store, uri: str) -> None:
    log(target(uri, store), [row("bad", "invalid", batch=None), row("good")])

    assert set(logged(uri)[1]) == {"bad", "good"}


def test_runs_nest_ray_19978_and_a_shells_run_captures_none_mlflow_15713(
    store: Store, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever run and store the shell names, and nothing is left in the working directory: mlflow 7206."""
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///elsewhere.db")
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())

    log(target(uri, store), [row("k1"), row("k2")])

    (parent,), runs = logged(uri)
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}
    assert "0" * 32 not in [run.info.run_id for run in runs.values()]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_is_not_finite_never_ranks_mlflow_25640_22827(store: Store, uri: str) -> None:
    """A NaN would be 0, the best of all times; an infinity would be a large number."""
    first, second, *_ = [name for name, value in FIGURES.items() if isinstance(value, float)]

    log(target(uri, store), [row("k1") | {first: math.nan, second: math.inf}, row("k2")])

    _, runs = logged(uri)
    assert first not in runs["k1"].data.metrics
    assert second not in runs["k1"].data.metrics
    assert runs["k1"].data.tags["xsim.not_finite"] == f"{first}, {second}"
    assert "xsim.not_finite" not in runs["k2"].data.tags
    client = open_client(uri)
    best = client.search_runs([runs["k2"].info.experiment_id], f"metrics.{first} < 1e9", order_by=[f"metrics.{first}"])
    assert [run.data.tags["xsim.key"] for run in best] == ["k2"]


def test_long_params_mlflow_6183_qlib_1317(store: Store, uri: str) -> None:
    """A config of 10 kB is an artifact as it is; a name of 10 kB is cut as a parameter."""
    config = json.dumps({"layers": list(range(3000))})
    assert len(config) > 10_000

    log(target(uri, store), [row("k1", point="p" * 10_000, config_json=config, reason="r" * 10_000)])

    _, runs = logged(uri)
    assert len(runs["k1"].data.params["point"]) == mlflow_row.TEXT_LIMIT
    place = Path(runs["k1"].info.artifact_uri.removeprefix("file://"))
    assert json.loads((place / "config.json").read_text()) == json.loads(config)
    client = open_client(uri)
    assert [item.path for item in client.list_artifacts(runs["k1"].info.run_id)] == ["config.json"]


def test_a_default_run_is_sqlite_mlflow_23634_18534(store: Store, uri: str, tmp_path: Path) -> None:
    log(target(uri, store), [row("k1")])

    assert (store.folder.parent / "mlflow.db").read_bytes().startswith(b"SQLite format 3")
    assert not list(tmp_path.rglob("mlruns"))
    assert not list(tmp_path.rglob("meta.yaml"))


def test_a_row_that_ran_again_replaces_its_run(store: Store, uri: str) -> None:
    log(target(uri, store), [row("k1", "crashed"), row("k2")])
    first = logged(uri)[1]

    log(target(uri, store), [row("k1", "ok", attempt=2)])

    _, runs = logged(uri)
    assert runs["k1"].info.status == "FINISHED"
    assert runs["k2"].info.run_id == first["k2"].info.run_id


def test_what_a_killed_writer_left_is_closed_and_logged_again(store: Store, uri: str) -> None:
    """Parents become KILLED; half a run is replaced from the tables; what others write is left alone."""
    write(store, "k1")
    log(target(uri, store, sweep="old"), [row("k1"), row("k2")])
    (parent,), runs = logged(uri)
    client = open_client(uri)
    for run in (parent, runs["k1"]):
        client.update_run(run.info.run_id, status="RUNNING")
    journal = store.folder / "tracked.json"
    journal.write_text(journal.read_text().replace('"working": false', '"working": true'))
    foreign = client.create_run(parent.info.experiment_id, tags={"xsim.folder": "other:/x", "xsim.sweep": "theirs"})
    own = client.create_run(parent.info.experiment_id, tags={"somebody": "else", "xsim.folder": origin(store.folder)})

    log(target(uri, store, sweep="new"), status="FINISHED")

    parents, again = logged(uri)
    found = {run.data.tags["xsim.sweep"]: run.info.status for run in parents}
    assert found == {"old": "KILLED", "new": "FINISHED", "theirs": "RUNNING"}
    assert again["k1"].info.run_id != runs["k1"].info.run_id
    assert again["k1"].info.status == "FINISHED"
    assert again["k2"].info.run_id == runs["k2"].info.run_id
    assert {client.get_run(run.info.run_id).info.status for run in (foreign, own)} == {"RUNNING"}


def test_what_another_part_of_a_sweep_writes_is_left_alone(store: Store, uri: str) -> None:
    """Parts of one sweep have one folder and one host; whoever lives writes on."""
    client = open_client(uri)
    log(target(uri, store))
    experiment = logged(uri)[0][0].info.experiment_id
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        alive = process(other.pid)
        tags = {"xsim.folder": origin(store.folder), "xsim.process": alive}
        parent = client.create_run(experiment, tags=tags | {"xsim.sweep": "part"}).info.run_id
        client.create_run(experiment, tags=tags | {"xsim.key": "k7"})

        log(target(uri, store))
        assert client.get_run(parent).info.status == "RUNNING"
        assert "k7" in logged(uri)[1]

    log(target(uri, store))
    assert client.get_run(parent).info.status == "KILLED"
    assert "k7" not in logged(uri)[1]
    assert process(other.pid) != alive


def test_parts_that_start_at_once_have_one_parent(store: Store, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each makes one before it sees the other's; it ends with the last of them, as the worst of them did."""
    monkeypatch.setattr(mlflow_runs, "SETTLED_S", 0.0)
    client = open_client(uri)
    experiment = experiment_id(client, uri)
    both = threading.Barrier(2, timeout=60)
    looks = threading.local()
    real = mlflow_runs._oldest

    def oldest(*words: Any) -> str:
        found = real(*words)
        if not getattr(looks, "number", 0):
            both.wait()  # nobody has made one yet
        elif looks.number == 1:
            both.wait()
            found = real(*words)
        looks.number = getattr(looks, "number", 0) + 1
        return found

    monkeypatch.setattr(mlflow_runs, "_oldest", oldest)
    found: list[str] = []

    def begin(part: str) -> None:
        found.append(sweep_run(client, experiment, "s1", name="n", code="c1", folder=store.folder, uri=uri, part=part))

    parts = [threading.Thread(target=begin, args=(part,)) for part in ("1-of-2", "2-of-2")]
    for each in parts:
        each.start()
    for each in parts:
        each.join()

    (parent,), _ = logged(uri)
    assert found == [parent.info.run_id] * 2
    end_sweep(client, parent.info.run_id, "FAILED", "1-of-2")
    assert logged(uri)[0][0].info.status == "RUNNING"
    end_sweep(client, parent.info.run_id, "FINISHED", "2-of-2")
    assert logged(uri)[0][0].info.status == "FAILED"
    monkeypatch.setattr(mlflow_runs, "_oldest", real)
    log(target(uri, store), status="FINISHED")
    assert logged(uri)[0][0].info.status == "FINISHED", "who compares all of it says how it ended"


def test_what_parts_log_beside_each_other_is_not_doubled(
    store: Store, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of the last knows nothing of the runs of those that it did not see begin."""
    monkeypatch.setattr(mlflow_runs, "SETTLED_S", 0.0)
    for number in (1, 2):
        write(store, f"k{number}")
        with monkeypatch.context() as patch:
            patch.setattr(mlflow_writer, "tracked", lambda *_: set())
            log(target(uri, store, part=f"{number}-of-2"), [row(f"k{number}")], status="FINISHED")

    left = {"k1", "k2"} - tracked(store.folder, uri)
    assert left == {"k1"}
    log(target(uri, store), stored=sorted(left), status="FINISHED")

    (parent,), runs = logged(uri)
    assert set(runs) == {"k1", "k2"}
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}


def test_what_another_folder_has_in_the_store_stays(store: Store, uri: str) -> None:
    """The same points, asked for by the same sweep, perhaps on another host under the same path."""
    other = Store(store.folder.parents[1] / "theirs" / GRID)
    other.begin({"code": "c1"})
    log(target(uri, other), [row("k1"), row("k2", "crashed")], status="FINISHED")

    log(target(uri, store), [row("k1", attempt=2), row("k2")], status="FINISHED")

    client = open_client(uri)
    runs = list(runs_of(client, experiment_id(client, uri), "attributes.status != 'RUNNING'"))
    assert sorted(run.data.tags["xsim.key"] for run in runs if "xsim.key" in run.data.tags) == ["k1", "k1", "k2", "k2"]
    assert sum("xsim.sweep" in run.data.tags for run in runs) == 2
    assert identity(store.folder) != identity(other.folder)


def test_a_database_that_is_removed_meanwhile_is_told(store: Store, uri: str) -> None:
    database = store.folder.parent / "mlflow.db"

    def rows() -> Iterator[Row]:
        yield row("k1")
        database.unlink()

    with pytest.raises(FileNotFoundError, match="was removed while it was written"):
        Writer(target(uri, store)).write(rows(), Ending("FINISHED"))
    assert not tracked(store.folder, uri)


@pytest.mark.parametrize("keys", ["3", '"k1"', "[1, null]", "{}"])
def test_a_journal_of_somebody_else_knows_nothing(store: Store, uri: str, keys: str) -> None:
    (store.folder / "tracked.json").write_text(f'{{"uri": "{uri}", "keys": {keys}}}')
    assert tracked(store.folder, uri) == set()


def test_an_experiment_that_two_make_at_once(store: Store, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = open_client(uri)
    there = experiment_id(client, uri)
    answers = iter([None])
    real = client.get_experiment_by_name
    monkeypatch.setattr(client, "get_experiment_by_name", lambda name: next(answers, real(name)))

    assert experiment_id(client, uri) == there


def test_the_same_sweep_goes_on_in_its_own_parent(store: Store, uri: str) -> None:
    log(target(uri, store), [row("k1")], status="KILLED")
    log(target(uri, store), [row("k2")], status="FINISHED")

    (parent,), runs = logged(uri)
    assert parent.info.status == "FINISHED"
    assert set(runs) == {"k1", "k2"}


def test_who_is_in_a_hurry_leaves_the_rest_to_the_next_start(store: Store, uri: str) -> None:
    for number in range(5):
        write(store, f"k{number}")
    log(target(uri, store), stored=[f"k{number}" for number in range(5)], status="KILLED", hurry=True)
    assert logged(uri)[0][0].info.status == "KILLED"
    assert not logged(uri)[1]

    left = {f"k{number}" for number in range(5)} - tracked(store.folder, uri)
    log(target(uri, store), stored=sorted(left), status="FINISHED")

    assert set(logged(uri)[1]) == {f"k{number}" for number in range(5)}


def test_runs_that_nobody_has_looked_for_are_not_doubled(store: Store, uri: str) -> None:
    """One writer is killed before its journal says what it wrote; the next is in a hurry; the third logs the rest."""
    keys = ["k0", "k1", "k2"]
    for key in keys:
        write(store, key)
    log(target(uri, store), stored=keys)
    assert set(logged(uri)[1]) == set(keys)
    journal = store.folder / "tracked.json"
    journal.write_text(json.dumps({**json.loads(journal.read_text()), "working": True, "keys": []}))

    log(target(uri, store), stored=keys, hurry=True)
    log(target(uri, store), stored=keys)

    assert set(logged(uri)[1]) == set(keys)


def test_a_clock_that_jumps_back_keeps_runs_whole(store: Store, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([2e9, 1e9, 3e9, 1.5e9])
    monkeypatch.setattr("runners.mlflow_row.time", type("Clock", (), {"time": staticmethod(lambda: next(clock))}))

    log(target(uri, store), [row("k1"), row("k2")])

    _, runs = logged(uri)
    for run in runs.values():
        assert run.info.end_time - run.info.start_time == 1000 * 1.0


def test_a_deleted_experiment_is_taken_back(store: Store, uri: str) -> None:
    log(target(uri, store), [row("k1")])
    client = open_client(uri)
    client.delete_experiment(logged(uri)[1]["k1"].info.experiment_id)

    log(target(uri, store), [row("k2")])

    assert "k2" in logged(uri)[1]


def test_first_contact_of_two_sweeps_hydraflow_245(template: Path) -> None:
    """Two met on a new database: see ``made``."""
    client = open_client(f"sqlite:///{template}")

    other = client.get_experiment_by_name("other")
    assert other is not None
    assert len(client.search_runs([other.experiment_id])) == 1
