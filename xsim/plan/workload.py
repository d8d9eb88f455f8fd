"""What every device group executes: programs of actions, bodies of steps, and the transfers between them.

A program is what the paper calls the workload file of a device group (section 4.2, MIMD): unlike groups get unlike
programs. All transfer graphs are shared values; a network tells them apart by identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xsim.fabric.transfers import TransferGraph
from xsim.spec.deployment import DeviceGroup

__all__ = ["Action", "Body", "Collect", "Compute", "Move", "Program", "Ready", "Sync", "Workload"]


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


@dataclass(frozen=True, slots=True)
class Compute:
    """Work on the devices themselves.

    Attributes:
        kind: Operator kind: ``attention mlp layernorm embedding head optimizer``.
        durations_ps: Per rank of the group, in its order. The group goes on when the slowest has ended.
    """

    kind: str
    durations_ps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collect:
    """A blocking collective among the ranks of the group (tensor parallelism); the graph has one party.

    Attributes:
        kind: Operator kind that it belongs to.
    """

    kind: str
    graph: TransferGraph


@dataclass(frozen=True, slots=True)
class Ready:
    """The group's part of gradient sync number ``sync`` is complete; counts in the last micro-batch only."""

    sync: int


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """What one action does, step by step. Equal stages share one body (compare by identity)."""

    steps: tuple[Compute | Collect | Ready, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What one device group does in an iteration.

    Attributes:
        replica, stage, group: Its place in the deployment.
        devices: Its ranks, in tensor order, and the other fields of the group.
        actions: In order, without the update.
        bodies: By (kind, chunk); also ``("U", 0)``, which follows the gradient syncs.
    """

    replica: int
    stage: int
    group: int
    devices: DeviceGroup
    actions: tuple[Action, ...]
    bodies: Mapping[tuple[str, int], Body]


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Activations or their gradients, sent when ``source`` ends an action and needed before ``target`` starts its own.

    For every micro-batch m: when the source ends its action (m, source_chunk) that carries ``kind`` the graph is
    submitted and released; the target's (m, target_chunk) waits until it is done. Both groups are its one party: they
    begin together, and what the target waits for is the last of all rows.

    Attributes:
        kind: ``F`` activations, ``B`` their gradients.
        strategy: Which resharding strategy was taken, where one chose among others.
    """

    source: int
    target: int
    kind: str
    source_chunk: int
    target_chunk: int
    graph: TransferGraph
    strategy: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Sync:
    """One gradient synchronisation.

    Attributes:
        programs: Its members as program numbers; member i is party i of the graph.
        kind: ``dense``, ``embedding`` or ``head``: the parameter class.
        layers: Which layers' gradients.
        size_bytes: Of the gradient, over one whole copy.
        strategy: Which resharding strategy was taken, where one chose among others.
    """

    programs: tuple[int, ...]
    kind: str
    layers: range
    size_bytes: int
    graph: TransferGraph
    strategy: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Programs in order of replica, stage, group, and the traffic between them."""

    programs: tuple[Program, ...]
    moves: tuple[Move, ...]
    syncs: tuple[Sync, ...]
