"""Topologies of SimAI: those of HPCC, with servers and the NVSwitches in them.

The first line is ``node_num gpus_per_server nvswitch_num switch_num link_num gpu_type``; then come the numbers of the
NVSwitches and of the other switches, and a line per link. GPUs have the numbers from 0 on, server by server.
"""

from __future__ import annotations

from xsim.errors import SpecError
from xsim.fabric.text import TopologyText
from xsim.interop.cables import cable_lines, parsed

__all__ = ["read_topology", "write_topology"]


def read_topology(text: str, name: str = "topology") -> TopologyText:
    """The topology of a file: GPU g is in server ``g // gpus_per_server``; ``name`` is for messages.

    Raises:
        SpecError: It cannot be read, or servers are unlike, or switches have numbers before GPUs.
    """
    found = parsed(text, name)
    per_server, switches = found.gpus_per_server, found.graph.switches
    gpus = found.graph.vertices - len(switches)
    if not per_server or gpus % per_server:
        problem = f"it does not divide the {gpus} GPUs" if per_server else "servers have no GPUs, or it is not of SimAI"
        raise SpecError(f"{name} line 1", per_server, problem, "write how many GPUs each server has")
    if switches and min(switches) < gpus:
        problem = f"the numbers below {gpus} are those of GPUs"
        raise SpecError(f"{name} line 2", min(switches), problem, "number switches after them")
    return found


def write_topology(topology: TopologyText) -> str:
    """The file that ``read_topology`` reads as ``topology``."""
    graph, nv_switches = topology.graph, topology.nvswitches
    others = graph.switches - nv_switches
    counts = (graph.vertices, topology.gpus_per_server, len(nv_switches), len(others), len(graph.cables))
    head = " ".join([*map(str, counts), topology.gpu_type])
    switches = " ".join(map(str, [*sorted(nv_switches), *sorted(others)]))
    return "\n".join([head, switches, *cable_lines(graph.cables), ""])
