"""What every search prices plans with: times, memory and links in columns, whoever measured them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xsim.plan.kinds import Sketch
from xsim.spec.cluster import DeviceSpec

__all__ = ["NEVER_PS", "Again", "Ints", "Kind", "Seat", "Tables"]

NEVER_PS = 1 << 60  # longer than any iteration; two of them can be added
Ints = NDArray[np.int64]
Again = tuple[tuple[str, int], ...]  # (operator, in how many of a stage's transformer layers, the first ones)


@dataclass(frozen=True, slots=True)
class Kind:
    """Devices of one kind.

    Attributes:
        name: Of the kind, as the cluster tells it from others.
        count: In the whole cluster.
        per_host: The most that one host has.
        hosts: How many each host has that has any.
    """

    name: str
    device: DeviceSpec
    count: int
    per_host: int
    hosts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Seat:
    """Equal copies of a stage on devices of one kind.

    Attributes:
        kind: Name of the device.
        samples: What one copy takes of a micro-batch.
        width: How many copies.
    """

    kind: str
    tp: int
    samples: int
    width: int = 1


class Tables(Protocol):
    """Times in picoseconds and sizes in bytes of the parts of plans for one model on one cluster.

    Layers 1..L are transformer layers, 0 the embedding, L + 1 the head. ``samples`` is what one copy of a stage takes
    of a micro-batch.
    """

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of the cluster, by the first rank of each."""

    @property
    def layers(self) -> int:
        """Transformer layers of the model, L."""

    @property
    def batch(self) -> int:
        """Samples of an iteration."""

    @property
    def sequence_parallel(self) -> bool:
        """Whether stages with several tensor ranks cut activations over the sequence."""

    def tps(self, kind: str) -> tuple[int, ...]:
        """Tensor-parallel degrees that devices of ``kind`` offer, ascending."""

    def micro_batches(self, kind: str, tp: int) -> tuple[int, ...]:
        """Samples that a copy may take at once, ascending; any that are asked for may be refused elsewhere."""

    def forward_ps(self, kind: str, tp: int, samples: int) -> Ints:
        """Of each layer, L + 2, with what its tensor ranks exchange."""

    def backward_ps(self, kind: str, tp: int, samples: int, again: frozenset[str] = frozenset()) -> Ints:
        """Of each layer, L + 2, if these operators of transformer layers are computed again."""

    def operator_ps(self, kind: str, tp: int, samples: int) -> Mapping[str, Mapping[str, tuple[int, int]]]:
        """By kind of layer and operator: what computing it again takes, and the bytes of a micro-batch that this saves.

        Only operators that save any.
        """

    def saved_bytes(self, kind: str, tp: int, samples: int, again: frozenset[str]) -> int:
        """Bytes of a micro-batch that a transformer layer does not keep if these operators are computed again."""

    def memory_bytes(
        self, kind: str, tp: int, samples: int, layers: range, in_flight: int, recompute: Again = ()
    ) -> int:
        """The fullest rank of a copy that holds ``layers``, ends among them, and so many micro-batches at most."""

    def memory_column(self, kind: str, tp: int, samples: int, ends: tuple[bool, bool], in_flight: int) -> Ints:
        """The same for 0..L transformer layers, L + 1, without recomputation.

        Args:
            ends: Whether it holds the embedding, and the head.
        """

    def capacity_bytes(self, kind: str) -> int:
        """Of one device."""

    def in_flight(self, stage: int, stages: int, micro_batches: int) -> int:
        """Micro-batches that a stage keeps activations of, at most."""

    def boundary_ps(self, source: Seat, target: Seat, *, near: bool = False) -> int:
        """One hand-over of a micro-batch's activations from stage to stage.

        Args:
            near: Inside a host, if one has room for both; else across hosts, if there are several.
        """

    def host(self, rank: int) -> int:
        """The host that a rank is in."""

    def hand_overs_ps(self, stages: Sequence[tuple[Seat, ...]]) -> tuple[int, ...]:
        """What each stage of a pipeline sends to its neighbours for one micro-batch, both ways, weighted."""

    def send_weights(self, stages: int) -> tuple[int, int]:
        """How many times what the first stage sends forward counts, and what the last sends back."""

    def sync_ps(self, sketch: Sketch) -> int:
        """The sum of gradients over all who hold a layer, alone: of the stage that it takes longest."""

    def sums_ps(self, sketch: Sketch) -> list[tuple[tuple[tuple[int, int], ...], int]]:
        """Each sum of gradients: (pipeline, stage) of all who have part in it, sorted, and what it takes alone."""

    def sync_floor_ps(self, kind: str, tp: int, ends: tuple[bool, bool]) -> Ints:
        """What a stage of 0..L transformer layers takes at least to sum their gradients if anybody else has any.

        Not less with more layers.

        Args:
            ends: Whether it holds the embedding, and the head.
        """

    def update_ps(self, kind: str, tp: int, layers: range, samples: int = 1) -> int:
        """The optimizer on one copy of a stage; a profile may know it by the samples that the copy takes at once."""
