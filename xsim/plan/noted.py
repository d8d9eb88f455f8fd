"""What a collective algorithm made of the collectives of a run, and what is to be said against its compute times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from xsim.fabric.transfers import TransferGraph
from xsim.families import name_of
from xsim.plan.comm import Collective, CollectiveKind
from xsim.plan.contracts import CollectiveAlgorithm, ComputeModel, Holding, Pass, ShardedOperator, Site
from xsim.plan.operator import Place
from xsim.spec.cluster import DeviceSpec

__all__ = ["NOT_SUMMED", "Choosing", "Doubtful", "Noted", "Taken", "Timed"]

NOT_SUMMED = "ring, as no switch sums for its ranks"
MOST_KEPT = 256  # graphs; of large rings one takes megabytes


@runtime_checkable
class Choosing(Protocol):
    """A collective algorithm that has several ways."""

    def choose(self, collective: Collective, site: Site) -> tuple[TransferGraph, str]:
        """What ``expand`` gives, and which way that is."""


@dataclass(frozen=True, slots=True, order=True)
class Taken:
    """Which way collectives of one kind, size and extent took.

    Attributes:
        ranks, hosts: How many take part.
        size_bytes: Of the whole tensor.
        way: The algorithm as the option is called, and the protocol if one was chosen.
        protocol: Whether transfers pay for one of NCCL's protocols.
    """

    kind: CollectiveKind
    ranks: int
    hosts: int
    size_bytes: int
    way: str
    protocol: bool


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """``algorithm``, and what it was asked for: each kind, size, extent and way once.

    Equal collectives, as those of equal buckets of gradients, are expanded once.
    """

    algorithm: CollectiveAlgorithm
    _found: dict[Taken, None] = field(default_factory=dict)
    _made: dict[tuple[Collective, int], TransferGraph] = field(default_factory=dict)

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        known = collective, site.element_bytes
        if known not in self._made:
            if len(self._made) == MOST_KEPT:
                self._made.clear()
            self._made[known] = self._expanded(collective, site)
        return self._made[known]

    def _expanded(self, collective: Collective, site: Site) -> TransferGraph:
        if isinstance(self.algorithm, Choosing):
            graph, way = self.algorithm.choose(collective, site)
        else:
            graph, way = self.algorithm.expand(collective, site), name_of("collective", self.algorithm)
        hosts = len({site.fabric.hosts[rank] for rank in collective.ranks})
        size_bytes, protocol = len(collective.span) * site.element_bytes, bool(graph.delay_ps.any())
        self._found[Taken(collective.kind, len(collective.ranks), hosts, size_bytes, way, protocol)] = None
        return graph

    def taken(self) -> tuple[Taken, ...]:
        """All of it, sorted."""
        return tuple(sorted(self._found))


@runtime_checkable
class Doubtful(Protocol):
    """A compute model some of whose times rest on less than others."""

    def doubt(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> str:
        """What is to be said against a time; empty if nothing is."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """``model``, and the doubts about what it was asked for: each pass of each operator on each device once."""

    model: ComputeModel
    _doubtful: Doubtful | None = field(init=False)
    _found: dict[tuple[str, ShardedOperator, Pass], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_doubtful", self.model if isinstance(self.model, Doubtful) else None)

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        time_ps = self.model.time_ps(device, operator, pass_)
        if time_ps and self._doubtful:
            self._found[device.name, operator, pass_] = self._doubtful.doubt(device, operator, pass_)
        return time_ps

    def holds(self, device: DeviceSpec, place: Place) -> bool:
        """As ``Holding``."""
        return isinstance(self.model, Holding) and self.model.holds(device, place)

    def doubts(self) -> tuple[str, ...]:
        """One sentence for each device and doubt: of how many passes of operators it is."""
        asked = Counter(device for device, _, _ in self._found)
        doubted = Counter((device, doubt) for (device, _, _), doubt in self._found.items() if doubt)
        return tuple(
            f"{count} of {asked[device]} times of operators on {device}: {doubt}"
            for (device, doubt), count in sorted(doubted.items())
        )
