"""From racks to wires: what every topology has in common.

Inside a host: one PCIe link each way per device, one each way from each block of its PCIe tree to the level above, and
the scale-up fabric of each domain. At its edge: one link each way per NIC. Beyond: every NIC hangs on a leaf switch,
every leaf has one link each way to every spine. A topology says which leaf, and how wide the uplinks are.

A path is one of

    rank to itself         nothing
    same scale-up domain   scale-up out of the source, into the target (``full_mesh``: one direct link)
    same host otherwise    PCIe out of the source, [up to the smallest block with both, down,] PCIe into the target
    other host             PCIe out, [up,] NIC out, [leaf to spine, spine to leaf,] NIC in, [down,] PCIe in
    to and from a switch   scale-up out of the rank, scale-up into it

A NIC hangs in the smallest block that holds all devices that share it: one per device beside its device, under the
same switch and so below all uplinks; one for the host at the root, above them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import ne

import numpy as np

from xsim.fabric.fabric import Fabric, Gate, Link
from xsim.spec.cluster import ClusterSpec, DeviceSlot, HostSpec, LinkSpec, NicSpec

__all__ = ["Leaves", "Port", "nics_of", "ports", "spine_of", "wire"]

_MASK = (1 << 64) - 1


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


@dataclass(frozen=True, slots=True)
class Leaves:
    """The switches that hosts hang on, and their way to the spines.

    Attributes:
        names: Of each leaf.
        of_port: Leaf of each of ``ports(cluster)``.
        uplinks: Per leaf, one of its links to a spine.
        spines: How many; every leaf has one uplink to each. 0 if there is but one leaf.
    """

    names: Sequence[str]
    of_port: Sequence[int]
    uplinks: Sequence[LinkSpec]
    spines: int


def ports(cluster: ClusterSpec) -> tuple[Port, ...]:
    """All NICs of the cluster, in order of host and index."""
    hosts = enumerate(cluster.each_host())
    return tuple(Port(number, index, host.nic) for number, host in hosts for index in range(_nics(host)))


def nics_of(host: HostSpec) -> list[int]:
    """Index of the NIC of each device of ``host``; devices share NICs in contiguous blocks."""
    return [device * _nics(host) // host.size for device in range(host.size)]


def spine_of(src: int, dst: int, spines: int) -> int:
    """ECMP: the spine that carries what rank ``src`` sends to rank ``dst``.

    The pair is mixed by the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
    Generators, OOPSLA 2014), and the upper bits choose: like a switch's hash, blind to load, and the same on every run.
    """
    mixed = (src << 32 | dst) * 0x9E3779B97F4A7C15 & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return (mixed ^ mixed >> 31) * spines >> 64


def wire(cluster: ClusterSpec, leaves: Leaves) -> Fabric:
    """The fabric of ``cluster`` with its NICs on ``leaves``. Cost: a few microseconds per device."""
    columns = _Columns()
    ways = _Ways(spines=leaves.spines)
    _wire_leaves(columns, ways, leaves)
    for number, host in enumerate(cluster.each_host()):
        _wire_tree(columns, ways, number, host)
        _wire_nics(columns, ways, number, host, leaves)
        _wire_devices(columns, ways, number, host)
    return Fabric(
        bandwidth_bytes_per_s=np.array(columns.bandwidths, dtype=np.float64),
        latency_ps=np.array(columns.latencies, dtype=np.int64),
        links=tuple(columns.links),
        hosts=tuple(ways.host),
        router=ways,
        gates=ways.gate,
        switches=tuple(number if link >= 0 else -1 for number, link in zip(ways.domain, ways.scale_up, strict=True)),
    )


@dataclass(slots=True)
class _Columns:
    """The fabric's link columns while they grow."""

    bandwidths: list[float] = field(default_factory=list)
    latencies: list[int] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)

    def add(self, kind: str, start: str, end: str, bandwidth_bytes_per_s: float, latency_ps: int) -> int:
        self.bandwidths.append(bandwidth_bytes_per_s)
        self.latencies.append(latency_ps)
        self.links.append(Link(f"{start} -> {end}", kind))
        return len(self.links) - 1

    def pair(self, kind: str, low: str, high: str, link: LinkSpec) -> int:
        """A link up and, next to it, one down; the number of the first."""
        up = self.add(kind, low, high, link.bandwidth_bytes_per_s, link.latency_ps)
        self.add(kind, high, low, link.bandwidth_bytes_per_s, link.latency_ps)
        return up


