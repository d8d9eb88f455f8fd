"""A hand-over as unit tasks, and who of the holders sends each (arXiv 2211.05322, section 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.plan.layout import Layout, pieces

__all__ = ["UnitTask", "least_loaded", "shard_tasks", "tile_tasks", "workers"]


@dataclass(frozen=True, slots=True)
class UnitTask:
    """``span`` goes from one of ``senders``, which all have it, to all of ``receivers``, which have none of it."""

    span: range
    senders: tuple[int, ...]
    receivers: tuple[int, ...]


def shard_tasks(source: Layout, target: Layout) -> list[UnitTask]:
    """A task per piece between cuts: to the owner of the piece alone, unless it has it. In tensor order.

    A replicated target has then its shards, and has yet to gather them.
    """
    tasks = []
    for span in pieces((*source.cuts, *target.cuts)):
        receiver = target.owner(span.start)
        if not source.holds(receiver, span):
            tasks.append(UnitTask(span, _senders(source, span), (receiver,)))
    return tasks


def tile_tasks(source: Layout, target: Layout) -> list[UnitTask]:
    """A task per slice that the source has, to all ranks of a replicated target that lack it. In tensor order."""
    tasks = []
    for span in pieces((0, source.size) if source.replicated else source.cuts):
        receivers = tuple(rank for rank in target.ranks if not source.holds(rank, span))
        if receivers:
            tasks.append(UnitTask(span, _senders(source, span), receivers))
    return tasks


def _senders(source: Layout, span: range) -> tuple[int, ...]:
    return source.ranks if source.replicated else (source.owner(span.start),)


def workers(task: UnitTask, sender: int, fabric: Fabric) -> tuple[tuple[str, int], ...]:
    """What ``task`` keeps busy: first the port by which ``sender`` sends, then those by which the others receive.

    Between hosts it is the NIC on the way, of all ranks behind it, in that direction; inside a host, and where the
    route has no NICs, the rank's own.
    """
    ins = dict.fromkeys(_port(rank, sender, fabric, "in") for rank in task.receivers)
    outs = [_port(sender, rank, fabric, "out") for rank in task.receivers]
    return (next((out for out in outs if out[0] == "out nic"), outs[0]), *ins)


def _port(rank: int, other: int, fabric: Fabric, way: str) -> tuple[str, int]:
    src, dst = (rank, other) if way == "out" else (other, rank)
    between = () if fabric.hosts[rank] == fabric.hosts[other] else fabric.route(src, dst)
    nics = [link for link in between if fabric.links[link].kind == "nic"]
    return (f"{way} nic", nics[0 if way == "out" else -1]) if nics else (f"{way} rank", rank)


def least_loaded(tasks: Sequence[UnitTask], fabric: Fabric) -> list[int]:
    """Of each task the sender whose port has the least to send so far, the largest task first.

    Of equals the rank that has itself the least to send, then the first.
    """
    loads: Counter[tuple[str, int]] = Counter()
    chosen = dict[int, int]()
    for number in sorted(range(len(tasks)), key=lambda number: -len(tasks[number].span)):
        task = tasks[number]
        ports = {rank: workers(task, rank, fabric)[0] for rank in task.senders}
        chosen[number] = min(task.senders, key=lambda rank: (loads[ports[rank]], loads["rank", rank]))
        loads[ports[chosen[number]]] += len(task.span)
        loads["rank", chosen[number]] += len(task.span)
    return [chosen[number] for number in range(len(tasks))]
