"""Why an iteration takes as long as it does: its critical path, and what would shorten it.

python -m runners.explain key=3f9a
python -m runners.explain key=3f9a out=results levers=false

The run is found by its key, or a beginning of it, among all results under ``out``, and simulated again. Its path goes
from the start to the end without a gap: what was computed, sent or waited for, where, and how long. Then the same
experiment is simulated with one thing changed: each kind of link twice as wide, each kind of device 1.1 times as fast,
every other resharding strategy, every other schedule.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.command import Parser, exits, tell
from xsim.errors import SpecError

if TYPE_CHECKING:
    from xsim.experiment import Experiment, Result

__all__ = ["main"]

KEYS: Mapping[str, str] = {
    "key": "of the run, or a beginning of it that no other run has",
    "out": "folder of all results, or of one sweep; default: outputs",
    "levers": "false: the path alone, without further simulations; default: true",
}
DIGITS = "0123456789abcdef"
NAMED = 5  # runs in an error


@exits
def main(argv: Sequence[str]) -> int:
    """Print path and levers, and write them as tables and a figure."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="key=value", help="; ".join(f"{k}: {v}" for k, v in KEYS.items()))
    given = _pairs(parser.parse_args(argv).words)
    out = Path(given.get("out", "outputs")).expanduser()
    folder, row = _found(out, given.get("key", ""))
    from dataclasses import replace

    from analysis.titles import row_title
    from analysis.version import CONFIG
    from runners.inputs import read
    from runners.warm import warm
    from runners.watch import watching
    from xsim.experiment import run

    config = json.loads(row[CONFIG]) | {"estimate": {"name": "none"}}
    try:
        experiment = replace(read(config).experiment(), memory="report")
    except KeyError as error:
        problem = f"an earlier version of the simulator wrote that run, without {error}"
        raise SpecError("key", row["key"], problem, "start it again") from None
    warm(experiment.network)
    with watching(experiment.network) as network:
        result = run(replace(experiment, network=network))
    print(f"{row_title(row)}  [{row['key']}] in {folder}")
    _compare(row, result)
    _explain(experiment, result, folder / "detail" / row["key"], pull=given.get("levers", "true") == "true")
    return 0


def _pairs(words: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in KEYS or not value:
            raise SpecError("command line", word, "it cannot be read", f"write {', '.join(f'{k}=...' for k in KEYS)}")
        if key in given:
            raise SpecError(key, value, "it is set twice", "set it once")
        given[key] = value
    if given.get("levers", "true") not in ("true", "false"):
        raise SpecError("levers", given["levers"], "it is neither", "write true or false")
    return given


def _found(out: Path, beginning: str) -> tuple[Path, dict[str, Any]]:
    """The folder of the run whose key begins so, and its row.

    Raises:
        SpecError: No run or more than one has such a key, or the run did not end well.
    """
    from analysis.stored import stored

    if not beginning or beginning.strip(DIGITS):
        raise SpecError("key", beginning, "it is no beginning of a key", "write some of its digits: key=3f9a")
    if not out.is_dir():
        raise SpecError("out", str(out), "there is no such folder", "write out=FOLDER, where your runs lie")
    places: dict[str, Path] = {}
    for folder in (out, *sorted(path for path in out.iterdir() if path.is_dir())):
        table = stored(folder, ("key",))
        for key in [] if table is None else table["key"].to_pylist():
            if key.startswith(beginning):
                places.setdefault(key, folder)
    if not places:
        fix = "python -m runners.sweep dry_run=true, runners.run and the column key name them"
        raise SpecError("key", beginning, f"no run under {out} has such a key", fix)
    if len(places) > 1:
        named = ", ".join(sorted(places)[:NAMED])
        raise SpecError("key", beginning, f"{len(places)} runs have such keys: {named}", "write more digits")
    ((key, folder),) = places.items()
    found = stored(folder)
    assert found is not None
    (row,) = (each for each in found.to_pylist() if each["key"] == key)
    if row["status"] not in ("ok", "does_not_fit"):
        raise SpecError("key", key, f"that run has no iteration: {row['status']}: {row['reason']}", "choose another")
    return folder, row


def _compare(row: Mapping[str, Any], result: Result) -> None:
    """Whether the iteration is the one that was stored."""
    from runners.inputs import code_hash

    now_s, then_s = result.metrics.training_time_s, row["training_time_s"]
    if row["code"] != code_hash():
        tell("note: another version of the simulator wrote that row; this one explains what it simulates itself")
    if then_s is not None and then_s != now_s:
        tell(f"note: the iteration takes {now_s:.6g} s here, and {then_s:.6g} s in that row")


def _explain(experiment: Experiment, result: Result, detail: Path, *, pull: bool) -> None:
    from analysis.critical import draw
    from runners.detail import write_tables
    from runners.explained import path_table, print_levers, print_path, tried
    from xsim.critical import critical_path

    table = path_table(experiment, result, critical_path(result.workload, result.timeline))
    print_path(table, result)
    tables = {"critical_path": table}
    if pull:
        tables["levers"] = tried(experiment, result)
        print()
        print_levers(tables["levers"], result.timeline.makespan_ps)
    else:
        (detail / "levers.parquet").unlink(missing_ok=True)
    write_tables(detail, tables)
    print(f"\nTables: {', '.join(str(detail / f'{name}.parquet') for name in tables)}")
    print(f"Figure: {draw(detail)}")


if __name__ == "__main__":
    raise SystemExit(main())
