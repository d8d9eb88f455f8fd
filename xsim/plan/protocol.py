"""Transfers under one of NCCL's protocols: what it takes of the wires, and how long each step and the launch wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import COLUMNS, PAYLOAD_PPM, TransferGraph
from xsim.plan.contracts import Site
from xsim.spec.protocols import LinkClass, Mode, WireCost, generation

__all__ = ["FILL_STEPS", "ProtocolChoice", "RowCosts", "row_costs", "under", "with_costs"]

ProtocolChoice = Literal["none", "ll", "ll128", "simple"]
Ints = NDArray[np.int64]

FILL_STEPS = 0.75  # of 0, 0.5, 0.75 and 1 the nearest to what 2 to 8 ranks took: docs/collectives.md


@dataclass(frozen=True, slots=True, eq=False)
class RowCosts:
    """What a protocol adds to a graph of N rows.

    Attributes:
        delay_ps, wire_ppm: The columns of a ``TransferGraph``.
        base_ps: Of each rank, from the launch to the first transfer.
    """

    delay_ps: Ints
    wire_ppm: Ints
    base_ps: Mapping[int, int]


def under(protocol: ProtocolChoice, graph: TransferGraph, site: Site) -> TransferGraph:
    """``graph`` with the costs of ``protocol``; as it is, on ideal wires, if that is ``none``."""
    if protocol == "none" or not graph.rows:
        return graph
    return with_costs(graph, row_costs(graph, site, (protocol,))[0])


def row_costs(graph: TransferGraph, site: Site, modes: Sequence[Mode]) -> list[RowCosts]:
    """What each of ``modes`` adds to ``graph``; ``in_switch`` is Simple but for transfers with a switch that sums.

    Each row pays for the slowest class of links on its way, and of its two ranks for the costlier generation.

    Rows of a ring of R rounds on a scale-up fabric, and R transfers of other kinds from a rank, take
    (R + ``FILL_STEPS``) / R of their bytes: a rank sends its first piece and receives its last in steps of their own,
    and has its own part to copy. How much that comes to was not derived but chosen, in view of the measurements, as the
    best of 0, 0.5, 0.75 and 1 steps. Rows of a switch that sums take no more than their bytes; and over PCIe, many
    times slower than a device's memory, such copies hide behind the wire.
    """
    devices = {rank: site.device(rank).name for rank in graph.ranks.tolist()}
    base_ps = {rank: generation(name).base_ps for rank, name in devices.items()}
    ends = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    kind_of = {pair: _Kind.of(pair, site.fabric, devices) for pair in set(ends)}
    number = {kind: place for place, kind in enumerate(dict.fromkeys(kind_of.values()))}
    kinds = np.array([number[kind_of[pair]] for pair in ends], dtype=np.int64)
    steps_of = np.where(graph.cycle_len > 0, graph.rounds, _sends(graph))
    copied = np.array([kind.copies for kind in number], dtype=bool)[kinds]
    fill = np.where(copied, (steps_of + FILL_STEPS) / np.maximum(steps_of, 1), 1.0)
    found = []
    for mode in modes:
        steps = [kind.step(mode) for kind in number]
        share = np.array([step.share for step in steps])[kinds]
        found.append(
            RowCosts(
                delay_ps=np.array([step.delay_ps for step in steps], dtype=np.int64)[kinds],
                wire_ppm=np.rint(fill / share * PAYLOAD_PPM).astype(np.int64),
                base_ps=base_ps,
            )
        )
    return found


def with_costs(graph: TransferGraph, costs: RowCosts) -> TransferGraph:
    """``graph`` with ``costs``; the launch is a row of each rank to itself, for which its first rows wait."""
    ranks: Sequence[int] = graph.ranks.tolist()
    count = len(ranks)
    place = {rank: row for row, rank in enumerate(ranks)}
    priced = replace(graph, delay_ps=costs.delay_ps, wire_ppm=costs.wire_ppm)
    columns = {name: np.concatenate((np.zeros(count, dtype=np.int64), getattr(priced, name))) for name in COLUMNS}
    columns["src"][:count] = columns["dst"][:count] = graph.ranks
    columns["rounds"][:count] = 1
    columns["cycle_base"] += count
    columns["cycle_base"][:count] = np.arange(count)
    columns["delay_ps"][:count] = [costs.base_ps[rank] for rank in ranks]
    columns["wire_ppm"][:count] = PAYLOAD_PPM
    waits: list[list[int]] = [[]] * count
    for row, (src, dst) in enumerate(zip(graph.src.tolist(), graph.dst.tolist(), strict=True)):
        before = (graph.predecessors(row) + count).tolist()
        waits.append(before or sorted({place[end] for end in (src, dst) if end in place}))
    return TransferGraph(
        **columns,
        pred_ptr=np.cumsum([0, *map(len, waits)], dtype=np.int64),
        pred=np.array([row for wait in waits for row in wait], dtype=np.int64),
        ranks=graph.ranks,
        party=graph.party,
        parties=graph.parties,
        zeros=graph.zeros,
    )


def _sends(graph: TransferGraph) -> Ints:
    """Of each row, how many plain rows carry something from the same rank."""
    counted = (graph.cycle_len == 0) & (graph.stop > graph.start) & (graph.src != graph.dst)
    _, rank = np.unique(graph.src, return_inverse=True)
    found: Ints = np.bincount(rank, weights=counted).astype(np.int64)[rank]
    return found


class _Kind(NamedTuple):
    """All that the cost of a row depends on.

    Attributes:
        link: The slowest class of links on its way; none from a rank to itself.
        devices: Of those of its ends that are ranks; a switch has none.
    """

    link: LinkClass | None
    devices: tuple[str, ...]

    @classmethod
    def of(cls, ends: tuple[int, int], fabric: Fabric, devices: Mapping[int, str]) -> _Kind:
        return cls(_link_class(fabric, *ends), tuple(devices[rank] for rank in ends if rank in devices))

    @property
    def between_ranks(self) -> bool:
        return len(self.devices) == 2

    @property
    def copies(self) -> bool:
        """Whether it takes steps that copy what a rank has itself."""
        return self.link == "scale_up" and self.between_ranks

    def step(self, mode: Mode) -> WireCost:
        """The costlier of what its two ends ask for."""
        if self.link is None:
            return WireCost(delay_ps=0, share=1)
        used: Mode = "simple" if mode == "in_switch" and self.between_ranks else mode
        found = [generation(device).cost(self.link, used) for device in self.devices]
        return WireCost(delay_ps=max(cost.delay_ps for cost in found), share=min(cost.share for cost in found))


def _link_class(fabric: Fabric, src: int, dst: int) -> LinkClass | None:
    kinds = {fabric.links[link].kind for link in fabric.route(src, dst)}
    if not kinds:
        return None
    if kinds & {"nic", "spine"}:
        return "network"
    return "scale_up" if kinds == {"scale_up"} else "pcie"
