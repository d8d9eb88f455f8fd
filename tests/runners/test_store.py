from __future__ import annotations

import json
import os
import socket
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import analysis
from analysis.stored import parts
from analysis.tables import select
from analysis.version import SCHEMA_VERSION
from runners.points import Point
from runners.resolve import pack
from runners.store import SCHEMA, VOLATILE, Store, row_of
from runners.whole_files import write_whole
from runners.worker import Outcome
from xsim.errors import SpecError
from xsim.families import FAMILIES
from xsim.metrics import COLUMNS

EXAMPLES: dict[str, float | int | bool | str] = {"float": 1.5, "int": 3, "bool": True, "text": "x"}
FIGURES = {column.name: EXAMPLES[column.kind] for column in COLUMNS}


def point(key: str, code: str = "c1") -> Point:
    labels = dict.fromkeys(("cluster", "model", "deployment", *FAMILIES), "some")
    return Point(
        labels=labels,
        choice="",
        config={},
        key=key,
        code=code,
        packed=pack("{}"),
        seed=0,
        batch=8,
        contradiction=None,
    )


def outcome(status: str = "ok", wall_s: float = 1.0) -> Outcome:
    return Outcome(status=status, reason="", details="", metrics=FIGURES if status == "ok" else {}, wall_s=wall_s)


def begin(store: Store, code: str = "c1") -> None:
    store.begin({"code": code})


def write(store: Store, key: str, status: str = "ok", attempt: int = 1, code: str = "c1") -> None:
    store.write(row_of(point(key, code), outcome(status), worker=0, attempt=attempt))


def test_every_quantity_names_its_unit() -> None:
    for field in SCHEMA:
        unit = field.metadata[b"unit"].decode()
        if unit in ("s", "B", "USD", "J"):
            suffix = {"s": "_s", "B": "_bytes", "USD": "usd", "J": "_j"}[unit]
            assert suffix in field.name, field.name
    assert SCHEMA.metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()
    assert SCHEMA.names[-len(VOLATILE) :] == list(VOLATILE)


def test_a_row_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store)
    write(store, "aa11")

    (row,) = analysis.load(tmp_path).to_pylist()

    assert {name: row[name] for name in FIGURES} == FIGURES
    assert analysis.load(tmp_path).schema.field("training_time_s").metadata[b"unit"] == b"s"


def test_equal_runs_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(Store(tmp_path / name), "aa11")

    first, second = (next((tmp_path / name / "runs").rglob("*.arrow")).read_bytes() for name in ("a", "b"))

    assert first == second


def test_half_written_files_are_no_rows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store)
    write(store, "aa11")
    whole = tmp_path / "runs" / "aa" / "aa11.arrow"
    (whole.parent / ".aa12.arrow.77").write_bytes(whole.read_bytes()[:100])
    (whole.parent / "aa13.arrow").write_bytes(b"")
    (whole.parent / "aa14.arrow").write_bytes(whole.read_bytes()[:-200])

    with pytest.warns(UserWarning, match=r"aa14.arrow is no whole file"):
        assert store.known() == {"aa11": "ok"}


def test_compaction_changes_nothing_that_a_reader_sees(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store)
    write(store, "aa11")
    write(store, "bb22", "failed")
    before = analysis.load(tmp_path)

    store.compact()
    write(store, "cc33")
    store.compact()

    assert analysis.load(tmp_path).filter(pa.compute.field("key") != "cc33").equals(before)
    assert [path.name for path in (tmp_path / "table").glob("*.parquet")] == ["part-000002.parquet"]
    assert json.loads((tmp_path / "table" / "manifest.json").read_text()) == {
        "schema_version": SCHEMA_VERSION,
        "parts": ["part-000002.parquet"],
    }
    assert not list((tmp_path / "runs").rglob("*.arrow"))


def test_a_row_that_runs_again_replaces_the_compacted_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store)
    write(store, "aa11", "crashed")
    store.compact()

    begin(store)
    write(store, "aa11", "ok", attempt=2)

    assert store.known() == {"aa11": "ok"}
    store.compact()
    assert store.known() == {"aa11": "ok"}


def test_rows_of_older_code_are_kept_but_not_mixed_in(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store)
    write(store, "aa11")

    begin(store, code="c2")
    write(store, "bb22", code="c2")

    assert analysis.load(tmp_path)["key"].to_pylist() == ["bb22"]
    assert analysis.load(tmp_path, every_version=True)["key"].to_pylist() == ["aa11", "bb22"]


