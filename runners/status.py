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

from analysis.command import Parser, exits
from analysis.screen import counted, print_table
from xsim.errors import SpecError

__all__ = ["main"]

SILENT_S = 30.0  # a sweep that runs notes its state every 5 s
STATUS = "status*.json"


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0 while all is well, 1 if points failed or the sweep died, 2 if there is no sweep."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="its folder, or the name of a grid under outputs")
    given = parser.parse_args(argv)
    folder = given.sweep if given.sweep.is_dir() else Path("outputs") / given.sweep
    found = {path.stem: _read(path) for path in sorted(folder.glob(STATUS))} if folder.is_dir() else {}
    notes = {name: note for name, note in found.items() if note}
    if not notes:
        problem = "no sweep has left word there" if folder.is_dir() else "there is no such folder"
        raise SpecError("sweep", str(given.sweep), problem, "name the folder of a sweep, such as outputs/hetero_llama")
    for name, note in notes.items():
        _print(folder, name.removeprefix("status").removeprefix("-"), note)
    return int(any(_failed(note) or _state(note).startswith("died") for note in notes.values()))


def _read(path: Path) -> dict[str, Any]:
    """The note in ``path``; nothing if something else than a sweep has written it."""
    try:
        found = json.loads(path.read_text())
    except (ValueError, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def _print(folder: Path, part: str, note: Mapping[str, Any]) -> None:
    done: Mapping[str, int] = note.get("done") or {}
    states = ", ".join(f"{count} {status}" for status, count in sorted(done.items())) or "none yet"
    name = f"{folder.name}, part {part}" if part else folder.name
    print(f"{name}: {_state(note)}, {sum(done.values())} of {counted(note.get('total', 0), 'point')} done ({states})")
    state = note.get("state")
    if state == "running" and not _state(note).startswith("died"):
        print(f"{note.get('per_minute', 0):.3g} a minute, {_left(note.get('eta_s'))}")
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
        return state
    age_s = max(0.0, time.time() - float(note.get("noted_unix_s") or 0))
    here = note.get("host") == socket.gethostname()
    if here and not _lives(int(note.get("pid") or 0)):
        return "died (its process is gone; the same command runs the rest)"
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
