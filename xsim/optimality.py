"""How near each hand-over and each gradient sync comes to the best that any plan could do on the same wires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from xsim.plan.workload import Move, Sync, Workload
from xsim.sim.contracts import Network

__all__ = ["Distance", "Optimality", "optimality"]


@dataclass(frozen=True, slots=True)
class Distance:
    """One exchange against what is possible.

    Attributes:
        bound_ps: No plan takes less, all ranks starting together (``xsim.plan.bound``).
        alone_ps: What its transfers take, all ranks starting together and nothing else on the wires.
        times: How often it runs in an iteration.
    """

    bound_ps: int
    alone_ps: int
    times: int

    @property
    def optimality(self) -> float:
        """Bound over achieved; see ``Optimality``."""
        return _ratio((self,))


@dataclass(frozen=True, slots=True)
class Optimality:
    """The distances of all exchanges of a workload, in its order.

    A ratio is bound over achieved, 1 at best, and 1 where there is nothing to send. A network without contention lets
    flows pass each other, and so may exceed it.
    """

    moves: tuple[Distance, ...]
    syncs: tuple[Distance, ...]

    @property
    def of_moves(self) -> float:
        """The sum of all bounds of hand-overs over the sum of what they take, each as often as it runs."""
        return _ratio(self.moves)

    @property
    def of_syncs(self) -> float:
        """The same for the gradient syncs."""
        return _ratio(self.syncs)


def optimality(workload: Workload, network: Network) -> Optimality:
    """The distances of all moves and syncs of ``workload``; ``network`` tells what each takes alone."""
    runs = Counter(
        (number, action.carries, action.chunk)
        for number, program in enumerate(workload.programs)
        for action in program.actions
    )
    return Optimality(
        tuple(_distance(move, network, runs[move.source, move.kind, move.source_chunk]) for move in workload.moves),
        tuple(_distance(sync, network, 1) for sync in workload.syncs),
    )


def _distance(exchange: Move | Sync, network: Network, times: int) -> Distance:
    """A bound that is missed by no more than the rounding of the times, under a picosecond a transfer, is met."""
    alone_ps, bound_ps = network.solo(exchange.graph), exchange.bound_ps
    if alone_ps < bound_ps <= alone_ps + int(exchange.graph.rounds.sum()):
        bound_ps = alone_ps
    return Distance(bound_ps, alone_ps, times)


def _ratio(distances: Iterable[Distance]) -> float:
    bound_ps = alone_ps = 0
    for distance in distances:
        bound_ps += distance.times * distance.bound_ps
        alone_ps += distance.times * distance.alone_ps
    return bound_ps / alone_ps if alone_ps else 1.0
