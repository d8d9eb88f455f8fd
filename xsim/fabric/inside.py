"""Inside the hosts: PCIe trees, scale-up fabrics and NICs, and the ways over them.

One PCIe link each way per device, one each way from each block of its host's PCIe tree to the level above, and the
scale-up fabric of each domain; at the edge one link each way per NIC. A NIC hangs in the smallest block that holds all
devices that share it: one per device beside its device, under the same switch and so below all uplinks; one for the
host at the root, above them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import ne

from xsim.fabric.columns import Columns
from xsim.fabric.fabric import Route
from xsim.fabric.scale_out import nic_count, nics_of
from xsim.spec.cluster import ClusterSpec, DeviceSlot, HostSpec, LinkSpec

__all__ = ["Inside", "wire_hosts"]


@dataclass(slots=True, eq=False)
class Inside:
    """A few numbers per rank. A link down has the number after its link up.

    Attributes:
        pcie, scale_up: Per rank its link up.
        branch: Per rank the links up of the blocks of the PCIe tree that it is in, from the innermost.
        out, into: Per rank the links from it to the switch of its NIC, and the other way.
        domain: Per rank its scale-up domain over all hosts; -1 if it has no peers there.
        mesh: Per rank the first of its direct links in a full mesh, to its peers in order; -1 under a switch.
        position: Per rank its place in the domain.
        port: Per rank the number of its NIC among all.
        nic: Per NIC its link up.
        above: Per NIC the links up of the blocks that it is in.
    """

    host: list[int] = field(default_factory=list)
    pcie: list[int] = field(default_factory=list)
    branch: list[Route] = field(default_factory=list)
    out: list[Route] = field(default_factory=list)
    into: list[Route] = field(default_factory=list)
    scale_up: list[int] = field(default_factory=list)
    domain: list[int] = field(default_factory=list)
    mesh: list[int] = field(default_factory=list)
    position: list[int] = field(default_factory=list)
    port: list[int] = field(default_factory=list)
    nic: list[int] = field(default_factory=list)
    above: list[Route] = field(default_factory=list)
    domains: int = 0

    def way(self, src: int, dst: int) -> Route:
        """From one rank of a host to another; one of them may be a multicast group of a switch."""
        if max(src, dst) >= len(self.host):
            return self._of_switch(src, dst)
        if not self.are_peers(src, dst):
            return (self.pcie[src], *self._over_tree(src, dst), self.pcie[dst] + 1)
        if self.mesh[src] < 0:
            return (self.scale_up[src], self.scale_up[dst] + 1)
        peer = self.position[dst]
        return (self.mesh[src] + peer - (peer > self.position[src]),)

    def are_peers(self, src: int, dst: int) -> bool:
        """Whether one scale-up fabric joins the two."""
        return self.domain[src] == self.domain[dst] >= 0

    def leave(self, rank: int, port: int) -> Route:
        """From a rank over PCIe to a NIC of its host, and on to the switch of that."""
        up, down = self._to_block(rank, port)
        return (self.pcie[rank], *up, *[link + 1 for link in down[::-1]], self.nic[port])

    def enter(self, port: int, rank: int) -> Route:
        """The other way."""
        down, up = self._to_block(rank, port)
        return (self.nic[port] + 1, *up, *[link + 1 for link in down[::-1]], self.pcie[rank] + 1)

    def _to_block(self, rank: int, port: int) -> tuple[Route, Route]:
        """The links up of the blocks that only the rank is in, and of those that only the NIC is in."""
        branch, above = self.branch[rank], self.above[port]
        beside = len(branch) - len(above)
        apart = sum(map(ne, branch[beside:], above))
        return branch[: beside + apart], above[:apart]

    def _over_tree(self, src: int, dst: int) -> Route:
        """Up to the smallest block that holds both ranks, and down."""
        ends = [pair for pair in zip(self.branch[src], self.branch[dst], strict=True) if pair[0] != pair[1]]
        return (*[up for up, _ in ends], *[up + 1 for _, up in ends[::-1]])

    def _of_switch(self, src: int, dst: int) -> Route:
        """Up from a rank to a multicast group of its switch, or down."""
        rank, group = min(src, dst), max(src, dst) - len(self.host)
        assert self.scale_up[rank] >= 0, "only a rank on a switch has a way there"
        assert self.domain[rank] == self.domain[group], "and only to its own"
        return (self.scale_up[rank] + (src > dst),)


def wire_hosts(columns: Columns, cluster: ClusterSpec, switch_of_port: Sequence[int]) -> Inside:
    """Add all hosts to ``columns``, each NIC with a link to and from the vertex of its switch."""
    inside = Inside()
    for number, host in enumerate(cluster.each_host()):
        blocks = _wire_tree(columns, inside, number, host)
        _wire_nics(columns, inside, number, host, switch_of_port)
        _wire_devices(columns, inside, number, host, blocks)
    for rank, port in enumerate(inside.port):
        inside.out.append(inside.leave(rank, port))
        inside.into.append(inside.enter(port, rank))
    return inside


def _wire_tree(columns: Columns, inside: Inside, number: int, host: HostSpec) -> list[int]:
    """The blocks with their uplinks, and which of these each device passes to the root; the block of each device."""
    above = [columns.vertex("pcie", f"host{number}.pcie")] * host.size  # of each device
    branches: list[Route] = [()] * host.size
    levels = [above]
    for depth in reversed(range(len(host.pcie_tree))):
        devices = host.pcie_tree[depth].devices
        blocks = [columns.vertex("pcie", f"host{number}.pcie{depth}.{b}") for b in range(host.size // devices)]
        levels.append([blocks[device // devices] for device in range(host.size)])
    for depth, level in enumerate(host.pcie_tree):
        low, high = levels[-1 - depth], levels[-2 - depth]
        for block in range(0, host.size, level.devices):
            up = columns.pair("pcie", low[block], high[block], level.uplink)
            for device in range(block, block + level.devices):
                branches[device] += (up,)
    inside.branch += branches
    return levels[-1]


def _wire_nics(columns: Columns, inside: Inside, number: int, host: HostSpec, switch_of_port: Sequence[int]) -> None:
    """The host's NICs, each in the smallest block with all devices that share it."""
    first = len(inside.nic)
    for index in range(nic_count(host)):
        nic = columns.vertex("nic", f"host{number}.nic{index}")
        inside.nic.append(columns.pair("nic", nic, switch_of_port[first + index], host.nic.link))
    for index, devices in groupby(nics_of(host)):
        sharing = inside.branch[len(inside.port) :][: len(list(devices))]
        beside = sum(map(ne, sharing[0], sharing[-1]))
        inside.above.append(sharing[0][beside:])
        inside.port += [first + index] * len(sharing)


