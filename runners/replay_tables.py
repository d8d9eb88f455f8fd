"""What a replay leaves as tables: its flows, links, completion times and, if sampled, queues over time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.flows import FlowList
from xsim.fabric.graph import Graph
from xsim.sim.contracts import FlowTimes, LinkCounts, LinkSamples
from xsim.tables import Table, completion_table, count_columns, queue_table

__all__ = ["Times", "tables_of"]

Ints = NDArray[np.int64]
BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """When N flows began and ended over L directed links; int64.

    Attributes:
        busy_ps: Of each link.
        carried_bytes: Of each link, where packets are not counted.
        go_backs: Of each flow, and what packets did on each link, and the links over time, where there are packets.
    """

    start_ps: Ints
    end_ps: Ints
    busy_ps: Ints
    carried_bytes: Ints | None = None
    go_backs: Ints | None = None
    counts: LinkCounts | None = field(default=None)
    samples: LinkSamples | None = field(default=None)

    @property
    def took_ps(self) -> Ints:
        """From the start of each flow to its end."""
        return self.end_ps - self.start_ps

    @property
    def makespan_ps(self) -> int:
        """From the first start to the last end; 0 of no flows."""
        return int(self.end_ps.max() - self.start_ps.min()) if len(self.end_ps) else 0


def tables_of(graph: Graph, flows: FlowList, found: Times) -> dict[str, Table]:
    """By name; columns end in their unit."""
    links = [graph.link_name(link) for link in range(2 * len(graph.cables))]
    tables = {
        "flows": _flow_table(flows, found),
        "links": _link_table(graph, links, found),
        "completion": completion_table(FlowTimes(*np.unique(found.took_ps, return_counts=True))),
    }
    if found.samples is not None:
        tables["queues"] = queue_table(links, found.samples)
    return tables


def _flow_table(flows: FlowList, found: Times) -> Table:
    """A row per flow, in the order of the list."""
    return {
        "flow": flows.number,
        "src": flows.src,
        "dst": flows.dst,
        "size_bytes": flows.size_bytes,
        "start_ps": found.start_ps,
        "duration_ps": found.took_ps,
        **({} if found.go_backs is None else {"go_backs": found.go_backs}),
    }


def _link_table(graph: Graph, names: list[str], found: Times) -> Table:
    """A row per directed link; the two of a cable stand together."""
    bits_per_s = np.repeat([cable.bandwidth_bits_per_s for cable in graph.cables], 2)
    return {
        "link": names,
        "bandwidth_bytes_per_s": bits_per_s / BITS,
        "latency_ps": np.repeat(np.array([cable.delay_ps for cable in graph.cables], dtype=np.int64), 2),
        **({} if found.carried_bytes is None else {"carried_bytes": found.carried_bytes}),
        "busy_ps": found.busy_ps,
        "utilisation": found.busy_ps / max(1, found.makespan_ps),
        **({} if found.counts is None else count_columns(found.counts)),
    }
