"""Rows as runs of MLflow: found again by their tag ``xsim.key``, so that nothing is doubled.

A journal beside the tables spares the question to whoever alone writes to a store, unless its last writer did not come
to its end.

A sweep starts this module as a process of its own (``runners.track``): MLflow takes 150 MB, and seconds to load. It is
told what to do, and then the rows, by lines of JSON on stdin, and answers with one line at its end.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.secrets import shown
from analysis.stored import read_json
from runners.mlflow_database import is_usable
from runners.mlflow_row import is_of, log_run
from runners.mlflow_runs import (
    end_sweep,
    experiment_of,
    is_own,
    open_client,
    runs_of,
    sweep_run,
    writes,
    written_by,
)
from runners.settings import sqlite_file
from runners.whole_files import write_whole

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from runners.store import Row

__all__ = ["JOURNAL", "Ending", "Target", "Writer", "serve", "told", "tracked"]

JOURNAL = "tracked.json"
BATCH_ROWS = 500  # read from the tables at a time
PR_SET_PDEATHSIG = 1  # linux/prctl.h
TOLD = 300  # characters of what MLflow raised


def tracked(folder: Path, uri: str) -> set[str]:
    """Keys of the runs of the tables in ``folder`` that the store at ``uri`` has."""
    journal = read_json(folder / JOURNAL)
    database = sqlite_file(uri)
    if journal.get("uri") != shown(uri) or (database is not None and not is_usable(database)):
        return set()
    keys = journal.get("keys")
    return {key for key in keys if isinstance(key, str)} if isinstance(keys, list) else set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the runs of a sweep go.

    Attributes:
        uri: Tracking URI, absolute.
        grid: Name of the MLflow experiment.
        sweep: Identity of the sweep; its parent run carries it as a tag.
        folder: Of the tables, which the caller holds; the journal lies there.
        code: Hash of the simulator.
        part: Of the sweep, which others log beside; empty: all of it.
    """

    uri: str
    grid: str
    sweep: str
    folder: Path
    code: str
    part: str = ""


@dataclass(slots=True)
class Ending:
    """What is known of a sweep when its last row has come.

    Attributes:
        status: How it ended: FINISHED, FAILED or KILLED.
        hurry: Leave what is not logged yet to the next start: somebody wants the process to end.
        keys: Of further rows, which the tables hold.
    """

    status: str = "FAILED"
    hurry: bool = False
    keys: Sequence[str] = ()


