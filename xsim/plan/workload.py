"""What every device group executes: programs of actions, bodies of steps, and the transfers between them.

A program is what the paper calls the workload file of a device group (section 4.2, MIMD): unlike groups get unlike
programs. All transfer graphs are shared values; a network tells them apart by identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from xsim.fabric.transfers import TransferGraph
from xsim.spec.deployment import DeviceGroup

__all__ = [
    "UPDATE",
    "Action",
    "Body",
    "Collect",
    "Compute",
    "Fetch",
    "Move",
    "Program",
    "Ready",
    "Step",
    "Sync",
    "Workload",
]


_CARRIED = {"F": "F", "B": "B", "I": "B"}


@dataclass(frozen=True, slots=True, order=True)
class Action:
    """One entry of a pipeline schedule.

    Attributes:
        kind: ``F`` forward; ``B`` backward, or its two halves ``I`` (gradients of the input) and, at any later time,
            ``W`` (gradients of the weights); ``U`` optimizer update.
        micro_batch: From 0; 0 for ``U``.
        chunk: Virtual stage, from 0; in a bidirectional schedule those of the mirrored stage follow
            (``xsim.plan.route``).
    """

    kind: str
    micro_batch: int
    chunk: int = 0

    @property
    def carries(self) -> str:
        """Kind of the moves that it waits for and sends, ``F`` or ``B``; empty if it depends on no other stage."""
        return _CARRIED.get(self.kind, "")

    @property
    def completes(self) -> bool:
        """Whether the gradients of the weights are complete with it, and its activations no longer needed."""
        return self.kind in ("B", "W")

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch}" if not self.chunk else f"{self.kind}{self.micro_batch}.{self.chunk}"


UPDATE = Action("U", 0)


@dataclass(frozen=True, slots=True)
class Compute:
    """Work on the devices themselves.

    Attributes:
        kind: Operator kind: ``attention mlp router experts layernorm embedding head optimizer``, or what holds a rank
            up: ``stall``, ``data_loading``.
        durations_ps: Per rank of the group, in its order. The group goes on when the slowest has ended.
    """

    kind: str
    durations_ps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collect:
    """A blocking collective among ranks of the group, or several at once; the graph has one party.

    Attributes:
        kind: Operator kind that it belongs to.
        beside: Work that begins with it and runs side by side; the group goes on when both have ended.
    """

    kind: str
    graph: TransferGraph
    beside: Compute | None = None

    @property
    def beside_ps(self) -> int:
        """What the slowest rank does beside it takes."""
        return max(self.beside.durations_ps) if self.beside else 0


@dataclass(frozen=True, slots=True)
class Ready:
    """The group's part of gradient sync number ``sync`` is complete; counts in the last micro-batch only.

    Attributes:
        every: If above 0 it counts in all micro-batches: in the n-th to pass, from 0, for sync number
            ``sync + every * n``.
    """

    sync: int
    every: int = 0


@dataclass(frozen=True, slots=True)
class Fetch:
    """The group needs the weights of the layers that come next, and goes on when it has them.

    Attributes:
        sync, every: In the n-th action to pass the chunk in that direction, from 0, sync number ``sync + every * n``
            brings them: a fetch, or a gather that has been under way since the iteration began.
    """

    sync: int
    every: int = 0


Step = Compute | Collect | Ready | Fetch


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """What one action does, step by step. Equal stages share one body (compare by identity)."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What one device group does in an iteration.

    Attributes:
        replica, stage, group: Its place in the deployment; of several groups that share out experts the first one's.
        devices: Its ranks, and the other fields of the group; of several groups all of them as one, each of whose ranks
            of equal place in a tensor order has copies of the dense weights.
        actions: In order, without the update.
        bodies: By (kind, chunk); also ``("U", 0)``, which follows the gradient syncs.
        own: Of single actions that do something else than the others of their kind and chunk.
    """

    replica: int
    stage: int
    group: int
    devices: DeviceGroup
    actions: tuple[Action, ...]
    bodies: Mapping[tuple[str, int], Body]
    own: Mapping[Action, Body] = field(default_factory=dict)

    def body(self, action: Action) -> Body:
        """What the program does in ``action``, which may be ``UPDATE``."""
        own = self.own.get(action) if self.own else None  # actions are many, and most programs have none of these
        return own or self.bodies[action.kind, action.chunk]

    def each_body(self) -> Iterator[Body]:
        """All that it does, those of single actions last."""
        yield from self.bodies.values()
        yield from self.own.values()

    def completions(self) -> dict[int, tuple[int, bool]]:
        """By number of each action that completes gradients: how many of its chunk did before, and if none follows."""
        numbers: dict[int, list[int]] = {}
        for number, action in enumerate(self.actions):
            if action.completes:
                numbers.setdefault(action.chunk, []).append(number)
        return {number: (turn, turn + 1 == len(own)) for own in numbers.values() for turn, number in enumerate(own)}

    def turns(self) -> tuple[int, ...]:
        """Of each action, how many passed its chunk in its direction before."""
        passed: Counter[tuple[str, int]] = Counter()
        found: list[int] = []
        for action in self.actions:
            way = action.carries, action.chunk
            found.append(passed[way])
            passed[way] += 1
        return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Activations or their gradients, sent when ``source`` ends an action and needed before ``target`` starts its own.

    For every micro-batch m: when the source ends its action (m, source_chunk) that carries ``kind`` the graph is
    submitted and released; the target's (m, target_chunk) waits until it is done. Both groups are its one party: they
    begin together, and what the target waits for is the last of all rows.

    Attributes:
        kind: ``F`` activations, ``B`` their gradients.
        strategy: Which way was taken, where the resharding strategy has several (see ``CommPlan``).
        bound_ps: No plan takes less (``xsim.plan.bound``).
    """

    source: int
    target: int
    kind: str
    source_chunk: int
    target_chunk: int
    graph: TransferGraph
    strategy: str = ""
    bound_ps: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Sync:
    """One gradient synchronisation, or what optimizer sharding makes of it.

    Attributes:
        programs: Its members as program numbers; member i is party i of the graph. They come to it when their gradients
            are complete, to a gather when they have updated, to one ahead when the iteration begins, to a fetch in the
            midst of an action.
        kind: ``dense``, ``expert``, ``embedding`` or ``head``: the parameter class.
        layers: Which layers' gradients, or parameters.
        size_bytes: Of the gradient, over one whole copy.
        strategy: Which way was taken, where the resharding strategy has several (see ``CommPlan``).
        bound_ps: No plan takes less (``xsim.plan.bound``).
        does: ``sum`` gives every member the sum of the gradients; ``scatter`` each rank that of its shard, and
            ``gather`` all members the parameters that the ranks have updated on their shards; ``ahead`` does so with
            those of the iteration before, beside its forward passes; ``fetch`` does so before a pass through their
            layers, after which no member keeps more than its shards.
    """

    programs: tuple[int, ...]
    kind: str
    layers: range
    size_bytes: int
    graph: TransferGraph
    strategy: str = ""
    bound_ps: int = 0
    does: Literal["sum", "scatter", "gather", "ahead", "fetch"] = "sum"

    @property
    def content(self) -> str:
        """What is exchanged: which parameters or their gradients, of which layers."""
        what = "parameters" if self.does in ("gather", "ahead", "fetch") else "gradients"
        return f"{self.kind} {what} of layers {self.layers.start}..{self.layers.stop - 1}"


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Programs in order of replica, stage, group, and the traffic between them.

    Attributes:
        syncs: One that recurs is that of the next micro-batch: every member comes to it in this order.
        serial_sync: A program takes part in its syncs one after the other, in order of their number; else in each as
            soon as its gradients are complete. Fetches, for which it stands still, are not among them.
        blocking_sends: A program that has sent something goes on when it has arrived; else at once.
        prefetch: When a program has come to a fetch and has what it brings, it comes to its next fetch, which goes on
            beside what it does with these weights; else when it needs that.
        rendezvous: Moves begin when both sides have come to them, and both wait for their end, in the order of
            ``xsim.sim.exchanges``.
    """

    programs: tuple[Program, ...]
    moves: tuple[Move, ...]
    syncs: tuple[Sync, ...]
    serial_sync: bool = False
    blocking_sends: bool = False
    rendezvous: bool = False
    prefetch: bool = False
