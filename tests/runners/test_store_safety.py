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

from runners import store as stores
from runners.store import Store
from tests.runners.test_store import begin, write

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