@dataclass(slots=True, eq=False)
class _Ways:
    """The router: a few numbers per rank, NIC and leaf. A link down has the number after its link up.

    Attributes:
        pcie, scale_up: Per rank its link up.
        branch: Per rank the links up of the blocks of the PCIe tree that it is in, from the innermost.
        to_nic, from_nic: Per rank those of them that lie between it and its NIC, and the links down the other way.
        domain: Per rank its scale-up domain over all hosts; -1 if it has no peers there.
        mesh: Per rank the first of its direct links in a full mesh, to its peers in order; -1 under a switch.
        position: Per rank its place in the domain.
        nic: Per rank its NIC's link up.
        leaf: Per rank the leaf of that NIC.
        uplink: Per leaf its link up to spine 0; those to the others follow in pairs.
    """

    spines: int
    host: list[int] = field(default_factory=list)
    pcie: list[int] = field(default_factory=list)
    branch: list[tuple[int, ...]] = field(default_factory=list)
    to_nic: list[tuple[int, ...]] = field(default_factory=list)
    from_nic: list[tuple[int, ...]] = field(default_factory=list)
    scale_up: list[int] = field(default_factory=list)
    domain: list[int] = field(default_factory=list)
    mesh: list[int] = field(default_factory=list)
    position: list[int] = field(default_factory=list)
    nic: list[int] = field(default_factory=list)
    leaf: list[int] = field(default_factory=list)
    uplink: list[int] = field(default_factory=list)
    ports: int = 0
    domains: int = 0

    def __call__(self, src: int, dst: int) -> tuple[int, ...]:
        if src == dst:
            return ()
        if max(src, dst) >= len(self.host):
            return self._of_switch(src, dst)
        if self.host[src] != self.host[dst]:
            up, down = self.to_nic[src], self.from_nic[dst]
            between = self._across(src, dst)
            return (self.pcie[src], *up, self.nic[src], *between, self.nic[dst] + 1, *down, self.pcie[dst] + 1)
        if self.domain[src] != self.domain[dst] or self.domain[src] < 0:
            return (self.pcie[src], *self._over_tree(src, dst), self.pcie[dst] + 1)
        if self.mesh[src] < 0:
            return (self.scale_up[src], self.scale_up[dst] + 1)
        peer = self.position[dst]
        return (self.mesh[src] + peer - (peer > self.position[src]),)

    def gate(self, rank: int) -> Gate:
        """What all routes of ``rank`` to other hosts have in common."""
        pcie, nic, leaf = self.pcie[rank], self.nic[rank], self.leaf[rank]
        first = self.uplink[leaf]
        up, down = (range(first + way, first + way + 2 * self.spines, 2) for way in (0, 1))
        out, into = (pcie, *self.to_nic[rank], nic), (nic + 1, *self.from_nic[rank], pcie + 1)
        return Gate(out, into, leaf, up, down)

    def _over_tree(self, src: int, dst: int) -> tuple[int, ...]:
        """Up to the smallest block that holds both ranks, and down."""
        ends = [pair for pair in zip(self.branch[src], self.branch[dst], strict=True) if pair[0] != pair[1]]
        return (*[up for up, _ in ends], *[up + 1 for _, up in ends[::-1]])

    def _of_switch(self, src: int, dst: int) -> tuple[int, ...]:
        """Up from a rank to a vertex of its switch, or down."""
        rank, vertex = min(src, dst), max(src, dst) - len(self.host)
        assert self.scale_up[rank] >= 0, "only a rank on a switch has a way there"
        assert self.domain[rank] == self.domain[vertex], "and only to its own"
        return (self.scale_up[rank] + (src > dst),)

    def _across(self, src: int, dst: int) -> tuple[int, ...]:
        start, end = self.leaf[src], self.leaf[dst]
        if start == end:
            return ()
        spine = 2 * spine_of(src, dst, self.spines)
        return (self.uplink[start] + spine, self.uplink[end] + spine + 1)


def _nics(host: HostSpec) -> int:
    return host.size if host.nic.per_host is None else host.nic.per_host


def _wire_leaves(columns: _Columns, ways: _Ways, leaves: Leaves) -> None:
    for name, uplink in zip(leaves.names, leaves.uplinks, strict=True):
        ways.uplink.append(len(columns.links))
        for spine in range(leaves.spines):
            columns.pair("spine", name, f"spine{spine}", uplink)


