"""Irregular pieces: cut wherever any shard ends (paper section 2.4, Figure 2b; AlpaComm, arXiv 2211.05322)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xsim.plan.comm import Collective, CommPlan, Step, Transfer, complete, finished, phases
from xsim.plan.contracts import Site
from xsim.plan.halves import RingHalves
from xsim.plan.launch import Choice, Job, greedy, improved
from xsim.plan.layout import Layout, pieces
from xsim.plan.tasks import UnitTask, least_loaded, shard_tasks, tile_tasks, workers
from xsim.spec.checks import at_least, at_most, not_negative

__all__ = ["AlpaComm"]


@dataclass(frozen=True, slots=True)
class AlpaComm(RingHalves):
    """Cut-point union, each piece sent once or summed in a ring of its owners; holders share the sending.

    Options matter to hand-overs alone. Where the source is replicated, who sends is chosen; where the target is, there
    is a choice of how its ranks come by what all of them need.

    With optimizer sharding (ZeRO) the halves of a sum are rings among the owners of each cut piece too.

    Attributes:
        mode: Every replica of a target is sent all (``send_recv``); is sent its shard, and the target gathers
            (``allgather``); or each slice of the source is broadcast to all replicas (``broadcast``). ``auto`` gathers
            on one host and broadcasts to several, since AlpaComm gathers on no wires between hosts.
        balance: Who sends what several hold: always the first (``none``); the one whose NIC, with all ranks behind it,
            has the least to send so far, the largest piece first (``size``); or as ``order`` says, which also decides
            in which order pieces are sent. Each then waits for the one before it at its sender and at its receivers.
        trials: For ``order``, random trials of each greedy round.
        evaluations: For ``order``, how many placements of a piece the search after that may try; 0: none.
        seed: Of the trials.
    """

    mode: Literal["auto", "send_recv", "allgather", "broadcast"] = "auto"
    balance: Literal["none", "size", "order"] = "size"
    trials: int = 100
    evaluations: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, "trials", 1)
        at_most(self, "trials", 10_000)
        not_negative(self, "evaluations")

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        if target.replicated and self._mode(target, site) != "allgather":
            tasks = tile_tasks(source, target)
            if self._mode(target, site) == "send_recv":
                tasks = [UnitTask(task.span, task.senders, (rank,)) for task in tasks for rank in task.receivers]
            return CommPlan(tuple(self._steps(tasks, site)))
        return finished(tuple(self._steps(shard_tasks(source, target), site)), (target,))

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        rings = [
            Collective("all_reduce", tuple(layout.owner(piece.start) for layout in layouts), piece)
            for piece in pieces(cut for layout in layouts for cut in layout.cuts)
        ]
        return phases(rings, [step for layout in layouts for step in complete(layout)])

    def _mode(self, target: Layout, site: Site) -> str:
        if self.mode != "auto":
            return self.mode
        return "allgather" if len({site.fabric.hosts[rank] for rank in target.ranks}) == 1 else "broadcast"

    def _steps(self, tasks: Sequence[UnitTask], site: Site) -> Iterator[Step]:
        match self.balance:
            case "none":
                yield from (_step(task, task.senders[0]) for task in tasks)
            case "size":
                senders = least_loaded(tasks, site.fabric)
                yield from (_step(task, sender) for task, sender in zip(tasks, senders, strict=True))
            case "order":
                yield from _in_order(tasks, self._order(tasks, site), site)

    def _order(self, tasks: Sequence[UnitTask], site: Site) -> tuple[Choice, ...]:
        jobs = [
            Job(len(task.span), {rank: workers(task, rank, site.fabric) for rank in task.senders}) for task in tasks
        ]
        return improved(jobs, greedy(jobs, self.trials, self.seed), self.evaluations)


def _step(task: UnitTask, sender: int, after: tuple[int, ...] = ()) -> Step:
    if len(task.receivers) == 1:
        return Transfer(sender, task.receivers[0], task.span, after=after)
    return Collective("broadcast", (sender, *task.receivers), task.span, root=0, after=after)


def _in_order(tasks: Sequence[UnitTask], order: Sequence[Choice], site: Site) -> Iterator[Step]:
    """The steps in ``order``; each waits for the last one on each of its ports."""
    last: dict[tuple[str, int], int] = {}
    for number, (chosen, sender) in enumerate(order):
        ports = workers(tasks[chosen], sender, site.fabric)
        yield _step(tasks[chosen], sender, tuple(sorted({last[port] for port in ports if port in last})))
        last.update(dict.fromkeys(ports, number))
