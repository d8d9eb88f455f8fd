from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import analysis
from analysis.tables import select
from runners.points import Point
from runners.store import SCHEMA, VOLATILE, Store, row_of, write_whole
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
        config_json="{}",
        seed=0,
        batch=8,
        contradiction=None,
    )


def outcome(status: str = "ok", wall_s: float = 1.0) -> Outcome:
    return Outcome(status=status, reason="", details="", metrics=FIGURES if status == "ok" else {}, wall_s=wall_s)


def begin(store: Store, code: str = "c1", again: tuple[str, ...] = ()) -> None:
    store.begin({"code": code}, again=again)


def write(store: Store, key: str, status: str = "ok", attempt: int = 1, code: str = "c1") -> None:
    store.write(row_of(point(key, code), outcome(status), worker=0, attempt=attempt))


def test_every_quantity_names_its_unit() -> None:
    for field in SCHEMA:
        unit = field.metadata[b"unit"].decode()
        if unit in ("s", "B", "USD", "J"):
            suffix = {"s": "_s", "B": "_bytes", "USD": "usd", "J": "_j"}[unit]
            assert suffix in field.name, field.name
    assert SCHEMA.metadata[b"schema_version"] == b"1"
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

    with pytest.warns(UserWarning, match=r"aa14.arrow is no whole Arrow file"):
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
        "parts": ["part-000002.parquet"],
        "rows": 3,
    }


def test_a_row_that_runs_again_replaces_the_compacted_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store)
    write(store, "aa11", "crashed")
    store.compact()

    begin(store, again=("aa11",))
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


def test_only_what_was_asked_last_is_selected_and_in_its_order(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, "aa11", code="c0")
    for key in ("bb22", "cc33", "dd44"):
        write(store, key)
    store.begin({"code": "c1", "points": [{"key": key} for key in ("dd44", "ee55", "bb22")]}, again=())

    found = select(tmp_path)

    assert found.table["key"].to_pylist() == ["dd44", "bb22"]
    assert store.older("c1") == 1
    assert list(found.notes()) == [
        "1 row of earlier sweeps not shown; --all shows everything",
        "1 row of an earlier version of the simulator hidden",
    ]
    assert select(tmp_path, everything=True).table["key"].to_pylist() == ["bb22", "cc33", "dd44"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_whole(path, b"old")

    with pytest.raises(TypeError):
        write_whole(path, None)  # type: ignore[arg-type]

    assert path.read_bytes() == b"old"


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="it holds no results; name the folder of a sweep"):
        analysis.load(tmp_path)
