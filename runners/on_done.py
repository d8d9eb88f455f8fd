"""What a user lets the shell do when a sweep has ended: send a message, start the next."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from analysis.command import tell
from runners.stop import Stop

__all__ = ["Ending", "told"]


@dataclass(slots=True)
class Ending:
    """How the sweep ended; what an unforeseen end leaves is an error.

    Attributes:
        code: The exit code.
        summary: One line.
    """

    code: int = 1
    summary: str = "it ended by an error"


@contextmanager
def told(command: str, folder: Path, stop: Stop) -> Iterator[Ending]:
    """Run ``command`` when the block ends, however it ends; empty: nothing.

    It finds the folder of the results in ``XSIM_SWEEP``, the exit code in ``XSIM_EXIT_CODE`` and one line about the
    rows in ``XSIM_SUMMARY``. What it does or fails to do changes nothing here.
    """
    ending = Ending()
    try:
        yield ending
    finally:
        if command:
            known = {"XSIM_EXIT_CODE": str(stop.code or ending.code), "XSIM_SUMMARY": ending.summary}
            environment = os.environ | known | {"XSIM_SWEEP": str(folder)}
            done = subprocess.run(command, shell=True, env=environment, stdin=subprocess.DEVNULL, check=False)
            if done.returncode:
                tell(f"warning: on_done ended with exit code {done.returncode}")
