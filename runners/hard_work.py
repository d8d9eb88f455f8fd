"""Whether a replay, packet by packet, would take a processor hours, by what queues in front of one link."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.flows import FlowList
from xsim.fabric.graph import Graph
from xsim.fabric.hashed_paths import Paths
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.packets.settings import Settings

__all__ = ["check_work"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BITS_TO_PS = 8e12
NS_TO_PS = 1e3
NARROWER = 1.1  # times as long as its own port, a link takes for its bytes that makes them queue in the network
MOST_ALARMS = 2e10  # of which a processor takes 3 to 8 million a second
MOST_LOOKS = 5e10  # at a flow that waits for its turn, 30 to 60 million a second


@dataclass(frozen=True, slots=True)
class _Jam:
    """Of N flows that wait for none and queue in the network: their rows, first and narrowest links, and packets.

    ``lasts_ps`` is how long the narrowest link takes for each.
    """

    rows: Ints
    first: Ints
    narrow: Ints
    packets: Ints
    lasts_ps: Floats


def check_work(graph: Graph, flows: FlowList, paths: Paths, settings: Settings) -> None:
    """Refuse flows of which what is simulated grows as the square of their number, if there are far too many.

    Rates of DCQCN have timers, and hosts that serve several classes look at one flow after the other for the next that
    may send. Either is work for as long as a flow waits for others.

    Raises:
        SpecError: It would take hours.
    """
    settings = replace(settings, classes=tuple(np.unique(flows.classes).tolist())) if len(flows) else settings
    timed, many = isinstance(settings.congestion, Dcqcn), len(settings.lanes) > 1
    if not timed and not many:
        return
    jam = _jam(graph, flows, paths, settings)
    if not len(jam.rows):
        return
    if timed:
        _check_alarms(graph, flows, jam, settings)
    if many:
        here, packets = np.bincount(jam.first), np.bincount(jam.first, jam.packets)
        looks = float((here * packets).sum())
        if looks > MOST_LOOKS:
            problem = f"{here.max()} of them take turns at {graph.link_name(int(here.argmax()))} for packets of several"
            problem += f" classes, which takes some {looks:.0e} looks at whether one may send: hours"
            raise SpecError("flows", len(jam.rows), problem, "write one class for all, or fewer flows at a time")


def _check_alarms(graph: Graph, flows: FlowList, jam: _Jam, settings: Settings) -> None:
    control = settings.congestion
    assert isinstance(control, Dcqcn)
    per_ps = sum(1 / (each * NS_TO_PS) for each in (control.alpha_ns, control.cut_ns, control.raise_ns))
    rates = np.repeat([cable.bandwidth_bits_per_s for cable in graph.cables], 2)
    alarms, worst = 0.0, (0.0, -1, 0)
    for link in np.unique(jam.narrow).tolist():
        if settings.marking(int(rates[link])) is None:
            continue
        at = np.flatnonzero(jam.narrow == link)
        timed = jam.packets[at] > 1  # a flow of one packet has ended when it hears of a mark
        here = per_ps * float(_waits(flows.start_ps[jam.rows[at]], jam.lasts_ps[at])[timed].sum())
        alarms, worst = alarms + here, max(worst, (here, link, int(timed.sum())))
    if alarms > MOST_ALARMS:
        problem = f"{worst[2]} flows queue for {graph.link_name(worst[1])}, and the timers of all rates that wait so"
        problem += f" run out some {alarms:.0e} times, which takes hours"
        fix = "write fewer flows at a time, or choose one without timers, such as dctcp or hpcc"
        raise SpecError("congestion", "dcqcn", problem, fix)


def _waits(start_ps: Ints, lasts_ps: Floats) -> Floats:
    """How long each flow is there, if the link serves one after the other; the least of all orders, for equal flows."""
    order = np.lexsort((lasts_ps, start_ps))
    start, lasts = start_ps[order].astype(np.float64), lasts_ps[order]
    served = np.cumsum(lasts)
    found: Floats = served + np.maximum.accumulate(start - (served - lasts)) - start
    return found[np.argsort(order)]


def _jam(graph: Graph, flows: FlowList, paths: Paths, settings: Settings) -> _Jam:
    hops = np.diff(paths.ptr)
    alone = (np.diff(flows.after_ptr) == 0) & (hops > 1) & (flows.size_bytes > 0)
    packets = -(-flows.size_bytes // settings.payload_bytes)
    bits_per_s = np.repeat([float(cable.bandwidth_bits_per_s) for cable in graph.cables], 2)
    row_of = np.repeat(np.arange(len(flows)), hops)
    wire_bytes = (flows.size_bytes + packets * settings.overhead_bytes) * alone
    load_ps = np.bincount(paths.links, wire_bytes[row_of], len(bits_per_s)) * BITS_TO_PS / bits_per_s
    rows = np.flatnonzero(alone)
    begin = paths.ptr[:-1][rows]
    first = paths.links[begin]
    later = load_ps[paths.links]
    later[paths.ptr[:-1][hops > 0]] = 0.0
    most = np.zeros(len(flows))
    most[hops > 0] = np.maximum.reduceat(later, paths.ptr[:-1][hops > 0]) if len(later) else 0.0
    narrow = np.zeros(len(flows), dtype=np.int64)
    at = np.flatnonzero(later == most[row_of])
    narrow[row_of[at]] = paths.links[at]
    jammed = most[rows] > NARROWER * load_ps[first]
    rows, first = rows[jammed], first[jammed]
    lasts_ps = wire_bytes[rows] * BITS_TO_PS / bits_per_s[narrow[rows]]
    return _Jam(rows, first, narrow[rows], packets[rows], lasts_ps)
