"""The topology of a file of HPCC's or SimAI's."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.graph import Cable
from xsim.fabric.scale_out import Port, ScaleOut, Trunk, ports
from xsim.fabric.shortest import ShortestPaths, graph_of
from xsim.fabric.text import TopologyText, parse_topology
from xsim.fabric.wiring import wire
from xsim.spec.cluster import ClusterSpec, LinkSpec
from xsim.units import format_bandwidth, format_time

__all__ = ["File"]

Numbered = tuple[int, Cable]  # which link of the file, from 0


@dataclass(frozen=True, slots=True)
class File:
    """Switches and links as the file says, shortest paths with ECMP.

    The hosts of the file (in SimAI's format the GPUs) are the NICs of the cluster in order; each hangs on one switch,
    by a link that the cluster knows as the NIC's, of the same rate and delay. What the file says of NVSwitches and the
    links to them is left to the cluster.

    Attributes:
        path: Of the file. The commands read it into ``text``, so that a run is known by what the file holds; errors
            name it all the same.
        text: What it holds.
    """

    path: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        if self.text:
            self._read()

    def build(self, cluster: ClusterSpec) -> Fabric:
        if not self.text:
            raise SpecError("topology.path", self.path, "it names no topology", "name a file that holds one")
        try:
            return _build(self._read(), cluster)
        except SpecError as error:
            raise error.under("topology") from None

    def _read(self) -> TopologyText:
        try:
            return parse_topology(self.text)
        except SpecError as error:
            raise error.under("path") from None


def _build(found: TopologyText, cluster: ClusterSpec) -> Fabric:
    access, between = _sorted(found)
    nics = ports(cluster)
    if len(access) != len(nics):
        problem = f"the cluster has {len(nics)} NICs, and each is a host of the file"
        raise SpecError("path.hosts", len(access), problem, "choose the cluster that the file was written for")
    _check_servers(found, cluster)
    for (host, (link, cable)), port in zip(sorted(access.items()), nics, strict=True):
        _check_nic(host, link, _spec(link, cable), port)
    switches = sorted(found.graph.switches - found.nvswitches)
    number = {vertex: index for index, vertex in enumerate(switches)}
    trunks = [Trunk(number[cable.a], number[cable.b], _spec(link, cable)) for link, cable in between]
    of_port = [number[cable.a + cable.b - host] for host, (_, cable) in sorted(access.items())]
    graph = graph_of(len(switches), trunks)
    for leaf in sorted(set(of_port)):
        if leaf != of_port[0] and not graph.next_hops(leaf, of_port[0]):
            problem = f"no path leads from it to switch {switches[of_port[0]]}, where other hosts are"
            raise SpecError("path.switch", switches[leaf], problem, "add the links that join the two")
    return wire(cluster, ScaleOut([f"switch{v}" for v in switches], trunks, of_port, ShortestPaths(graph)))


def _sorted(found: TopologyText) -> tuple[dict[int, Numbered], list[Numbered]]:
    """The link of each host, and those between switches; without those of NVSwitches."""
    switches, access, between = found.graph.switches, dict[int, Numbered](), list[Numbered]()
    for link, cable in enumerate(found.graph.cables):
        if {cable.a, cable.b} & found.nvswitches:
            continue
        hosts = [vertex for vertex in (cable.a, cable.b) if vertex not in switches]
        problem = ""
        if cable.loss:
            problem = f"it loses a fraction {cable.loss} of its packets, and the links of a fabric lose none"
        elif len(hosts) == 2:
            problem = "it joins two hosts, and these do not forward"
        elif hosts and hosts[0] in access:
            problem = f"host {hosts[0]} has another to a switch, and a NIC has one port"
        if problem:
            raise SpecError(f"path[link {link}]", f"{cable.a} {cable.b}", problem, "change the file")
        if hosts:
            access[hosts[0]] = link, cable
        else:
            between.append((link, cable))
    for host in found.graph.hosts:
        if host not in access:
            raise SpecError("path.host", host, "no link leads from it to a switch", "add one, or list it as a switch")
    return access, between


def _check_servers(found: TopologyText, cluster: ClusterSpec) -> None:
    sizes = {host.size for host in cluster.hosts} if found.gpus_per_server else set()
    if sizes - {found.gpus_per_server}:
        problem = f"the hosts of the cluster have {', '.join(map(str, sorted(sizes)))} devices"
        fix = "choose the cluster that the file was written for"
        raise SpecError("path.gpus_per_server", found.gpus_per_server, problem, fix)


def _check_nic(host: int, link: int, own: LinkSpec, port: Port) -> None:
    """Refuse another rate or delay than that of the NIC: one of the two would be forgotten."""
    nic = f"it is that of host {host}, NIC {port.index} of the cluster's host {port.host}, which has"
    if not isclose(own.bandwidth_bytes_per_s, port.nic.bandwidth_bytes_per_s, rel_tol=1e-9):
        here, there = (format_bandwidth(each.bandwidth_bytes_per_s) for each in (own, port.nic))
        raise SpecError(f"path[link {link}]", here, f"{nic} {there}", "make the two equal")
    if own.latency_ps != port.nic.latency_ps:
        problem = f"{nic} a latency of {format_time(port.nic.latency_ps)}"
        raise SpecError(f"path[link {link}]", format_time(own.latency_ps), problem, "make the two equal")


def _spec(link: int, cable: Cable) -> LinkSpec:
    try:
        return LinkSpec(bandwidth_bytes_per_s=cable.bandwidth_bits_per_s / 8, latency_ps=cable.delay_ps)
    except SpecError as error:
        raise SpecError(f"path[link {link}]", error.value, error.problem, error.fix) from None
