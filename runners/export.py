"""Make MLflow's view of a sweep anew, from its tables alone; what is right already stays.

python -m runners.export outputs/hetero_llama
python -m runners.export outputs/hetero_llama --uri http://127.0.0.1:5000
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.command import Parser, alone, exits, tell
from analysis.screen import counted
from analysis.secrets import shown
from runners.brake import FAILURES
from xsim.errors import SpecError, XsimError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["main"]

EARLIER = "earlier"  # sweep of the rows for which no manifest lies there


@exits
def main(argv: Sequence[str]) -> int:
    """Write every run of a folder, under the sweep that asked for it first."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep: outputs/<grid>")
    parser.add_argument(
        "--uri",
        help="tracking URI; default: mlflow.db beside the folder; environment: what the "
        "variable MLFLOW_TRACKING_URI names",
    )
    given = parser.parse_args(argv)
    folder = alone(given.folder, "runners.export").resolve()
    from analysis import load
    from runners.preflight import check_place, check_store, claimed
    from runners.settings import tracking_uri

    table = load(folder, every_version=True)
    uri = tracking_uri(given.uri, folder.parent)
    if uri is None:
        raise SpecError("--uri", given.uri, "it names no store", "name one, or leave it out")
    check_place("folder", folder)
    check_store(uri, "folder" if given.uri is None else "--uri")
    with claimed(folder, ["runners.export", *argv]):
        written, removed = _export(folder, table, uri)
    more = f", {removed} removed that no table holds" if removed else ""
    tell(f"{shown(uri)} has {counted(table.num_rows, 'run')} of {folder.name}: {written} written{more}")
    return 0


def _export(folder: Path, table: pa.Table, uri: str) -> tuple[int, int]:
    """How many runs were written, and how many removed."""
    from runners.mlflow_writer import JOURNAL, Ending, Target, Writer, told

    (folder / JOURNAL).unlink(missing_ok=True)  # the store itself is asked what it has
    written = 0
    for sweep, keys, status, code in _sweeps(folder, table):
        target = Target(uri=uri, grid=folder.name, sweep=sweep, folder=folder, code=code)
        writer = Writer(target, doubts=True)
        try:
            writer.write((), Ending(status=status, keys=keys))
        except Exception as error:
            raise XsimError(f"MLflow: {told(error)}") from error
        written += writer.logged
    return written, _remove_strangers(folder, set(table["key"].to_pylist()), uri)


def _sweeps(folder: Path, table: pa.Table) -> Iterator[tuple[str, list[str], str, str]]:
    """Per sweep its identity, the keys of its rows (that no sweep before it has), how it ended, and its code."""
    from analysis.stored import read_json
    from analysis.tables import SWEEP, SWEEPS

    states = dict(zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True))
    notes = [read_json(path) for path in sorted((folder / SWEEPS).glob("[!.]*.json"))]
    notes = sorted((note for note in notes if "points" in note), key=lambda note: str(note.get("started")))
    last = read_json(folder / SWEEP)
    if "points" in last and last.get("sweep") not in [note["sweep"] for note in notes]:
        notes.append({"sweep": EARLIER} | last)
    left = dict.fromkeys(states)
    for note in notes:
        keys = [point["key"] for point in note["points"]]
        failed = any(states.get(key) in FAILURES for key in keys)
        whole = all(key in states for key in keys)
        own = [key for key in keys if key in left]
        for key in own:
            left.pop(key)
        status = "KILLED" if not whole else "FAILED" if failed else "FINISHED"
        yield str(note["sweep"]), own, status, str(note.get("code"))
    if left:
        failed = any(states[key] in FAILURES for key in left)
        yield EARLIER, list(left), "FAILED" if failed else "FINISHED", ""


def _remove_strangers(folder: Path, keys: set[str], uri: str) -> int:
    """Delete the runs that were logged from this folder and are in no table of it."""
    from runners.mlflow_runs import experiment_of, is_own, open_client, runs_of

    client = open_client(uri)
    found = runs_of(client, experiment_of(client, folder.name, uri, folder), "")
    own = [run for run in found if is_own(run.data.tags, folder, uri)]
    strangers = [run for run in own if "xsim.key" in run.data.tags and run.data.tags["xsim.key"] not in keys]
    for run in strangers:
        client.delete_run(run.info.run_id)
    return len(strangers)


if __name__ == "__main__":
    raise SystemExit(main())