@dataclass(slots=True)
class Writer:
    """Writes rows to a store; one at a time works on a folder.

    Attributes:
        doubts: Whether the store is asked about every run, whatever the journal says.
        logged: Runs that were written.
    """

    target: Target
    doubts: bool = False
    logged: int = 0
    _keys: set[str] = field(default_factory=set)
    _halves: list[str] = field(default_factory=list)

    def write(self, rows: Iterable[Row], ending: Ending) -> None:
        """Log ``rows``, and then those that ``ending`` names, which may be filled in while ``rows`` come.

        Raises:
            Exception: Whatever MLflow raises.
        """
        target = self.target
        client = open_client(target.uri)
        self._keys = tracked(target.folder, target.uri)
        experiment = experiment_of(client, target.grid, target.uri, target.folder)
        self.doubts = self.doubts or self._doubts(client, experiment)
        self._write_journal(working=True)
        try:
            self._end_stale(client, experiment)
            parent = sweep_run(
                client,
                experiment,
                target.sweep,
                name=f"sweep {target.grid}",
                code=target.code,
                folder=target.folder,
                uri=target.uri,
                part=target.part,
            )
            for row in rows:
                self._log(client, experiment, parent, row)
            if not ending.hurry:
                for row in self._stored(ending.keys):
                    self._log(client, experiment, parent, row)
            end_sweep(client, parent, ending.status, target.part)
            _check_there(target.uri)
        except BaseException:
            self._write_journal(working=True)
            raise
        doubts = self.doubts and ending.hurry  # what has not been looked for may be there
        self._write_journal(working=doubts or bool(target.part))  # and this journal hides those of other parts

    def _log(self, client: MlflowClient, experiment: str, parent: str, row: Row) -> None:
        """The run of ``row``, in place of those that are not or only half of it."""
        key = str(row["key"])
        if self.doubts or key in self._keys:
            every = runs_of(client, experiment, f"tags.`xsim.key` = '{key}'")
            found = [run for run in every if is_own(run.data.tags, self.target.folder, self.target.uri)]
            whole = [run for run in found if is_of(run, row)][:1]
            for run in found:
                if run not in whole:
                    client.delete_run(run.info.run_id)
            if whole:
                self._keys.add(key)
                return
        log_run(client, experiment, row, {"mlflow.parentRunId": parent, **written_by(self.target.folder)})
        self.logged += 1
        self._keys.add(key)

    def _stored(self, keys: Iterable[str]) -> Iterator[Row]:
        """The rows of ``keys``, and those of which half a run was found, as the tables hold them, a few at a time."""
        wanted = {*keys, *self._halves}
        if not wanted:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        from analysis.tables import runs

        table = runs(self.target.folder)
        if table is None:
            return
        table = table.filter(pc.is_in(table["key"], pa.array(sorted(wanted), pa.string())))
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            yield from batch.to_pylist()

    def _doubts(self, client: MlflowClient, experiment: str) -> bool:
        """Whether the store may have runs of ours that the journal does not know."""
        target = self.target
        if sqlite_file(target.uri) is None:  # others may write there
            return True
        journal = read_json(target.folder / JOURNAL)
        if journal.get("uri") == shown(target.uri):
            return bool(journal.get("working", True))
        return bool(client.search_runs([experiment], "", max_results=1))

    def _end_stale(self, client: MlflowClient, experiment: str) -> None:
        """Close what a writer that was killed left RUNNING; of half a run the row is logged again."""
        target = self.target
        for run in list(runs_of(client, experiment, "attributes.status = 'RUNNING'")):
            tags = run.data.tags
            own = is_own(tags, target.folder, target.uri)
            if not own or tags.get("xsim.sweep") == target.sweep or writes(run):
                continue
            if "xsim.key" in tags:
                client.delete_run(run.info.run_id)
                self._halves.append(tags["xsim.key"])
            elif "xsim.sweep" in tags:
                client.set_terminated(run.info.run_id, "KILLED")

    def _write_journal(self, *, working: bool) -> None:
        text = json.dumps({"uri": shown(self.target.uri), "working": working, "keys": sorted(self._keys)})
        write_whole(self.target.folder / JOURNAL, text.encode())


def _check_there(uri: str) -> None:
    """Refuse to have written to a file that has no name any more.

    Raises:
        FileNotFoundError: Somebody removed it.
    """
    database = sqlite_file(uri)
    if database is not None and not database.exists():
        raise FileNotFoundError(f"{database} was removed while it was written")


def told(error: Exception) -> str:
    """What MLflow raised, as a line without secrets."""
    text = " ".join(str(error).split())
    return shown(f"{type(error).__name__}: {text if len(text) <= TOLD else f'{text[: TOLD - 4]} ...'}")


def serve(lines: Iterable[str]) -> dict[str, object]:
    """Do what ``lines`` ask for; what is answered: runs that were written, and why not all, if so.

    The first line is a target, each that follows a ``row``, the last an ``ending``.
    """
    asked, ending, logged, problem = _messages(lines), Ending(), 0, ""
    try:
        target = next(asked)
        writer = Writer(Target(**{**target, "folder": Path(target["folder"])}))
        try:
            writer.write(_rows(asked, ending), ending)
        finally:
            logged = writer.logged
    except Exception as error:  # whatever MLflow raises, the sweep goes on
        problem = told(error)
    return {"logged": logged, "problem": problem}


def _messages(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    yield from map(json.loads, lines)
    raise EOFError("the sweep was killed")


def _rows(asked: Iterator[Mapping[str, Any]], ending: Ending) -> Iterator[Row]:
    """The rows that are ``asked`` for, and at last how it ends."""
    for each in asked:
        if "ending" in each:
            end = each["ending"]
            ending.status, ending.hurry, ending.keys = end["status"], end["hurry"], end["keys"]
            return
        yield each["row"]


def main() -> int:
    """Serve the process that started this one, whose number is the argument, as long as it lives."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # that process says when it is time
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the next sweep may write to the same store
    if os.getppid() != int(sys.argv[1]):
        return 1
    answers, sys.stdout = sys.stdout, sys.stderr  # what MLflow prints is no answer
    answer = serve(sys.stdin)
    try:
        print(json.dumps(answer), file=answers, flush=True)
    except BrokenPipeError:  # that process was killed
        os._exit(1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
