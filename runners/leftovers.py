"""Nothing of Ray outlives its sweep: processes that hold a folder are ended, then the folder is removed.

Started as a program, ``python leftovers.py FOLDER``, it watches over a driver that may be killed at any time: it waits
until its standard input ends, which the system sees to, and cleans up then. It needs the standard library alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["end_all", "holders"]

ROUNDS = 50  # processes that are starting may appear after the first look
PAUSE_S = 0.05
NAMES = ("gcs_server", "python", "ray")  # raylet, ray::Worker; whoever looks into a log with another program may go on


def holders(folder: str) -> Iterator[int]:
    """Ids of other processes of this user that name ``folder`` in their command line or have a file in it open.

    Both are needed: workers overwrite their command line, and a raylet opens its files late.
    """
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) not in (os.getpid(), os.getppid()) and _holds(Path("/proc", entry), folder):
            yield int(entry)


def _holds(process: Path, folder: str) -> bool:
    try:
        if process.stat().st_uid != os.getuid() or not (process / "comm").read_text().startswith(NAMES):
            return False
        if folder.encode() in (process / "cmdline").read_bytes():
            return True
        inside = f"{folder}/"
        return any(os.readlink(descriptor).startswith(inside) for descriptor in (process / "fd").iterdir())
    except OSError:  # it has ended meanwhile, or is not ours to look at
        return False


def end_all(folder: str) -> None:
    """Kill the holders of ``folder``, and remove it with all that is in it."""
    for _ in range(ROUNDS):
        found = list(holders(folder))
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:  # it has ended, or is another user's
                continue
        shutil.rmtree(folder, ignore_errors=True)
        if not found and not os.path.exists(folder):
            return
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # for the driver, who sees to this one's end
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_all(sys.argv[1])
