"""Many to one, again and again: what a storage server or a parameter server meets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph, concatenate, line
from xsim.sim.asked import check_bytes, check_time, ranks_of
from xsim.sim.contracts import Burst, Stream
from xsim.spec.checks import at_least
from xsim.units import parse_bytes, parse_time

__all__ = ["Incast"]


@dataclass(frozen=True, slots=True)
class Incast:
    """So many ranks of other hosts send to one all at once, and again every period.

    The seed draws the senders, and the instant within the first period at which they begin. A burst that comes before
    the last is through waits for it.

    Attributes:
        senders: How many.
        receiver: The rank to which they send.
        size: What each sends, with its unit.
        period: From one burst to the next, with its unit.
    """

    senders: int = 4
    receiver: int = 0
    size: str = "16 MB"
    period: str = "10 ms"

    def __post_init__(self) -> None:
        at_least(self, "senders", 1)
        check_bytes(self, "size")
        check_time(self, "period")

    def traffic(self, fabric: Fabric, seed: int) -> tuple[Stream, ...]:
        (receiver,) = ranks_of((self.receiver,), fabric, "receiver")
        others = [rank for rank, host in enumerate(fabric.hosts) if host != fabric.hosts[receiver]]
        if len(others) < self.senders:
            problem = f"there are {len(others)} ranks on hosts other than that of rank {receiver}"
            raise SpecError("background.senders", self.senders, problem, "write fewer, or choose background=none")
        draw = random.Random(f"incast {seed}")
        senders, size = sorted(draw.sample(others, self.senders)), parse_bytes(self.size)
        graph = concatenate([(line(rank, receiver, range(size)), [()]) for rank in senders], [(*senders, receiver)])
        period_ps = parse_time(self.period)
        return (Stream((graph,), _bursts(graph, draw.randrange(period_ps), period_ps)),)


def _bursts(graph: TransferGraph, at_ps: int, period_ps: int) -> Iterator[Burst]:
    while True:
        yield Burst(at_ps, graph)
        at_ps += period_ps
