"""Whatever stops a writer, and whenever: every row that it had finished is read, and no other."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import analysis
from analysis.stored import stored
from runners import store as stores
from runners.inputs import SCHEMA_VERSION
from runners.preflight import check_writable
from runners.store import SCHEMA, Store, write_whole
from tests.runners.test_store import begin, write
from xsim.errors import SpecError

KEYS = ("aa1", "aa2", "bb1", "cc1")
STEPS = st.lists(
    st.one_of(st.tuples(st.sampled_from(KEYS), st.sampled_from(("ok", "failed", "timeout"))), st.just(None)),
    max_size=14,
)


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def ends(after: int, how: Callable[[], BaseException]) -> Iterator[None]:
    """What the system is asked to do for the ``after``-th time does not happen; dead processes clean nothing up."""
    left = after

    def watched(real: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            nonlocal left
            left -= 1
            error = how()
            if left == 0 or (left < 0 and isinstance(error, Killed)):
                raise error
            return real(*given, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", watched(os.fsync))
        patch.setattr(Path, "rename", watched(Path.rename))
        patch.setattr(Path, "unlink", watched(Path.unlink))
        yield


@given(steps=STEPS, after=st.integers(1, 60), kill=st.booleans(), rows=st.integers(1, 4))
@pytest.mark.filterwarnings("ignore:.*keep files of their own")
def test_no_finished_row_is_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str] | None], after: int, kill: bool, rows: int
) -> None:
    """Writes, replacements and foldings, stopped at any system call, by a kill or by an error such as a full disk."""
    store = Store(tmp_path_factory.mktemp("store"))
    finished: dict[str, str] = {}
    under_way: tuple[str, str] | None = None
    how: Callable[[], BaseException] = Killed if kill else lambda: OSError(28, "No space left on device")
    try:
        with pytest.MonkeyPatch.context() as patch, ends(after, how):
            patch.setattr(stores, "FOLD_ROWS", rows)
            for step in steps:
                if step is None:
                    store.compact()
                else:
                    under_way = step
                    write(store, *step)
                    finished[step[0]] = step[1]
                    under_way = None
    except (Killed, OSError):
        pass
    found = store.known()
    if under_way is not None and found.get(under_way[0]) == under_way[1]:
        finished[under_way[0]] = under_way[1]
    assert found == finished
    store.compact()
    assert store.known() == finished
    assert len(list((store.folder / "table").glob("part-*"))) <= 1 + len(finished)


def test_parts_grow_in_number_and_not_in_old_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "FOLD_ROWS", 4)
    store = Store(tmp_path)
    for turn in range(5):
        for number in range(10):
            write(store, f"{number:02d}00", "ok" if turn == 4 else "failed")
    store.compact()

    sizes = [pq.read_metadata(path).num_rows for path in sorted((tmp_path / "table").glob("*.parquet"))]
    assert sum(sizes) <= 2 * 10 + 7, "old rows are dropped in time"
    assert set(store.known().values()) == {"ok"}


WRITER = """
import sys
from pathlib import Path
from runners import store as stores
from tests.runners.test_store import write
stores.FOLD_ROWS = 5
store = stores.Store(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 10**6):
    write(store, f"{number % 97:02x}{number:06d}")
    print(number, flush=True)
"""


def test_files_are_whole_after_a_kill_arrow_3203_parcels_2713(tmp_path: Path) -> None:
    """SIGKILL at random moments: each row whose end was reported is there."""
    chance, reported = random.Random(5), -1
    for _ in range(2):
        words = [sys.executable, "-c", WRITER, str(tmp_path), str(reported + 1)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randrange(1, 40)):
                reported = int(writer.stdout.readline())
            time.sleep(chance.random() * 0.02)
            writer.kill()
            reported = max([reported, *(int(line) for line in writer.stdout.read().splitlines() if line.isdigit())])
        keys = Store(tmp_path).known()
        assert {f"{number % 97:02x}{number:06d}" for number in range(reported + 1)} <= set(keys)
    begin(Store(tmp_path))
    assert not list(tmp_path.rglob(".*.arrow.*"))


def test_a_row_replaced_while_it_is_folded_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a second sweep on a disk without locks would do: delta-rs 3736."""
    store, other = Store(tmp_path), Store(tmp_path)
    write(store, "aa1", "failed")
    real = stores._fold

    def meanwhile(folder: Path, rows: list[pa.Table]) -> None:
        real(folder, rows)
        write(other, "aa1", "ok")
        write(other, "bb1", "ok")
        other.compact()

    monkeypatch.setattr(stores, "_fold", meanwhile)
    store.compact()

    assert store.known() == {"aa1": "ok", "bb1": "ok"}


def test_two_writers_into_one_folder_lose_nothing_delta_rs_3736(tmp_path: Path) -> None:
    code = {start: WRITER.replace("10**6", f"{start + 40}") for start in (0, 40)}

    words = ([sys.executable, "-c", code[start], str(tmp_path), str(start)] for start in code)
    writers = [subprocess.Popen(each, stdout=subprocess.DEVNULL) for each in words]

    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert len(Store(tmp_path).known()) == 80


def test_a_reader_sees_every_row_while_others_are_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two steps of a folding."""
    store = Store(tmp_path)
    for key in KEYS:
        write(store, key)
    seen: list[int] = []

    def looked(real: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            done = real(*given, **named)
            seen.append(len(Store(tmp_path).known()))
            return done

        return call

    monkeypatch.setattr(Path, "rename", looked(Path.rename))
    monkeypatch.setattr(Path, "unlink", looked(Path.unlink))
    store.compact()

    assert len(seen) >= 2 + len(KEYS)
    assert set(seen) == {len(KEYS)}


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


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this process may not mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_becomes_read_only(disk: Path) -> None:
    """A sweep does not start there; what is there is read, and nothing is lost."""
    store = Store(disk / "sweep")
    write(store, "aa1")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

    with pytest.raises(SpecError, match="Read-only file system; name a place that can be written"):
        check_writable(store.folder)
    with pytest.raises(OSError, match="Read-only file system"):
        write(store, "bb1")
    with pytest.warns(UserWarning, match="runs keep files of their own: Read-only file system"):
        store.compact()
    assert analysis.load(store.folder)["key"].to_pylist() == ["aa1"]


def test_a_disk_that_is_really_full(disk: Path) -> None:
    """What is there stays readable, what does not fit leaves nothing; with room again the sweep goes on."""
    store = Store(disk / "sweep")

    def fill() -> None:
        for number in range(100):
            write(store, f"aa{number:02d}")

    with pytest.raises(OSError, match="No space left on device"):
        fill()
    written = len(list((store.folder / "runs").rglob("*.arrow")))
    assert 10 < len(store.known()) == written < 100
    assert not list(disk.rglob(".*.arrow.*"))
    with pytest.warns(UserWarning, match="runs keep files of their own: No space left on device"):
        store.compact()
    assert len(store.known()) == written

    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    write(store, "bb00")
    store.compact()
    assert len(store.known()) == written + 1


def test_what_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/x'"):
        write_whole(tmp_path / "x", b"1")
    assert not list(tmp_path.iterdir())


def test_a_new_folder_outlives_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder that a new name appears in is forced to disk, not only that of the file."""
    synced: list[str] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write_whole(tmp_path / "a" / "b" / "x", b"1")

    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")} <= set(synced)


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
