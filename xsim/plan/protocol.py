"""Transfers under one of NCCL's protocols: what it takes of the wires, and how long each step and the launch wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import COLUMNS, IDEAL, PAYLOAD_PPM, TransferGraph
from xsim.plan.contracts import Site
from xsim.spec.protocols import GenerationCosts, LinkClass, Protocol, WireCost, generation

__all__ = ["ProtocolChoice", "launched", "under"]

ProtocolChoice = Literal["none", "ll", "ll128", "simple"]
Ints = NDArray[np.int64]


def under(protocol: ProtocolChoice, graph: TransferGraph, site: Site) -> TransferGraph:
    """``graph`` with the costs of ``protocol``; as it is, on ideal wires, if that is ``none``.

    Each row pays for the slowest class of links on its way, and of its two ranks for the costlier generation.

    A ring of R rounds keeps a rank's channel busy for R + 1 steps of copying, since the first piece is only sent and
    the last only received; the wires are free meanwhile. So its rows take (R + 1) / R of the bytes besides, which is
    what tells 2 ranks from 8 in the measurements (docs/collectives.md).
    """
    if protocol == "none" or not graph.rows:
        return graph
    costs = {rank: generation(site.device(rank).name) for rank in graph.ranks.tolist()}
    ends = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    steps = {pair: _step(pair, protocol, costs, site.fabric) for pair in set(ends)}
    share = np.array([steps[pair].share for pair in ends])
    rounds = np.maximum(graph.rounds, 1)
    fill = np.where(graph.cycle_len > 0, (rounds + 1) / rounds, 1.0)
    priced = replace(
        graph,
        delay_ps=np.array([steps[pair].delay_ps for pair in ends], dtype=np.int64),
        wire_ppm=np.rint(fill / share * PAYLOAD_PPM).astype(np.int64),
    )
    return launched(priced, {rank: own.base_ps for rank, own in costs.items()})


def launched(graph: TransferGraph, base_ps: Mapping[int, int]) -> TransferGraph:
    """``graph`` after a time of each rank's own: a row to itself, which all its first rows wait for."""
    ranks: Sequence[int] = graph.ranks.tolist()
    count = len(ranks)
    place = {rank: row for row, rank in enumerate(ranks)}
    columns = {name: np.concatenate((np.zeros(count, dtype=np.int64), getattr(graph, name))) for name in COLUMNS}
    columns["src"][:count] = columns["dst"][:count] = graph.ranks
    columns["rounds"][:count] = 1
    columns["cycle_base"] += count
    columns["cycle_base"][:count] = np.arange(count)
    columns["delay_ps"][:count] = [base_ps[rank] for rank in ranks]
    columns["wire_ppm"][:count] = IDEAL[1]
    waits: list[list[int]] = [[]] * count
    for row, (src, dst) in enumerate(zip(graph.src.tolist(), graph.dst.tolist(), strict=True)):
        before = (graph.predecessors(row) + count).tolist()
        waits.append(before or sorted({place[end] for end in (src, dst) if end in place}))
    return replace(
        graph,
        **columns,
        pred_ptr=np.cumsum([0, *map(len, waits)], dtype=np.int64),
        pred=np.array([row for wait in waits for row in wait], dtype=np.int64),
    )


def _step(ends: tuple[int, int], protocol: Protocol, costs: Mapping[int, GenerationCosts], fabric: Fabric) -> WireCost:
    link = _link_class(fabric, *ends)
    if link is None:
        return WireCost(delay_ps=0, share=1)
    found = [costs[rank].cost(link, protocol) for rank in ends if rank in costs]  # a switch has none
    return WireCost(delay_ps=max(cost.delay_ps for cost in found), share=min(cost.share for cost in found))


def _link_class(fabric: Fabric, src: int, dst: int) -> LinkClass | None:
    """The slowest on the way; none from a rank to itself."""
    kinds = {fabric.links[link].kind for link in fabric.route(src, dst)}
    if not kinds:
        return None
    if kinds & {"nic", "spine"}:
        return "network"
    return "scale_up" if kinds == {"scale_up"} else "pcie"


assert set(get_args(ProtocolChoice)) == {"none", *get_args(Protocol)}
