"""A sweep and the process that writes its runs for MLflow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from runners import mlflow_writer, track
from runners.mlflow_runs import open_client
from runners.store import Store, row_of
from runners.track import Tracker
from tests.runners.mlflow_stores import WriterThread, logged, target
from tests.runners.test_store import outcome, point, write

SWEEP = """
import sys, time
from pathlib import Path
from runners import track
from runners.mlflow_writer import Target
hangs = "import runners.mlflow_writer as w; w.open_client = lambda _: w.time.sleep(60); w.main()"
track.WRITER = (sys.executable, "-c", hangs)
found = track.Tracker(Target(uri="sqlite:///x.db", grid="g", sweep="s", folder=Path("g"), code="c"))
found.start()
while found._process is None:
    time.sleep(0.01)
print(found._process.pid, flush=True)
time.sleep(60)
"""


def add(found: Tracker, key: str) -> None:
    """A row of ``key``, stored first."""
    write(Store(found.target.folder), key)
    found.add(row_of(point(key), outcome("ok"), worker=0, attempt=1))


def program(text: str) -> tuple[str, str, str]:
    return sys.executable, "-c", text


def test_a_process_of_its_own_logs_what_comes_and_what_is_stored(store: Store, uri: str) -> None:
    found = Tracker(target(uri, store), status="FINISHED")
    found.start()
    add(found, "k1")
    write(store, "k2")
    found.add_stored(["k2"])
    found.close()

    (parent,), runs = logged(uri)
    assert (found.problem, found.logged, found.left) == ("", 2, 0)
    assert (parent.info.status, set(runs)) == ("FINISHED", {"k1", "k2"})
    assert int(parent.data.tags["xsim.process"].partition(" ")[0]) != os.getpid()
    assert found._process is not None
    assert not psutil.pid_exists(found._process.pid)


def test_a_row_that_cannot_be_handed_over_is_told(store: Store, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(track, "writer", WriterThread)
    found = Tracker(target(uri, store))
    found.start()
    found.add({"key": object()})
    found.close()

    assert found.problem == "TypeError: Object of type object is not JSON serializable"


def test_a_sweep_never_waits_for_mlflow(store: Store, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the queue has no room for the keys are noted, and the rows come from the tables: all are logged."""
    monkeypatch.setattr(track, "QUEUE_ROWS", 3)
    monkeypatch.setattr(track, "writer", WriterThread)
    opened, go = threading.Event(), threading.Event()

    def slow(uri: str) -> object:
        opened.set()
        assert go.wait(60)
        return open_client(uri)

    monkeypatch.setattr(mlflow_writer, "open_client", slow)
    found = Tracker(target(uri, store))
    found.start()
    assert opened.wait(60)
    keys = [f"k{number}" for number in range(200)]
    for key in keys:  # more than a pipe holds
        add(found, key)
    assert found._rows.qsize() == 3, "what waits in memory is bounded"
    assert found.left > 100
    go.set()
    found.close()

    assert set(logged(uri)[1]) == set(keys)
    assert found.left == 0


def test_who_is_in_a_hurry_hands_over_nothing_more(store: Store, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(track, "writer", WriterThread)
    found = Tracker(target(uri, store), status="KILLED", hurry=True)
    found.add_stored(["k0"])
    add(found, "k1")
    found.start()
    found.close()

    (parent,), runs = logged(uri)
    assert (parent.info.status, runs, found.problem) == ("KILLED", {}, "")


def test_a_store_that_hangs_does_not_keep_who_is_in_a_hurry(
    store: Store, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is ended."""
    monkeypatch.setattr(track, "WRITER", program("import time; time.sleep(60)"))
    monkeypatch.setattr(track, "HURRY_S", 0.2)
    found = Tracker(target(uri, store), hurry=True)
    found.start()

    started = time.monotonic()
    found.close()

    assert time.monotonic() - started < 20
    assert found._process is not None
    assert found._process.wait(20) == -signal.SIGKILL


def test_a_writer_that_fails_says_so_without_secrets(store: Store, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And whoever adds rows later, or closes it, is not held up by its full queue."""

    def refuses(_uri: str) -> None:
        raise ConnectionError("no answer from postgresql://me:s3cret@db/runs")

    monkeypatch.setattr(track, "writer", WriterThread)
    monkeypatch.setattr(mlflow_writer, "open_client", refuses)
    monkeypatch.setattr(track, "QUEUE_ROWS", 1)
    found = Tracker(target(uri, store))
    found.start()
    for number in range(4):
        add(found, f"k{number}")
    found.close()

    assert found.problem == "ConnectionError: no answer from postgresql://me:***@db/runs"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (program("raise SystemExit(3)"), "its process ended with code 3"),
        (program("import os; os.kill(os.getpid(), 9)"), "its process ended with code -9"),
        (("/nowhere",), "its process does not start: No such file or directory"),
    ],
)
def test_a_process_that_ends_is_no_matter_of_the_sweep(
    store: Store, uri: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], problem: str
) -> None:
    monkeypatch.setattr(track, "WRITER", words)
    found = Tracker(target(uri, store))
    found.start()
    for number in range(20):
        add(found, f"k{number}")
    found.close()

    assert found.problem == problem


def test_it_ends_with_the_sweep_though_its_store_hangs_and_takes_no_ctrl_c(tmp_path: Path) -> None:
    with subprocess.Popen(program(SWEEP), cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=os.environ) as sweep:
        assert sweep.stdout is not None
        writer = psutil.Process(int(sweep.stdout.readline()))
        assert os.getsid(writer.pid) != os.getsid(sweep.pid)
        while signal.SIGHUP not in ignored(writer.pid):
            time.sleep(0.02)
        writer.send_signal(signal.SIGINT)
        writer.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert writer.is_running()
        writer.suspend()  # even then
        sweep.kill()
    writer.wait(20)


def test_its_modules_are_those_of_the_sweep(store: Store, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not files of the working directory that have their names."""
    for name in ("json.py", "mlflow.py", "runners.py"):
        Path(store.folder.parent, name).write_text("raise SystemExit('a stranger')")
    monkeypatch.chdir(store.folder.parent)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    found = Tracker(target(uri, store))
    found.start()
    add(found, "k1")
    found.close()

    assert (found.problem, found.logged) == ("", 1)


def test_one_whose_sweep_is_dead_before_it_begins_does_nothing() -> None:
    done = subprocess.run(
        [*track.WRITER, "1"], stdin=subprocess.DEVNULL, capture_output=True, env=os.environ, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")


def ignored(pid: int) -> set[int]:
    """Signals that the process does not take."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn")]
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 32) if mask >> (number - 1) & 1}
