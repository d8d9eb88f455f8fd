"""The MLflow side: a projection of the result tables for browsing, which can be rebuilt from them at any time.

The process that started the sweep is the only writer, in a thread of its own that the sweep never waits for until the
end. A row goes to MLflow after it is safe on disk; for one that finds the queue full its key is noted, and the row
read again when there is time. A run is found again by its tag ``xsim.key``, so nothing is doubled; a journal beside the
tables spares the question to whoever alone writes to a store, unless its last writer did not come to its end.
"""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.secrets import shown
from analysis.stored import read_json
from runners.mlflow_database import is_usable
from runners.mlflow_row import is_of, log_run
from runners.mlflow_runs import (
    end_sweep,
    experiment_of,
    open_client,
    origin,
    runs_of,
    sweep_run,
    writes,
    written_by,
)
from runners.settings import default_uri, sqlite_file

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from runners.store import Row

__all__ = ["Tracker", "tracked"]

JOURNAL = "tracked.json"
QUEUE_ROWS = 256  # that wait in memory; of the others the tables hold all
BATCH_ROWS = 500  # read from the tables at a time
HURRY_S = 3.0  # a store that does not answer is not waited for any longer then


def tracked(folder: Path, uri: str) -> set[str]:
    """Keys of the runs of the tables in ``folder`` that the store at ``uri`` has."""
    journal = read_json(folder / JOURNAL)
    database = sqlite_file(uri)
    if journal.get("uri") != shown(uri) or (database is not None and not is_usable(database)):
        return set()
    return set(journal.get("keys", ()))


@dataclass(slots=True)
class Tracker:
    """Logs rows from a thread; ``close`` waits for it.

    Attributes:
        uri: Tracking URI, absolute.
        grid: Name of the MLflow experiment.
        sweep: Identity of the sweep; its parent run carries it as a tag.
        folder: Of the tables, which the caller holds; the journal lies there.
        code: Hash of the simulator.
        part: Of the sweep, which others log beside; empty: all of it.
        status: How the sweep ended: FINISHED, FAILED or KILLED.
        doubts: Whether the store is asked about every run, whatever the journal says.
        hurry: Leave what is not logged yet to the next start: somebody wants the process to end.
        problem: Why tracking stopped, if it did. The tables are not touched by that.
        logged: Runs that were written.
    """

    uri: str
    grid: str
    sweep: str
    folder: Path
    code: str
    part: str = ""
    status: str = "FAILED"
    doubts: bool = False
    hurry: bool = False
    problem: str = ""
    logged: int = 0
    _rows: queue.Queue[Row | None] = field(default_factory=lambda: queue.Queue(QUEUE_ROWS))
    _later: list[str] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _keys: set[str] = field(default_factory=set)
    _doubtful: bool = True

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

    @property
    def left(self) -> int:
        """Rows that are not logged yet, about."""
        return self._rows.qsize() + len(self._later)

    def close(self) -> None:
        """End the parent run with ``status`` after the last row, if it was started."""
        if self._thread is None:
            return
        while self._thread.is_alive():
            try:
                self._rows.put(None, timeout=0.1)
                break
            except queue.Full:
                continue
        self._thread.join(HURRY_S if self.hurry else None)

    def _work(self) -> None:
        try:
            self._log_all()
        except Exception as error:  # whatever MLflow raises, the sweep goes on
            self.problem = shown(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")

    def _log_all(self) -> None:
        client = open_client(self.uri)
        self._keys = tracked(self.folder, self.uri)
        experiment = experiment_of(client, self.grid, self.uri)
        self._doubtful = self.doubts or self._doubts(client, experiment)
        self._write_journal(working=True)
        try:
            self._end_stale(client, experiment)
            name = f"sweep {self.grid}"
            parent = sweep_run(
                client, experiment, self.sweep, name=name, code=self.code, folder=self.folder, part=self.part
            )
            cut_short = False
            for row in itertools.chain(iter(self._rows.get, None), self._stored()):
                if cut_short := self.hurry:
                    break
                self._log(client, experiment, parent, row)
            end_sweep(client, parent, self.status, self.part)
        except BaseException:
            self._write_journal(working=True)
            raise
        doubts = self._doubtful and cut_short  # what has not been looked for may be there
        self._write_journal(working=doubts or bool(self.part))  # and this journal hides those of other parts

    def _log(self, client: MlflowClient, experiment: str, parent: str, row: Row) -> None:
        """The run of ``row``, in place of those that are not or only half of it."""
        key = str(row["key"])
        if self._doubtful or key in self._keys:
            found = list(runs_of(client, experiment, f"tags.`xsim.key` = '{key}'"))
            whole = [run for run in found if is_of(run, row)][:1]
            for run in found:
                if run not in whole:
                    client.delete_run(run.info.run_id)
            if whole:
                self._keys.add(key)
                return
        log_run(client, experiment, row, {"mlflow.parentRunId": parent, **written_by(self.folder)})
        self.logged += 1
        self._keys.add(key)

    def _stored(self) -> Iterator[Row]:
        """The rows whose keys were noted, as the tables hold them, a few at a time."""
        if not self._later:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        from runners.store import Store

        table = Store(self.folder).everything()
        table = table.filter(pc.is_in(table["key"], pa.array(sorted(set(self._later)), pa.string())))
        self._later.clear()
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            yield from batch.to_pylist()

    def _doubts(self, client: MlflowClient, experiment: str) -> bool:
        """Whether the store may have runs of ours that the journal does not know."""
        if sqlite_file(self.uri) is None:  # others may write there
            return True
        journal = read_json(self.folder / JOURNAL)
        if journal.get("uri") == shown(self.uri):
            return bool(journal.get("working", True))
        return bool(client.search_runs([experiment], "", max_results=1))

    def _end_stale(self, client: MlflowClient, experiment: str) -> None:
        """Close what a writer that was killed left RUNNING; of half a run the row is logged again."""
        own = origin(self.folder)
        usual = own if self.uri == default_uri(self.folder.parent) else None  # earlier versions did not say whose it is
        for run in list(runs_of(client, experiment, "attributes.status = 'RUNNING'")):
            tags = run.data.tags
            if tags.get("xsim.folder", usual) != own or tags.get("xsim.sweep") == self.sweep or writes(run):
                continue
            if "xsim.key" in tags:
                client.delete_run(run.info.run_id)
                self._later.append(tags["xsim.key"])
            elif "xsim.sweep" in tags:
                client.set_terminated(run.info.run_id, "KILLED")

    def _write_journal(self, *, working: bool) -> None:
        from runners.store import write_whole

        text = json.dumps({"uri": shown(self.uri), "working": working, "keys": sorted(self._keys)})
        write_whole(self.folder / JOURNAL, text.encode())
