"""The MLflow side: a projection of the result tables for browsing, which can be rebuilt from them at any time.

A process of its own writes it (``runners.mlflow_writer``), so that neither MLflow's memory nor its troubles are the
sweep's. A thread hands it each row after that is safe on disk, and the sweep never waits for it until the end: for a
row that finds the queue full its key is noted, and the row read from the tables when the others are done.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from runners.mlflow_writer import Target, told

if TYPE_CHECKING:
    from runners.store import Row

__all__ = ["Tracker", "writer"]

QUEUE_ROWS = 256  # that wait in memory; of the others the tables hold all
HURRY_S = 3.0  # a store that does not answer is not waited for any longer then
WRITER = (sys.executable, "-P", "-m", "runners.mlflow_writer")  # -P: no modules of the working directory


def writer() -> subprocess.Popen[str]:
    """The process that writes, in a session of its own: Ctrl-C is for the sweep, which tells it what to do then.

    Raises:
        OSError: It does not start.
    """
    pipe, own = subprocess.PIPE, Path(__file__).parents[1]
    paths = os.pathsep.join([*filter(None, sys.path), str(own)])  # it finds what this process finds
    return subprocess.Popen(
        [*WRITER, str(os.getpid())],
        stdin=pipe,
        stdout=pipe,
        text=True,
        bufsize=1,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": paths},
    )


@dataclass(slots=True)
class Tracker:
    """Hands rows over from a thread; ``close`` waits for it.

    Attributes:
        status: How the sweep ended: FINISHED, FAILED or KILLED.
        hurry: Leave what is not logged yet to the next start: somebody wants the process to end.
        problem: Why tracking stopped, if it did. The tables are not touched by that.
        logged: Runs that were written, when it is closed.
    """

    target: Target
    status: str = "FAILED"
    hurry: bool = False
    problem: str = ""
    logged: int = 0
    _rows: queue.Queue[Row | None] = field(default_factory=lambda: queue.Queue(QUEUE_ROWS))
    _later: list[str] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Load MLflow and open the store: seconds, which pass beside the first simulations."""
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def add(self, row: Row) -> None:
        """Log ``row``, which the tables hold, when there is time; this never waits."""
        try:
            self._rows.put_nowait(row)
        except queue.Full:
            self._later.append(str(row["key"]))

    def add_stored(self, keys: Iterable[str]) -> None:
        """Log the rows of ``keys`` that the tables hold, after all others."""
        self._later.extend(keys)

    def end(self, status: str, *, hurry: bool = False) -> None:
        """No row comes any more: what is left may be logged while the caller does something else."""
        self.status, self.hurry = status, hurry
        with suppress(queue.Full):  # then ``close`` says it
            self._rows.put_nowait(None)

    @property
    def left(self) -> int:
        """Rows that are not handed over yet, about; none if there is nobody any more to take them."""
        return 0 if self.problem else self._rows.qsize() + len(self._later)

    def close(self) -> None:
        """Wait until all is logged, and the parent run has ended with ``status``, if it was started."""
        if self._thread is None:
            return
        try:
            while self._thread.is_alive():
                try:
                    self._rows.put(None, timeout=0.1)
                    break
                except queue.Full:
                    continue
            self._thread.join(HURRY_S if self.hurry else None)
        finally:
            if self._thread.is_alive() and self._process is not None:
                self._process.kill()

    def _work(self) -> None:
        try:
            self._process = writer()
        except OSError as error:
            self.problem = f"its process does not start: {error.strerror}"
            return
        try:
            with suppress(BrokenPipeError), self._process as process:
                with suppress(BrokenPipeError):  # it has ended, and says why
                    self._hand_over(process)
                self._read(process)
        except Exception as error:  # whatever it is, the sweep goes on, and says so
            self.problem = told(error)

    def _hand_over(self, process: subprocess.Popen[str]) -> None:
        """Everything that is to be logged, and how the sweep ended."""
        assert process.stdin is not None
        with process.stdin as stdin:
            _tell(stdin, asdict(self.target) | {"folder": str(self.target.folder)})
            for row in iter(self._rows.get, None):
                if self.hurry:
                    break
                _tell(stdin, {"row": row})
            keys = [] if self.hurry else sorted(set(self._later))
            _tell(stdin, {"ending": {"status": self.status, "hurry": self.hurry, "keys": keys}})
            self._later.clear()

    def _read(self, process: subprocess.Popen[str]) -> None:
        """What became of it."""
        assert process.stdout is not None
        answer = process.stdout.read()
        code = process.wait()
        with suppress(ValueError):
            said = json.loads(answer)
            self.logged, self.problem = said["logged"], said["problem"]
            return
        self.problem = f"its process ended with code {code}"


def _tell(stdin: IO[str], message: Mapping[str, object]) -> None:
    stdin.write(json.dumps(message) + "\n")
