"""The links of a packet simulation at instants a fixed interval apart."""

from __future__ import annotations

from itertools import chain

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
        self._rows: list[tuple[int, Ints, Ints, Ints]] = []
        self._count, self._option = 0, option

    def run(self, engine: Engine, until: int) -> int:
        """Process events up to ``until`` as ``Engine.run`` does, and answer as it does."""
        while self.due < NEVER_PS:
            self._pass_over(engine)
            answer = engine.run(min(until, self.due))
            if answer != k.LATER or until < self.due or engine.sim[k.ENDED]:
                return answer
            self._look(engine.links)
        return engine.run(until)

    def found(self, engine: Engine) -> LinkSamples | None:
        """All looks so far, and a last one if something was sent since; None without an interval."""
        if not self._interval:
            return None
        if (engine.links[:, k.BYTES] != self._sent).any():
            self._look(engine.links)
        nothing: Ints = np.zeros(0, dtype=np.int64)
        columns = [np.concatenate((nothing, *column)) for column in zip(*(row[1:] for row in self._rows), strict=True)]
        link, queued, sent = columns or (nothing, nothing, nothing)
        ticks = chain.from_iterable([tick] * len(links) for tick, links, *_ in self._rows)
        time = np.fromiter(ticks, dtype=np.int64, count=len(link))
        return LinkSamples(self._interval * self._tick_ps, time * self._tick_ps, link, queued, sent)

    def _look(self, links: Ints) -> None:
        queued, sent = links[:, k.BACKLOG], links[:, k.BYTES] - self._sent
        shows = (queued > 0) | (sent > 0)
        rows = np.flatnonzero(shows | self._shown)
        self._rows.append((self.due, rows, queued[rows], sent[rows]))
        self._sent, self._shown = links[:, k.BYTES].copy(), shows
        self.due += self._interval
        self._count += len(rows)
        if self._count > MOST_ROWS:
            problem = f"there are more than {MOST_ROWS} samples of links"
            raise SpecError(self._option, f"{self._interval * self._tick_ps} ps", problem, "choose a longer interval")

    def _pass_over(self, engine: Engine) -> None:
        """Leave out looks before the next event, if they would see nothing."""
        if self._shown.any() or (engine.links[:, k.BYTES] != self._sent).any():
            return
        self.due = max(self.due, -(-engine.next_tick() // self._interval) * self._interval)
