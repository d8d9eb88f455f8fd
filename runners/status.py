"""Where a sweep stands, from any shell: reads its folder and changes nothing.

python -m runners.status outputs/hetero_llama
python -m runners.status hetero_llama            # the same: a grid's folder under outputs
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.command import Parser, alone, exits
from analysis.screen import counted, print_table
from xsim.errors import SpecError

__all__ = ["main"]

SILENT_S = 30.0  # a sweep that runs notes its state every 5 s
STATUS = "status*.json"
LISTS: tuple[tuple[str, list[object]], ...] = (("running", []), ("failures", []))
DIED = "died"
LARGEST = 2**31  # number in a note: no process has a larger one
NAMED = 10  # sweeps in an error


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0 while all is well, 1 if points failed or the sweep died, 2 if there is no sweep."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="its folder, or the name of a grid under outputs")
    given = parser.parse_args(argv)
    asked = alone(given.sweep, "runners.status")
    folder = asked if asked.is_dir() else Path("outputs") / asked
    notes = _notes(folder)
    if not notes:
        problem = "no sweep has left word there" if folder.is_dir() else "there is no such folder"
        fix = "name the folder of a sweep, such as outputs/hetero_llama"
        there = [path.name for path in sorted(Path("outputs").glob("*/")) if _notes(path)]
        if there and len(asked.parts) == 1:
            more = f" and {len(there) - NAMED} more" if len(there) > NAMED else ""
            fix = f"there are: {', '.join(there[:NAMED])}{more}"
        raise SpecError("sweep", str(asked), problem, fix)
    for name, note in notes.items():
        _print(folder, name.removeprefix("status").removeprefix("-"), note)
    return int(any(_failed(note) or _state(note).startswith(DIED) for note in notes.values()))


def _notes(folder: Path) -> dict[str, dict[str, Any]]:
    """What the parts of the sweep in ``folder`` left, by the stem of the file."""
    found = {path.stem: _read(path) for path in sorted(folder.glob(STATUS))}
    return {name: note for name, note in found.items() if note}


def _read(path: Path) -> dict[str, Any]:
    """The note in ``path``; nothing if something else than a sweep has written it."""
    try:
        found = json.loads(path.read_text())
    except (ValueError, OSError, RecursionError):
        return {}
    return found if isinstance(found, dict) and _is_note(found) else {}


def _is_note(found: Mapping[str, Any]) -> bool:
    """Whether what is shown of ``found`` has the types of a note; only its state must be there."""
    done, running, failures = (found.get(name) or default for name, default in (("done", {}), *LISTS))
    numbers = [found.get(name) or 0 for name in ("total", "pid", "noted_unix_s", "per_minute", "eta_s")]
    if not (isinstance(found.get("state"), str) and isinstance(done, dict)):
        return False
    if not (isinstance(running, list) and isinstance(failures, list)):
        return False
    if not all(isinstance(each, dict) for each in (*running, *failures)):
        return False
    numbers += [*done.values(), *(each.get("for_s") for each in running)]
    worded = all({"worker", "point"} <= set(each) for each in running)
    told = all({"status", "reason", "first"} <= set(each) for each in failures)
    sound = all(isinstance(number, int | float) and abs(number) < LARGEST for number in numbers)
    return worded and told and sound


def _print(folder: Path, part: str, note: Mapping[str, Any]) -> None:
    done: Mapping[str, int] = note.get("done") or {}
    states = ", ".join(f"{count} {status}" for status, count in sorted(done.items())) or "none yet"
    name = f"{folder.name}, part {part}" if part else folder.name
    state, total = note.get("state"), note.get("total") or 0
    known = "at least " if _state(note).startswith(DIED) else ""  # what ended after the last note is in the tables
    asked = f"{total} asked for" if note.get("only") else counted(total, "point")
    print(f"{name}: {_state(note)}, {known}{sum(done.values())} of {asked} done ({states})")
    if state == "running" and not _state(note).startswith(DIED):
        print(f"{note.get('per_minute') or 0:.3g} a minute, {_left(note.get('eta_s'))}")
        running = note.get("running") or []
        rows = [[str(each["worker"]), f"{each['for_s']:.0f} s", each["point"]] for each in running]
        if rows:
            print_table(["worker", "for", "point"], rows, numbers=["for"])
    for failure in note.get("failures") or []:
        print(f"{failure['status']}: {failure['reason']} (first: {failure['first']})")


def _left(eta_s: float | None) -> str:
    from runners.progress import shown_s

    return "no point tells yet how long the rest takes" if eta_s is None else f"about {shown_s(eta_s)} left"


def _failed(note: Mapping[str, Any]) -> bool:
    from runners.brake import FAILURES

    return any((note.get("done") or {}).get(status) for status in FAILURES)


def _state(note: Mapping[str, Any]) -> str:
    """``running``, or what the note of a sweep that no longer runs means."""
    state = str(note.get("state"))
    if state != "running":
        cause = str(note.get("cause") or state)
        return state if cause == state else f"{state} ({cause})"
    age_s = max(0.0, time.time() - float(note.get("noted_unix_s") or 0))
    here = note.get("host") == socket.gethostname()
    if here and not _lives(int(note.get("pid") or 0)):
        return f"{DIED} (its process is gone; the same command runs the rest)"
    if age_s > SILENT_S:
        return f"silent for {age_s:.0f} s on {note.get('host')}"
    return "running"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return pid > 0


if __name__ == "__main__":
    raise SystemExit(main())