def test_rows_of_versions_without_background_traffic_had_none(tmp_path: Path) -> None:
    """Alone in a folder, and beside newer ones."""
    store = Store(tmp_path)
    write(store, "aa11")
    path = tmp_path / "runs" / "aa" / "aa11.arrow"
    older = pa.ipc.open_file(path.read_bytes()).read_all().drop_columns(["background"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, older.schema) as writer:
        writer.write_table(older)
    path.write_bytes(sink.getvalue().to_pybytes())

    assert analysis.load(tmp_path)["background"].to_pylist() == ["none"]
    write(store, "bb22")
    store.compact()
    rows = analysis.load(tmp_path).to_pylist()
    assert {row["key"]: row["background"] for row in rows} == {"aa11": "none", "bb22": "some"}


def test_only_what_was_asked_last_is_selected_and_in_its_order(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, "aa11", code="c0")
    for key in ("bb22", "cc33", "dd44"):
        write(store, key)
    store.begin({"code": "c1", "points": [{"key": key} for key in ("dd44", "ee55", "bb22")]})

    found = select(tmp_path)

    assert found.table["key"].to_pylist() == ["dd44", "bb22"]
    assert store.older("c1") == 1
    assert list(found.notes()) == [
        "1 row of earlier sweeps not shown; --all shows everything",
        "1 row of an earlier version of the simulator hidden",
    ]
    assert select(tmp_path, everything=True).table["key"].to_pylist() == ["bb22", "cc33", "dd44"]


def test_a_reused_run_has_the_names_of_the_sweep_that_asked_last(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = replace(point("aa11"), choice="deployment.zero=0", labels={**point("aa11").labels, "deployment": None})
    for each in (first, replace(point("bb22"), choice="deployment.zero=1")):
        store.write(row_of(each, outcome(), worker=0, attempt=1))
    asked = [point("aa11")]
    store.begin({"code": "c1", "points": [each.named for each in asked]})

    everything = select(tmp_path, everything=True).table.to_pylist()

    assert store.rows(asked).equals(select(tmp_path).table)
    assert [(row["key"], row["point"], row["deployment"]) for row in store.rows(asked).to_pylist()] == [
        ("aa11", "", "some")
    ]
    assert {row["key"]: row["point"] for row in everything} == {"aa11": "", "bb22": "deployment.zero=1"}
    assert store.rows(asked).schema.equals(SCHEMA, check_metadata=True)


@pytest.mark.filterwarnings("ignore:.*left out")
def test_a_spoiled_manifest_hides_no_row(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store)
    for key in ("aa11", "bb22"):
        write(store, key)
        store.compact()
    whole = analysis.load(tmp_path)

    (tmp_path / "table" / "manifest.json").write_bytes(b"\xff no such thing")
    assert analysis.load(tmp_path).equals(whole)
    write(store, "cc33")
    store.compact()

    assert sorted(store.known()) == ["aa11", "bb22", "cc33"]


@pytest.mark.parametrize("lost", [False, True])
def test_runs_of_a_spoiled_part_are_missing_and_said_to_be(tmp_path: Path, lost: bool) -> None:
    """Other parts, and what follows, are read all the same."""
    store = Store(tmp_path)
    begin(store)
    write(store, "aa11")
    store.compact()
    part = tmp_path / "table" / "part-000001.parquet"
    part.unlink() if lost else part.write_bytes(part.read_bytes()[:-9])

    with pytest.warns(UserWarning, match=f"part-000001.parquet is left out.* it is {'lost' if lost else 'broken'}"):
        assert store.known() == {}
    write(store, "bb22")
    with pytest.warns(UserWarning, match="left out"):
        store.compact()

    assert part.exists() != lost, "somebody may yet repair it"
    part.unlink(missing_ok=True)
    with warnings.catch_warnings(action="ignore"):
        assert store.known() == {"bb22": "ok"}
        assert list(parts(tmp_path))[-1] == "part-000002.parquet"


def test_a_broken_part_is_put_aside_when_its_points_have_run_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin({"sweep": "s1", "code": "c1", "points": [{"key": "aa11"}, {"key": "bb22"}]})
    write(store, "aa11")
    store.compact()
    part = tmp_path / "table" / "part-000001.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    write(store, "bb22")
    with pytest.warns(UserWarning, match="left out"):
        store.compact()
    assert part.exists()

    write(store, "aa11", "failed")
    with pytest.warns(UserWarning, match="left out"):
        store.compact()

    assert store.known() == {"aa11": "failed", "bb22": "ok"}
    assert not part.exists()
    assert part.with_name(f"{part.name}.broken").exists()


@pytest.mark.parametrize("folded", [False, True])
def test_a_table_of_something_else_is_left_out(tmp_path: Path, folded: bool) -> None:
    store = Store(tmp_path)
    write(store, "aa11")
    foreign = pa.table({"title": ["x"]})
    if folded:
        (tmp_path / "table").mkdir()
        pq.write_table(foreign, tmp_path / "table" / "part-mine.parquet")
    else:
        path = tmp_path / "runs" / "aa" / "bb22.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, foreign.schema) as writer:
            writer.write_table(foreign)

    looks: list[Callable[[], object]] = [store.known, store.compact, store.known]
    for look in looks:
        with pytest.warns(UserWarning, match="holds no runs, though its name says so, and is left out"):
            look()
    with warnings.catch_warnings(action="ignore"):
        assert analysis.load(tmp_path)["key"].to_pylist() == ["aa11"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_spoiled_note_of_what_was_asked_hides_no_row(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    write(store, "aa11")
    (tmp_path / "sweep.json").write_text(text)

    with pytest.warns(UserWarning, match=r"sweep.json cannot be read and is left out"):
        assert len(select(tmp_path).table) == 1


def test_nothing_is_compacted_to_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store)
    (tmp_path / "runs" / "aa").mkdir(parents=True)

    assert store.known() == {}
    store.compact()

    assert not (tmp_path / "table").exists()
    with pytest.raises(SpecError, match="it holds no results"):
        analysis.load(tmp_path)


def test_half_files_of_dead_writers_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, "aa11")
    alive = tmp_path / "runs" / "aa" / f".aa12.arrow.{os.getpid()}@{socket.gethostname()}"
    elsewhere = alive.with_name(".aa12.arrow.4194305@another")  # a disk may be shared
    here = socket.gethostname()
    number = 4194305  # above the largest id
    dead = [tmp_path / f".sweep.json.{number}@{here}", tmp_path / "runs" / "aa" / f".aa13.arrow.{number}@{here}"]
    for path in (alive, elsewhere, *dead, tmp_path / ".lock"):
        path.touch()

    begin(store)

    assert alive.exists()
    assert elsewhere.exists()
    assert (tmp_path / ".lock").exists()
    assert not any(path.exists() for path in dead)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_whole(path, b"old")

    with pytest.raises(TypeError):
        write_whole(path, None)  # type: ignore[arg-type]

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="it holds no results; name the folder of a sweep"):
        analysis.load(tmp_path)
