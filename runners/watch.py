"""Tells how far a long simulation is, while it runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from analysis.command import tell
from xsim.fabric.fabric import Fabric
from xsim.sim.contracts import Fault, Network, NetworkBackend

__all__ = ["Watched", "watching"]

QUIET_S = 2.0  # what is over by then says nothing on its way
LINE_EVERY_S = 5.0
PS_PER_MS = 10**9


@dataclass(slots=True)
class Watched:
    """A network as ``backend`` makes it, that others may look at.

    Attributes:
        iterations: How many there are.
        number: The one that is simulated, from 0.
        opened: The network that was opened last.
        planning: How far the planner is, in words; empty once it has its plan, or if it does not say.
    """

    backend: NetworkBackend
    iterations: int = 1
    number: int = 0
    opened: Network | None = field(default=None)
    planning: str = ""

    def open(self, fabric: Fabric, seed: int, faults: Sequence[Fault] = ()) -> Network:
        """See ``NetworkBackend``."""
        self.opened = self.backend.open(fabric, seed, faults)
        return self.opened

    def begins(self, number: int) -> None:
        """Iteration ``number`` is next; a network that was opened before is none of its."""
        self.number, self.opened, self.planning = number, None, ""

    def plans(self, begins: bool) -> None:
        """The planner begins, or has its plan."""
        self.planning = "planning" if begins else ""

    def progress(self, done: int, of: int, what: str) -> None:
        """The planner is so far."""
        self.planning = f"the planner is at {done} of {of} {what}"

    def state(self, since_ps: int) -> tuple[str, int]:
        """How far it is, in words and in ps, if it was at ``since_ps`` when somebody last looked."""
        if self.planning:
            return self.planning, since_ps
        if _compiles():
            return "compiling the simulator, once", since_ps
        which = "the iteration" if self.iterations == 1 else f"iteration {self.number + 1} of {self.iterations}"
        if self.opened is None:
            return f"preparing {which}", since_ps
        now_ps = self.opened.now_ps
        alone = ", exchanges are simulated alone" if now_ps == since_ps else ""
        return f"{now_ps / PS_PER_MS:.3f} ms of {which}{alone}", now_ps


@contextmanager
def watching(backend: NetworkBackend, iterations: int = 1) -> Iterator[Watched]:
    """``backend`` to simulate so many iterations with.

    Stderr tells how far it is, in a status on a terminal, else in a line at times.
    """
    watched, over = Watched(backend, iterations), threading.Event()
    show = _on_terminal if sys.stderr.isatty() else _in_lines
    teller = threading.Thread(target=show, args=(watched, over.wait), daemon=True)
    teller.start()
    try:
        yield watched
    finally:
        over.set()
        teller.join()


def _in_lines(watched: Watched, over: Callable[[float], bool]) -> None:
    started_s, now_ps, pause_s = time.monotonic(), -1, QUIET_S
    while not over(pause_s):
        text, now_ps = watched.state(now_ps)
        tell(f"[{time.monotonic() - started_s:6.1f} s] {text}")
        pause_s = LINE_EVERY_S


def _on_terminal(watched: Watched, over: Callable[[float], bool]) -> None:
    if over(QUIET_S):
        return
    from rich.console import Console

    now_ps = -1
    with Console(stderr=True).status("") as status:
        while not over(1.0):
            text, now_ps = watched.state(now_ps)
            status.update(text)


def _compiles() -> bool:
    """Whether this process compiles what simulates; it is not loaded before it is needed."""
    module: Any = sys.modules.get("xsim.sim.kernels.turn")
    return bool(module and module.compiles())