def _wire_devices(columns: Columns, inside: Inside, number: int, host: HostSpec, blocks: Sequence[int]) -> None:
    """PCIe of each device, then the scale-up fabric of each domain."""
    slots = [slot for slot in host.devices for _ in range(slot.count)]
    first = len(inside.host)
    for index, slot in enumerate(slots):
        inside.pcie.append(columns.pair("pcie", first + index, blocks[index], slot.pcie_link))
    inside.host += [number] * len(slots)
    for column in (inside.scale_up, inside.domain, inside.mesh, inside.position):
        column.extend([-1] * len(slots))
    for domain in dict.fromkeys(slot.domain for slot in slots):
        members = [(first + index, slot) for index, slot in enumerate(slots) if slot.domain == domain]
        kind = host.scale_up_of(domain)
        if len(members) > 1 and kind == "full_mesh":
            _connect_mesh(columns, inside, members)
        elif len(members) > 1 and kind == "nvswitch":
            _connect_switch(columns, inside, f"host{number}.domain{domain}", members)
        inside.domains += 1


def _connect_switch(columns: Columns, inside: Inside, name: str, members: list[tuple[int, DeviceSlot]]) -> None:
    """A link up and one down per device, each with the latency of its port."""
    switch = columns.vertex("scale_up", name)
    for (rank, _), port in zip(members, _scale_up_ports(members), strict=True):
        inside.domain[rank] = inside.domains
        inside.scale_up[rank] = columns.pair("scale_up", rank, switch, port)


def _connect_mesh(columns: Columns, inside: Inside, members: list[tuple[int, DeviceSlot]]) -> None:
    """A direct link per ordered pair, with the latencies of both ports; a port's rate is split over its peers."""
    specs = list(_scale_up_ports(members))
    for position, ((rank, _), own) in enumerate(zip(members, specs, strict=True)):
        inside.domain[rank], inside.position[rank] = inside.domains, position
        inside.mesh[rank] = len(columns.links)
        for (peer, _), other in zip(members, specs, strict=True):
            if peer != rank:
                rate = min(own.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s) / (len(members) - 1)
                columns.add("scale_up", rank, peer, rate, own.latency_ps + other.latency_ps)


def _scale_up_ports(members: list[tuple[int, DeviceSlot]]) -> Iterator[LinkSpec]:
    for _, slot in members:
        port = slot.scale_up_link
        assert port is not None, "HostSpec refuses a domain of several devices without ports"
        yield port
