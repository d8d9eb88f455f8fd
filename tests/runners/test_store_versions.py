"""Rows of several versions and ages in one folder: each is what it was, and the newest of a key counts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import analysis
from analysis.stored import stored
from runners import store as stores
from runners.inputs import SCHEMA_VERSION
from runners.store import SCHEMA, Store
from tests.runners.test_store import write
from xsim.errors import SpecError


def changed(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = change(pa.ipc.open_file(path.read_bytes()).read_all())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    path.write_bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("folded", [False, True])
def test_older_and_newer_rows_side_by_side_arrow_35569_duckdb_3238(tmp_path: Path, folded: bool) -> None:
    """A column more, one less, a whole number that became a float, one that was empty: each value is what it was.

    The first file decides for none of the others (arrow 8741).
    """
    store = Store(tmp_path)
    for key in ("aa1", "bb1"):
        write(store, key)
    whole = pa.array([2], pa.int64())

    def older(table: pa.Table) -> pa.Table:
        table = table.set_column(table.column_names.index("wall_s"), "wall_s", whole)
        table = table.set_column(table.column_names.index("worker"), "worker", pa.nulls(1))
        return table.drop_columns(["mfu"]).append_column("of_old", pa.array(["kept"]))

    changed(tmp_path / "runs" / "aa" / "aa1.arrow", older)
    if folded:
        store.compact()
        write(store, "cc1")
        store.compact()
    rows = {row["key"]: row for row in analysis.load(tmp_path).to_pylist()}

    assert (rows["aa1"]["wall_s"], rows["bb1"]["wall_s"]) == (2.0, 1.0)
    assert (rows["aa1"]["mfu"], rows["bb1"]["mfu"]) == (None, 1.5)
    assert (rows["aa1"]["worker"], rows["bb1"]["worker"]) == (None, 0)
    assert (rows["aa1"]["of_old"], rows["bb1"]["of_old"]) == ("kept", None)


def test_columns_that_do_not_go_together_are_one_line(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for key in ("aa1", "bb1"):
        write(store, key)
    changed(
        tmp_path / "runs" / "aa" / "aa1.arrow",
        lambda table: table.set_column(table.column_names.index("seed"), "seed", pa.array([["list"]])),
    )

    with pytest.raises(SpecError, match="their types do not go together"):
        analysis.load(tmp_path)


@pytest.mark.parametrize("place", ["loose", "part", "manifest"])
def test_a_folder_of_a_newer_version_is_refused_and_untouched(tmp_path: Path, place: str) -> None:
    store = Store(tmp_path)
    write(store, "aa1")
    newer = {b"schema_version": str(SCHEMA_VERSION + 1).encode()}
    changed(tmp_path / "runs" / "aa" / "aa1.arrow", lambda table: table.replace_schema_metadata(newer))
    if place != "loose":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("analysis.stored.SCHEMA_VERSION", SCHEMA_VERSION + 1)
            patch.setattr(stores, "SCHEMA_VERSION", SCHEMA_VERSION + (place == "manifest"))
            store.compact()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    problem = rf"a newer Xsim wrote there \(tables of version {SCHEMA_VERSION + 1}; this one knows {SCHEMA_VERSION}\)"
    looks: list[Callable[[], object]] = [store.known, lambda: analysis.load(tmp_path)]
    for look in [*looks, store.compact] if place == "loose" else looks:
        with pytest.raises(SpecError, match=problem):
            look()

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_clock_that_jumps_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer rows hide older ones though the clock says that they are years older."""
    store = Store(tmp_path)
    write(store, "aa1", "failed")
    store.compact()
    monkeypatch.setattr(time, "time", lambda: 1.0)
    write(store, "aa1", "ok")
    os.utime(tmp_path / "runs" / "aa" / "aa1.arrow", (1, 1))

    assert store.known() == {"aa1": "ok"}
    store.compact()
    assert store.known() == {"aa1": "ok"}


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, "aa1")
    store.compact()
    write(store, "bb1")

    found = stored(tmp_path, ("key", "status", "no_such"))

    assert found is not None
    assert found.column_names == ["key", "status"]
    assert analysis.load(tmp_path).column_names == SCHEMA.names
