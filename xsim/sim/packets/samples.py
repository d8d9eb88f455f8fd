"""The links of a packet simulation at instants a fixed interval apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.sim.contracts import LinkSamples
from xsim.sim.kernels import packet_columns as k
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.packets.engine import Engine

__all__ = ["Sampler"]

Ints = NDArray[np.int64]
MOST_ROWS = 10**7  # a gigabyte or so, with what becomes of them
FIRST_ROWS = 1024


class Sampler:
    """Runs an engine and looks at its links whenever an interval is over; what happens is the same as without it.

    Attributes:
        due: The tick of the next look; ``NEVER_PS`` without an interval.
    """

    def __init__(self, interval_ps: int | None, tick_ps: int, links: int, option: str = "sample") -> None:
        """``option`` is what sets the interval, for messages."""
        self._interval, self._tick_ps = (interval_ps or 0) // tick_ps, tick_ps
        self.due = self._interval or NEVER_PS
        self._sent: Ints = np.zeros(links, dtype=np.int64)
        self._shown = np.zeros(links, dtype=np.bool_)  # last time
        self._table: Ints = np.zeros((4, 0), dtype=np.int64)  # instants, links, queued and sent bytes
        self._rows, self._option = 0, option

    def run(self, engine: Engine, until: int) -> int:
        """Process events up to ``until`` as ``Engine.run`` does, and answer as it does."""
        while self.due < NEVER_PS:
            self._pass_over(engine)
            answer = engine.run(min(until, self.due))
            if answer != k.LATER or until < self.due or engine.sim[k.ENDED]:
                return answer
            self._look(engine.ports())
        return engine.run(until)

    def found(self, engine: Engine) -> LinkSamples | None:
        """All looks so far, and a last one if something was sent since; None without an interval."""
        if not self._interval:
            return None
        table = self._table[:, : self._rows]
        links = engine.ports()
        if (links[:, k.BYTES] != self._sent).any():
            table = np.concatenate((table, self._seen(links)), axis=1)
        tick, link, queued, sent = table
        return LinkSamples(self._interval * self._tick_ps, tick * self._tick_ps, link, queued, sent)

    def _look(self, links: Ints) -> None:
        new = self._seen(links)
        rows = new.shape[1]
        self._make_room_for(rows)
        self._table[:, self._rows : self._rows + rows] = new
        self._rows += rows
        self._shown = (links[:, k.BACKLOG] > 0) | (links[:, k.BYTES] != self._sent)
        self._sent = links[:, k.BYTES].copy()
        self.due += self._interval

    def _seen(self, links: Ints) -> Ints:
        """Instant, link, queued and sent bytes, of links that have something to show, or had it last time."""
        queued, sent = links[:, k.BACKLOG], links[:, k.BYTES] - self._sent
        seen = np.flatnonzero((queued > 0) | (sent > 0) | self._shown)
        return np.stack((np.full(len(seen), self.due), seen, queued[seen], sent[seen]))

    def _make_room_for(self, rows: int) -> None:
        if self._rows + rows > MOST_ROWS:
            problem = f"there are more than {MOST_ROWS} samples of links"
            raise SpecError(self._option, f"{self._interval * self._tick_ps} ps", problem, "choose a longer interval")
        if self._rows + rows > self._table.shape[1]:
            grown = max(FIRST_ROWS, 2 * self._table.shape[1], self._rows + rows)
            self._table = np.concatenate((self._table, np.zeros((4, grown - self._table.shape[1]), np.int64)), axis=1)

    def _pass_over(self, engine: Engine) -> None:
        """Leave out looks before the next event, if they would see nothing."""
        if self._shown.any() or (engine.links[: len(self._sent), k.BYTES] != self._sent).any():
            return
        self.due = max(self.due, -(-engine.next_tick() // self._interval) * self._interval)
