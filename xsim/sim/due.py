"""Events whose instant the network tells."""

from __future__ import annotations

import simpy

__all__ = ["Due"]


class Due(simpy.Event):
    """An event whose instant the network tells; it is set off as SimPy's own Timeout sets itself off."""

    def come_in(self, delay_ps: int) -> None:
        """Happen ``delay_ps`` from now."""
        self._ok, self._value = True, None
        self.env.schedule(self, delay=delay_ps)