def _wire_tree(columns: _Columns, ways: _Ways, number: int, host: HostSpec) -> None:
    """The uplinks of the blocks, and which of them each device passes to the root and to its NIC."""
    branches: list[tuple[int, ...]] = [()] * host.size
    if not host.pcie_tree:  # most hosts: nothing to work out per device
        for column in (ways.branch, ways.to_nic, ways.from_nic):
            column.extend(branches)
        return
    for depth, level in enumerate(host.pcie_tree):
        for block in range(0, host.size, level.devices):
            low, high = (_block(number, host, height, block) for height in (depth, depth + 1))
            up = columns.pair("pcie", low, high, level.uplink)
            for device in range(block, block + level.devices):
                branches[device] += (up,)
    ways.branch += branches
    for _, devices in groupby(range(host.size), key=nics_of(host).__getitem__):
        sharing = [branches[device] for device in devices]
        apart = sum(map(ne, sharing[0], sharing[-1]))
        ways.to_nic += [branch[:apart] for branch in sharing]
        ways.from_nic += [tuple(up + 1 for up in branch[:apart][::-1]) for branch in sharing]


def _block(number: int, host: HostSpec, depth: int, device: int) -> str:
    """The block of a device so many levels up, 0 being the innermost; the root above the last."""
    if depth == len(host.pcie_tree):
        return f"host{number}.pcie"
    return f"host{number}.pcie{depth}.{device // host.pcie_tree[depth].devices}"


def _wire_nics(columns: _Columns, ways: _Ways, number: int, host: HostSpec, leaves: Leaves) -> None:
    """The host's NICs."""
    first, count = ways.ports, _nics(host)
    ups = [
        columns.pair("nic", f"host{number}.nic{index}", leaves.names[leaves.of_port[first + index]], host.nic.link)
        for index in range(count)
    ]
    for index in nics_of(host):
        ways.nic.append(ups[index])
        ways.leaf.append(leaves.of_port[first + index])
    ways.ports += count


def _wire_devices(columns: _Columns, ways: _Ways, number: int, host: HostSpec) -> None:
    """PCIe of each device, then the scale-up fabric of each domain."""
    slots = [slot for slot in host.devices for _ in range(slot.count)]
    first = len(ways.host)
    for index, slot in enumerate(slots):
        ways.pcie.append(columns.pair("pcie", f"rank{first + index}", _block(number, host, 0, index), slot.pcie_link))
    ways.host += [number] * len(slots)
    for column in (ways.scale_up, ways.domain, ways.mesh, ways.position):
        column.extend([-1] * len(slots))
    for domain in dict.fromkeys(slot.domain for slot in slots):
        members = [(first + index, slot) for index, slot in enumerate(slots) if slot.domain == domain]
        kind = host.scale_up_of(domain)
        if len(members) > 1 and kind == "full_mesh":
            _connect_mesh(columns, ways, members)
        elif len(members) > 1 and kind == "nvswitch":
            _connect_switch(columns, ways, f"host{number}.domain{domain}", members)
        ways.domains += 1


def _connect_switch(columns: _Columns, ways: _Ways, name: str, members: list[tuple[int, DeviceSlot]]) -> None:
    """A link up and one down per device, each with the latency of its port."""
    for (rank, _), port in zip(members, _scale_up_ports(members), strict=True):
        ways.domain[rank] = ways.domains
        ways.scale_up[rank] = columns.pair("scale_up", f"rank{rank}", name, port)


def _connect_mesh(columns: _Columns, ways: _Ways, members: list[tuple[int, DeviceSlot]]) -> None:
    """A direct link per ordered pair, with the latencies of both ports; a port's rate is split over its peers."""
    specs = list(_scale_up_ports(members))
    for position, ((rank, _), own) in enumerate(zip(members, specs, strict=True)):
        ways.domain[rank], ways.position[rank] = ways.domains, position
        ways.mesh[rank] = len(columns.links)
        for (peer, _), other in zip(members, specs, strict=True):
            if peer != rank:
                rate = min(own.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s) / (len(members) - 1)
                columns.add("scale_up", f"rank{rank}", f"rank{peer}", rate, own.latency_ps + other.latency_ps)


def _scale_up_ports(members: list[tuple[int, DeviceSlot]]) -> Iterator[LinkSpec]:
    for _, slot in members:
        port = slot.scale_up_link
        assert port is not None, "HostSpec refuses a domain of several devices without ports"
        yield port
