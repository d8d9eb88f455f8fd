"""Flows of the reference runs of packet simulators, and others, on the ways that their switches' hashes choose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xsim.fabric.flows import PORT, FlowList, rows_in_csr
from xsim.fabric.graph import Graph
from xsim.fabric.hashed_paths import paths_of
from xsim.sim.packets.flows import Flows
from xsim.sim.replay import as_packets

__all__ = ["flows_between", "routed"]


def routed(graph: Graph, listed: FlowList) -> Flows:
    """The flows on their ways."""
    return as_packets(listed, *paths_of(graph, listed))


def flows_between(graph: Graph, ends: Sequence[tuple[int, int, int, int]]) -> Flows:
    """Flows (source, target, bytes, which one before) that start at once, on their ways."""
    table = np.array(ends, dtype=np.int64)
    after_ptr, after = rows_in_csr([(before,) * (before >= 0) for *_, before in ends])
    count = len(ends)
    port = np.full(count, PORT)
    columns = (np.arange(count), table[:, 0], table[:, 1], table[:, 2], np.zeros(count, dtype=np.int64), port)
    return routed(graph, FlowList(*columns, after_ptr, after))
