"""The seam between training side and network side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph

__all__ = ["Completion", "FlowTimes", "Network", "NetworkBackend", "NetworkStats"]


class Completion(NamedTuple):
    """A party of a submitted graph is done: each of its ranks has sent and received its last byte."""

    handle: int
    party: int
    at_ps: int


@dataclass(frozen=True, slots=True)
class FlowTimes:
    """A multiset of flow completion times: ``counts[i]`` flows took ``durations_ps[i]``; int64, sorted, distinct.

    A flow is one row of a graph in one round, from the moment it may start to its last byte at the receiver.
    """

    durations_ps: NDArray[np.int64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NetworkStats:
    """What went over the wires.

    Attributes:
        link_bytes: Bytes per link, int64, L.
        link_busy_ps: Time during which a link carried at least one flow, int64, L.
        flows: Completion times of all flows.
    """

    link_bytes: NDArray[np.int64]
    link_busy_ps: NDArray[np.int64]
    flows: FlowTimes


class Network(Protocol):
    """The state of one simulation. Time never goes back.

    A party released with ``at_ps`` ahead of the current instant starts then. A graph starts moving bytes as soon as
    parties of a row are released; a party that no row touches is done at its release.
    """

    @property
    def contends(self) -> bool:
        """Whether graphs that share a link slow each other."""

    def submit(self, graph: TransferGraph) -> int:
        """A handle of a new instance of ``graph``; nothing moves before a release."""

    def release(self, handle: int, party: int, at_ps: int) -> None:
        """The ranks of ``party`` are ready from ``at_ps`` on."""

    @property
    def next_ps(self) -> int | None:
        """The earliest pending instant at which something may complete or must be processed, or None."""

    def advance(self, until_ps: int | None) -> list[Completion]:
        """Process up to the earliest instant that completes a party, and no further than ``until_ps``.

        Returns all completions of that one instant, ordered by handle and party; empty if none falls at or before
        ``until_ps``.
        """

    def solo(self, graph: TransferGraph) -> int:
        """Picoseconds that ``graph`` takes alone, all parties released together. No effect on the state."""

    def repeat(self, graph: TransferGraph, times: int) -> None:
        """Count ``times`` isolated runs of ``graph`` in the statistics: the executor folded them."""

    def stats(self) -> NetworkStats:
        """Totals so far; at the end of a run, of everything."""


class NetworkBackend(Protocol):
    """How transfers share the wires."""

    def open(self, fabric: Fabric, seed: int) -> Network:
        """A fresh simulation."""
