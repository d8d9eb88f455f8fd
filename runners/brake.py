"""What ends a sweep before all of its points are done."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from runners.stop import Stop

__all__ = ["FAILURES", "Brake"]

FAILURES = ("failed", "timeout", "crashed", "out_of_memory")  # the other states are answers


@dataclass(slots=True)
class Brake:
    """Signals, too many failures, and a budget of time.

    Attributes:
        stop: Where signals are noted.
        max_failures: So many rows that failed end the sweep; absent: none do.
        time_budget_s: From now on; absent: no end.
    """

    stop: Stop = field(default_factory=Stop)
    max_failures: int | None = None
    time_budget_s: float | None = None
    _failures: int = 0
    _started_s: float = field(default_factory=time.monotonic)

    def count(self, status: str) -> None:
        """One more row."""
        self._failures += status in FAILURES

    def held(self) -> AbstractContextManager[None]:
        """Within, signals show in ``cause`` alone."""
        return self.stop.held()

    @property
    def failed(self) -> bool:
        """Whether too many rows failed."""
        return self.max_failures is not None and self._failures >= self.max_failures

    @property
    def cause(self) -> str:
        """Why nothing more may start; empty while all is well."""
        if self.stop.code:
            return "interrupted"
        if self.failed:
            return f"max_failures={self.max_failures} is reached"
        if self.time_budget_s is not None and time.monotonic() - self._started_s >= self.time_budget_s:
            return "time_budget is used up"
        return ""
