"""Topologies of SimAI: those of HPCC, with servers and the NVSwitches in them.

The first line is ``node_num gpus_per_server nvswitch_num switch_num link_num gpu_type``; then come the numbers of the
NVSwitches and of the other switches, and a line per link. GPUs have the numbers from 0 on, server by server.
"""

from __future__ import annotations

from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.fabric.graph import Graph
from xsim.interop.cables import MOST_VERTICES, read_cables, read_vertices, write_cables
from xsim.interop.words import Words, integer

__all__ = ["SimaiTopology", "read_topology", "write_topology"]


@dataclass(frozen=True, slots=True, eq=False)
class SimaiTopology:
    """A graph, and what the file says of servers.

    Attributes:
        graph: GPUs are its hosts, NVSwitches are among its switches.
        gpus_per_server: GPU g is in server ``g // gpus_per_server``.
        nv_switches: Switches that join the GPUs of a server.
        gpu_type: ``H100`` or the like.
    """

    graph: Graph
    gpus_per_server: int
    nv_switches: frozenset[int]
    gpu_type: str


def read_topology(text: str, name: str = "topology") -> SimaiTopology:
    """The topology of a file; ``name`` is that of the file, for messages. Raises SpecError."""
    words = Words(text, name)
    vertices = words.integer("node_num", 1, MOST_VERTICES)
    at, per_server = words.take("gpus_per_server")
    gpus_per_server = integer(at, per_server, "gpus_per_server", 1, vertices)
    nv_switches = words.integer("nvswitch_num", 0, vertices)
    switches = words.integer("switch_num", 0, vertices - nv_switches)
    links = words.integer("link_num")
    _, gpu_type = words.take("gpu_type")
    gpus = vertices - nv_switches - switches
    if gpus % gpus_per_server:
        raise SpecError(at, per_server, f"it does not divide the {gpus} GPUs", "make all servers equal")
    forwarding = read_vertices(words, nv_switches + switches, vertices, "switch")
    for switch in sorted(forwarding)[:1]:
        if switch < gpus:
            raise SpecError(name, switch, f"the numbers below {gpus} are those of GPUs", "number switches after them")
    cables = read_cables(words, links, vertices)
    words.end(f"the {links} links")
    graph = Graph(vertices, frozenset(forwarding), cables)
    return SimaiTopology(graph, gpus_per_server, frozenset(forwarding[:nv_switches]), gpu_type)


def write_topology(topology: SimaiTopology) -> str:
    """The file that ``read_topology`` reads as ``topology``."""
    graph, nv_switches = topology.graph, topology.nv_switches
    others = graph.switches - nv_switches
    counts = (graph.vertices, topology.gpus_per_server, len(nv_switches), len(others), len(graph.cables))
    head = " ".join([*map(str, counts), topology.gpu_type])
    switches = " ".join(map(str, [*sorted(nv_switches), *sorted(others)]))
    return "\n".join([head, switches, *write_cables(graph.cables), ""])
