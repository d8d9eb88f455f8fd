"""Runs of graphs that nobody disturbs: worked out once for all parts of a fabric that are alike."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.sim.contracts import LinkCounts
from xsim.sim.kernels import packet_columns as k
from xsim.sim.kernels.never import LONGEST_PS, NEVER_PS
from xsim.sim.packets.instances import Instances
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.wires import Wires
from xsim.sim.traffic.compiled import Compiled
from xsim.sim.traffic.tally import Totals

__all__ = ["Alone", "Lone"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Lone:
    """One undisturbed run, all parties released together.

    Attributes:
        last_ps: When the last party is done; more than ``LONGEST_PS`` if that is never.
        totals, counts: What it adds to the statistics, per link of its part of the fabric.
        drawn: Whether chance had a say, so that it tells nothing of other links.
    """

    last_ps: int
    totals: Totals
    counts: LinkCounts
    drawn: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What of the fabric a graph can have to do with.

    Attributes:
        links: Those that data and acknowledgements take, in the order of their first use by rows, then the ways back.
        fabric, wires: The same, numbered from 0, and the switches behind them.
        compiled: The graph on them.
        form: Equal for graphs of which the same is to be said, on parts that are alike.
    """

    links: Ints
    fabric: Fabric
    wires: Wires
    compiled: Compiled
    form: Hashable


class Alone:
    """Undisturbed runs on one fabric.

    Two graphs have the same run if their rows are the same but for their links, and these the same but for their
    numbers: of the same rates and delays, and joined by equal switches in the same way. Where chance has a say, each
    graph has its own run.

    Args:
        wires: Of the whole fabric, untouched.
        reuse: Whether to take the run of a part that is alike; the numbers are the same.
    """

    def __init__(self, fabric: Fabric, wires: Wires, settings: Settings, *, reuse: bool) -> None:
        self._fabric, self._wires, self._settings = fabric, wires, replace(settings, sample_ps=None)
        self._reuse = reuse
        self._runs: dict[Compiled, tuple[Ints, Lone]] = {}
        self._alike: dict[Hashable, Lone] = {}

    def run(self, compiled: Compiled) -> Lone:
        """The run of the graph."""
        return self._found(compiled)[1]

    def add_to(self, totals: Totals, counts: LinkCounts, compiled: Compiled, times: int) -> None:
        """Add ``times`` such runs to sums over all links of the fabric."""
        links, run = self._found(compiled)
        totals.link_bytes[links] += times * run.totals.link_bytes
        totals.link_busy_ps[links] += times * run.totals.link_busy_ps
        for duration_ps, count in run.totals.flows.items():
            totals.flows[duration_ps] = totals.flows.get(duration_ps, 0) + times * count
        for field in fields(counts):
            getattr(counts, field.name)[links] += times * getattr(run.counts, field.name)

    def _found(self, compiled: Compiled) -> tuple[Ints, Lone]:
        if compiled not in self._runs:
            part = self._part(compiled)
            run = self._alike.get(part.form) if self._reuse else None
            if run is None:
                run = self._simulate(part)
                if not run.drawn:
                    self._alike[part.form] = run
            self._runs[compiled] = part.links, run
        return self._runs[compiled]

    def _part(self, compiled: Compiled) -> _Part:
        if self._settings.routing != "hash":  # its packets may take any link
            return self._whole(compiled)
        graph, fabric = compiled.graph, self._fabric
        pairs = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
        ways = {pair: fabric.route(*pair) for src, dst in pairs for pair in ((src, dst), (dst, src))}
        hops = [(*ways[src, dst], -1, *ways[dst, src], -1) for src, dst in pairs]
        used = dict.fromkeys(link for link in chain.from_iterable(hops) if link >= 0)
        back = self._wires.links[list(used), k.BACK].tolist()
        links = np.array(list(dict.fromkeys((*used, *(link for link in back if link >= 0)))), dtype=np.int64)
        place = {link: number for number, link in enumerate(links.tolist())}
        local = {pair: tuple(place[link] for link in way) for pair, way in ways.items()}
        wires = _cut_out(self._wires, links, place)
        numbered = np.array([place.get(link, -1) for link in chain.from_iterable(hops)], dtype=np.int64)
        kinds = tuple(fabric.links[link].kind for link in links.tolist())
        return _Part(
            links=links,
            fabric=Fabric(
                bandwidth_bytes_per_s=fabric.bandwidth_bytes_per_s[links],
                latency_ps=fabric.latency_ps[links],
                links=tuple(fabric.links[link] for link in links.tolist()),
                hosts=fabric.hosts,
                router=lambda src, dst: local[src, dst],
            ),
            wires=wires,
            compiled=replace(compiled, path=np.array([place[link] for link in compiled.path.tolist()], dtype=np.int64)),
            form=(kinds, numbered.tobytes(), *_kind_of(wires), *_rows_of(compiled)),
        )

    def _whole(self, compiled: Compiled) -> _Part:
        wires = Wires(self._wires.links.copy(), self._wires.chances, self._wires.switches.copy())
        links = np.arange(len(wires.links))
        return _Part(links=links, fabric=self._fabric, wires=wires, compiled=compiled, form=compiled)

    def _simulate(self, part: _Part) -> Lone:
        dice = part.wires.links[:, k.DICE].copy()
        instances, compiled, last_ps = Instances(part.fabric, self._settings, part.wires), part.compiled, 0
        base = instances.open(0, compiled)
        for party in range(compiled.parties):
            if not compiled.idle >> party & 1:
                instances.release(base, compiled, party, 0)
        while instances.next_ps <= LONGEST_PS:
            for _, _, at_ps in instances.run(LONGEST_PS):
                last_ps = max(last_ps, at_ps)
        return Lone(
            last_ps=last_ps if instances.next_ps == NEVER_PS else LONGEST_PS + 1,
            totals=instances.totals(),
            counts=instances.counts(),
            drawn=not np.array_equal(dice, instances.dice()),
        )


def _cut_out(wires: Wires, chosen: Ints, place: dict[int, int]) -> Wires:
    """The tables of these links, and of the switches that they lead into, numbered anew."""
    links = wires.links[chosen]
    links[:, k.BACK] = [place.get(back, -1) for back in links[:, k.BACK].tolist()]
    into = list(dict.fromkeys(links[:, k.INTO].tolist()))
    number = {switch: at for at, switch in enumerate(into)}
    links[:, k.INTO] = [number[switch] for switch in links[:, k.INTO].tolist()]
    return Wires(links, wires.chances[chosen], wires.switches[into])


def _kind_of(wires: Wires) -> tuple[bytes, ...]:
    links = wires.links.copy()
    links[:, k.DICE] = 0
    return links.tobytes(), wires.chances.tobytes(), wires.switches.tobytes()


def _rows_of(compiled: Compiled) -> tuple[Hashable, ...]:
    graph = compiled.graph
    columns = (
        *(compiled.src_party, compiled.dst_party, compiled.size_bytes, compiled.path_ptr, graph.delay_ps, graph.rounds),
        *(graph.cycle_base, graph.cycle_len, graph.wire_ppm, graph.pred_ptr, graph.pred),
    )
    return compiled.parties, *(column.tobytes() for column in columns)
