"""Beyond the NICs: switches, the cables between them, and which way goes from switch to switch.

A topology makes one of these of a cluster; ``wiring.wire`` joins it to the hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Route
from xsim.spec.cluster import LARGEST_UPLINKS, ClusterSpec, HostSpec, LinkSpec, NicSpec

__all__ = [
    "LeafSpine",
    "Paths",
    "Port",
    "ScaleOut",
    "Trunk",
    "check_trunks",
    "leaf_spine",
    "nic_count",
    "nics_of",
    "ports",
]


@dataclass(frozen=True, slots=True)
class Port:
    """One NIC of one host, as a topology sees it.

    Attributes:
        host: Number of the host.
        index: Which NIC of that host, from 0.
    """

    host: int
    index: int
    nic: NicSpec


def ports(cluster: ClusterSpec) -> tuple[Port, ...]:
    """All NICs of the cluster, in order of host and index."""
    hosts = enumerate(cluster.each_host())
    return tuple(Port(number, index, host.nic) for number, host in hosts for index in range(nic_count(host)))


def nic_count(host: HostSpec) -> int:
    """How many NICs the host has."""
    return host.size if host.nic.per_host is None else host.nic.per_host


def nics_of(host: HostSpec) -> list[int]:
    """Index of the NIC of each device of ``host``; devices share NICs in contiguous blocks."""
    return [device * nic_count(host) // host.size for device in range(host.size)]


class Trunk(NamedTuple):
    """A cable between switches ``a`` and ``b``; ``link`` is one direction of it."""

    a: int
    b: int
    link: LinkSpec


class Paths(Protocol):
    """Which links lie between two different switches that NICs hang on. Trunk i is 2 i from its ``a``, 2 i + 1 back."""

    def hashed(self, start: int, end: int, src: int, dst: int) -> Route:
        """The path of what rank ``src`` under ``start`` sends to rank ``dst`` under ``end``."""

    def choices(self, start: int, end: int) -> int:
        """How many paths a switch may choose from; ``hashed`` is one of them."""

    def chosen(self, start: int, end: int, choice: int) -> Route:
        """Each of them, for 0..``choices``."""


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """All that joins the hosts.

    Attributes:
        names: Of each switch, for people.
        trunks: What lies between them.
        of_port: The switch of each of ``ports(cluster)``.
    """

    names: Sequence[str]
    trunks: Sequence[Trunk]
    of_port: Sequence[int]
    paths: Paths


def check_trunks(count: int, option: str, value: object) -> None:
    """Refuse what would only exhaust memory; ``option`` of the topology is why there are so many trunks."""
    if count > LARGEST_UPLINKS:
        problem = f"with this cluster that is {count} links between switches, more than {LARGEST_UPLINKS}"
        raise SpecError(f"topology.{option}", value, problem, "choose fewer or smaller switches")


def leaf_spine(names: Sequence[str], of_port: Sequence[int], uplinks: Sequence[LinkSpec], spines: int) -> ScaleOut:
    """Leaves with ``names``, each with one of ``uplinks`` to each of so many spines; 0 if there is but one leaf."""
    leaves = len(names)
    trunks = [Trunk(leaf, leaves + spine, uplinks[leaf]) for leaf in range(leaves) for spine in range(spines)]
    return ScaleOut([*names, *(f"spine{spine}" for spine in range(spines))], trunks, of_port, LeafSpine(spines))


@dataclass(frozen=True, slots=True)
class LeafSpine:
    """Up to any spine, and down."""

    spines: int

    def hashed(self, start: int, end: int, src: int, dst: int) -> Route:
        return self.chosen(start, end, ecmp(src, dst, self.spines))

    def choices(self, start: int, end: int) -> int:
        return self.spines

    def chosen(self, start: int, end: int, choice: int) -> Route:
        return 2 * (start * self.spines + choice), 2 * (end * self.spines + choice) + 1
