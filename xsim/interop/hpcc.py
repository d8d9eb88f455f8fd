"""Topologies and flow files of the HPCC simulator, which is built on ns-3.

A topology is words, however they stand in lines: ``node_num switch_num link_num``, the numbers of the switches, then
``a b rate delay error`` per link: ``0 16 100Gbps 1000ns 0``. Vertices that are no switches are hosts.

A flow file has the number of flows in its first line, then a line ``src dst pg dport bytes start_seconds`` per flow, by
ascending start; ``pg`` is its traffic class.
"""

from __future__ import annotations

import numpy as np

from xsim.errors import SpecError
from xsim.fabric.flows import MOST_CLASS, FlowList
from xsim.fabric.graph import Graph
from xsim.interop.cables import cable_lines, parsed
from xsim.interop.words import MOST_BYTES, MOST_VERTICES, column, column_ps, integer, lines
from xsim.units import PS_PER_S

__all__ = ["read_flows", "read_topology", "write_flows", "write_topology"]


def read_topology(text: str, name: str = "topology") -> Graph:
    """The graph of a topology file; ``name`` is that of the file, for messages. Raises SpecError."""
    found = parsed(text, name)
    if found.gpu_type:
        raise SpecError(f"{name} line 1", found.gpu_type, "it is a topology of SimAI", "write three numbers")
    return found.graph


def write_topology(graph: Graph) -> str:
    """The file that ``read_topology`` reads as ``graph``."""
    switches = " ".join(map(str, sorted(graph.switches)))
    head = f"{graph.vertices} {len(graph.switches)} {len(graph.cables)}"
    return "\n".join([head, switches, *cable_lines(graph.cables), ""])


def read_flows(text: str, name: str = "flows") -> FlowList:
    """The flows of a flow file, numbered from 1 on. Raises SpecError."""
    table = [*lines(text, name)]
    if not table:
        raise SpecError(name, "", "it is empty", "write the number of flows into the first line")
    head = table.pop(0)
    if len(head.words) != 1:
        raise SpecError(head.at, " ".join(head.words), "the first line is the number of flows", "write it alone")
    count = integer(head.at, head.words[0], "the number of flows")
    if len(table) != count:
        raise SpecError(head.at, head.words[0], f"{len(table)} lines follow", "write how many flows there are")
    for line in table:
        if len(line.words) != 6:
            shown = " ".join(line.words)
            raise SpecError(line.at, shown, "a flow is six words", "write src dst pg dport bytes start_seconds")
    start_ps = column_ps(table, 5, "the start", PS_PER_S)
    for row in np.flatnonzero(np.diff(start_ps) < 0)[:1].tolist():
        late = table[row + 1]
        raise SpecError(late.at, late.words[5], "it starts before the flow above it", "sort the flows by their start")
    return FlowList(
        number=np.arange(1, count + 1),
        src=column(table, 0, "src", 0, MOST_VERTICES),
        dst=column(table, 1, "dst", 0, MOST_VERTICES),
        size_bytes=column(table, 4, "the size in bytes", 0, MOST_BYTES),
        start_ps=start_ps,
        port=column(table, 3, "dport", 0, 2**16 - 1),
        after_ptr=np.zeros(count + 1, dtype=np.int64),
        after=np.zeros(0, dtype=np.int64),
        classes=column(table, 2, "pg, the traffic class,", 0, MOST_CLASS),
    )


def write_flows(flows: FlowList) -> str:
    """The file that ``read_flows`` reads as ``flows``, sorted by start and numbered anew in that order.

    Raises:
        SpecError: A flow waits for another one, which the format cannot say.
    """
    for row in np.flatnonzero(np.diff(flows.after_ptr))[:1].tolist():
        problem = "a flow file of HPCC cannot say that a flow waits for another"
        raise SpecError(f"flow {flows.number[row]}", "after", problem, "write another format, or leave it out")
    columns = (flows.src, flows.dst, flows.classes, flows.port, flows.size_bytes, flows.start_ps)
    rows = np.stack(columns, axis=1)[np.argsort(flows.start_ps, kind="stable")]
    return "\n".join([f"{len(flows)}", *(_line(*row) for row in rows.tolist()), ""])


def _line(src: int, dst: int, traffic_class: int, port: int, size_bytes: int, start_ps: int) -> str:
    seconds, rest_ps = divmod(start_ps, PS_PER_S)
    return f"{src} {dst} {traffic_class} {port} {size_bytes} {seconds}.{rest_ps:012}"
