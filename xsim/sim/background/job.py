"""A neighbour that trains too: it computes, sums its gradients, and computes again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph, concatenate, line
from xsim.plan.layout import even_pieces
from xsim.plan.patterns import cycle, host_order
from xsim.sim.asked import check_bytes, check_time, ranks_of
from xsim.sim.contracts import Burst, Stream
from xsim.units import parse_bytes, parse_time

__all__ = ["Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """A second training job: a pause in which it computes, a ring all-reduce, and so on.

    It is held up by the traffic that it meets, as the training is: its next pause begins when its all-reduce has ended.
    The seed draws how far it is in its first pause when the training begins.

    Attributes:
        size: What is summed, with its unit.
        pause: What it computes in between takes so long; with its unit.
        ranks: Who takes part, in a ring host by host; empty for the last rank of every host.
    """

    size: str = "1 GB"
    pause: str = "100 ms"
    ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_bytes(self, "size")
        check_time(self, "pause")

    def traffic(self, fabric: Fabric, seed: int) -> tuple[Stream, ...]:
        last_of_host = {host: rank for rank, host in enumerate(fabric.hosts)}
        ranks = ranks_of(self.ranks or tuple(last_of_host.values()), fabric)
        if len(ranks) < 2:
            problem, fix = "a ring needs two ranks or more", "name the ranks of the job, or choose background=none"
            raise SpecError("background.ranks", list(ranks), problem, fix)
        order, size, pause_ps = host_order(ranks, fabric), parse_bytes(self.size), parse_time(self.pause)
        rest_ps = random.Random(f"job {seed}").randint(1, pause_ps)
        first, later = _iteration(order, size, rest_ps), _iteration(order, size, pause_ps)
        return (Stream((first, later), _iterations(first, later)),)


def _iteration(order: Sequence[int], size: int, pause_ps: int) -> TransferGraph:
    """The pause, as a row of one rank to itself for which the ring waits, and the ring."""
    pause = line(order[0], order[0], range(0))
    around = cycle("all_reduce", order, even_pieces(range(size), len(order)))
    graph = concatenate([(pause, [()]), (around, [(0,)] * len(order))], [order])
    delay_ps = graph.delay_ps.copy()
    delay_ps[0] = pause_ps
    return replace(graph, delay_ps=delay_ps)


def _iterations(first: TransferGraph, later: TransferGraph) -> Iterator[Burst]:
    yield Burst(0, first)
    while True:
        yield Burst(0, later)
