"""Flows over a graph, packet by packet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.graph import Graph
from xsim.sim.contracts import LinkCounts, LinkSamples
from xsim.sim.kernels import packet_columns as k
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.packets.counts import add_back, counts_of
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.flows import Flows
from xsim.sim.packets.lanes import lane_bits
from xsim.sim.packets.reorder import make_room
from xsim.sim.packets.samples import Sampler
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.skip import engine_for
from xsim.sim.packets.stuck import reason
from xsim.sim.packets.tables import in_lines
from xsim.sim.packets.turns import give_room
from xsim.sim.packets.ways import Blocks, in_turn, stray, taken
from xsim.sim.packets.wires import width_of, wires_of

__all__ = ["Outcome", "replay"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Watch = Callable[[int, int], None]
FIRST_STEP_PS = 10**6
FEW_EVENTS, MANY_EVENTS = 200_000, 800_000  # between two looks of who watches: a tenth of a second or so


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a replay went.

    Attributes:
        start_ps: When each flow began, N.
        sender_end_ps: Its last acknowledgement, N.
        receiver_end_ps: Its last byte, N.
        go_backs: How often its sender went back to what was missing, N.
        links: Counts per directed link.
        busy_ps: For how long each directed link has sent.
        samples: Of the links over time, if the settings want them.
        events: How many the simulation took.
    """

    start_ps: Ints
    sender_end_ps: Ints
    receiver_end_ps: Ints
    go_backs: Ints
    links: LinkCounts
    busy_ps: Ints
    samples: LinkSamples | None
    events: int


def replay(
    graph: Graph, flows: Flows, settings: Settings, watch: Watch | None = None, mute: frozenset[int] = frozenset()
) -> Outcome:
    """All of ``flows`` over ``graph``, to the end; then every byte has come once and every buffer is empty.

    Args:
        watch: Told now and then the instant in ps, and how many flows have ended.
        mute: Switches that pause nobody and mark nothing, as the NVSwitches of SimAI.

    Raises:
        SpecError: Flows cannot end: they wait for what was lost, or for one another. A switch has too little memory.
    """
    tick_ps = settings.tick_ps
    flows = _routed(flows, settings)
    if len(flows.classes):
        settings = replace(settings, classes=tuple(np.unique(flows.classes).tolist()))
    wires = wires_of(graph, settings, mute)
    table, route, turns, members = _flow_tables(flows, wires.links, settings)
    memory = _memory(flows, table, wires.links, settings)
    engine = engine_for(settings)(wires, table, memory, route, turns, members, width_of(wires.links), settings)
    if settings.scatters:
        engine.route, engine.forks = _scatter(flows, table, route, settings)
    engine.arrived = np.zeros(make_room(table, flows.size_bytes, settings), dtype=np.int64)
    starts = np.flatnonzero(flows.after < 0)
    starts = starts[np.argsort(flows.start_ps[starts], kind="stable")]
    engine.sim[k.UNFINISHED] = len(table)
    engine.post(k.START, starts, flows.start_ps[starts] // tick_ps)
    sampler = Sampler(settings.sample_ps, tick_ps, len(wires.links))
    answer = _to_the_end(engine, sampler, tick_ps, watch)
    if answer == k.LOST_HOPE:
        raise _gave_up(int(engine.sim[k.GAVE_UP]), flows, table, settings)
    if engine.sim[k.UNFINISHED]:
        raise _stuck(graph, flows, table, engine.links)
    engine.check_empty()
    return _outcome(engine, tick_ps, sampler.found(engine))


def _routed(flows: Flows, settings: Settings) -> Flows:
    """The flows on other paths, if the rule is to choose one for each as they begin."""
    if settings.routing not in ("round_robin", "rail"):
        return flows
    turns, paths = Counter[int](), list[tuple[int, ...]]([()] * len(flows.src))
    for flow in _as_they_begin(flows):
        ways, src = flows.ways[flows.ways_of[flow]], int(flows.src[flow])
        paths[flow] = ways[in_turn(settings.routing, turns, src, src, len(ways))]
    path = np.fromiter(chain.from_iterable(paths), dtype=np.int64)
    return replace(flows, path_ptr=np.cumsum([0, *map(len, paths)]), path=path)


def _scatter(flows: Flows, table: Ints, route: Ints, settings: Settings) -> tuple[Ints, Ints]:
    """Give each flow all of its ways; ``route`` and ``forks`` then."""
    blocks, earlier = Blocks(settings, len(route)), Counter[tuple[int, int]]()
    for flow in _as_they_begin(flows):
        number, pair = int(flows.ways_of[flow]), (int(flows.src[flow]), int(flows.dst[flow]))
        block = blocks.add(number, partial(flows.ways.__getitem__, number))
        seed = stray(settings, *pair, earlier[pair])
        table[flow, [k.WAY, k.STRIDE, k.WAYS, k.STRAY]] = taken(block, seed, settings)
        earlier[pair] += 1
    added, forks = blocks.added()
    return np.concatenate((route, added)), forks


def _as_they_begin(flows: Flows) -> list[int]:
    """Numbers of the flows by their start; those that wait for others come last."""
    order: list[int] = np.lexsort((flows.start_ps, flows.after >= 0)).tolist()
    return order


def _to_the_end(engine: Engine, sampler: Sampler, tick_ps: int, watch: Watch | None) -> int:
    """Process all events; in steps of time if somebody watches, which grow until each has many events."""
    if watch is None:
        return sampler.run(engine, NEVER_PS)
    step, answer = max(1, FIRST_STEP_PS // tick_ps), k.LATER
    while answer == k.LATER:
        before = engine.sim[k.EVENTS]
        answer = sampler.run(engine, engine.next_tick() + step)
        taken = engine.sim[k.EVENTS] - before
        if taken < FEW_EVENTS:
            step *= 2
        elif taken > MANY_EVENTS:
            step = max(1, step // 2)
        watch(int(engine.sim[k.NOW]) * tick_ps, len(engine.flows) - int(engine.sim[k.UNFINISHED]))
    return answer


def _outcome(engine: Engine, tick_ps: int, samples: LinkSamples | None) -> Outcome:
    flows, links = engine.flows, engine.ports()
    back = np.zeros(len(links), dtype=np.int64)
    add_back(back, engine.route[flows[:, k.WAY]], flows[:, k.GO_BACKS])
    return Outcome(
        start_ps=flows[:, k.BEGAN] * tick_ps,
        sender_end_ps=flows[:, k.SENDER_END] * tick_ps,
        receiver_end_ps=flows[:, k.RECEIVER_END] * tick_ps,
        go_backs=flows[:, k.GO_BACKS].copy(),
        links=counts_of(links, back, tick_ps),
        busy_ps=links[:, k.BUSY] * tick_ps,
        samples=samples,
        events=int(engine.sim[k.EVENTS]),
    )


def _gave_up(row: int, flows: Flows, table: Ints, settings: Settings) -> SpecError:
    problem = f"its sender has gone back {settings.retries} times in a row to byte {table[row, k.ACKED]}"
    fix = "mend the links of its ways, or raise network.retries or network.retry_ps"
    (name,) = flows.names(np.array([row]))
    return SpecError(f"flow {name}", f"{flows.src[row]} -> {flows.dst[row]}", problem, fix)


def _stuck(graph: Graph, flows: Flows, table: Ints, links: Ints) -> SpecError:
    """Nothing is under way any more, and flows are unfinished."""
    unfinished = np.flatnonzero((table[:, k.BEGAN] >= 0) & (table[:, k.STATE] != k.FINISHED))
    return SpecError("flows", flows.names(unfinished), *reason(links, graph.link_name, 2 * len(graph.cables)))


def _memory(flows: Flows, table: Ints, links: Ints, settings: Settings) -> Floats:
    """What the congestion control is told of each flow; the windows that do not come from it."""
    control = settings.congestion
    memory = np.zeros((len(table), k.OWN + control.remembers if control.law else 0))
    if not len(flows.path):
        return memory
    scale = 10**12 // settings.tick_ps
    rate, travels = links[flows.path, k.RATE], np.diff(flows.path_ptr) > 0
    hop = 2 * links[flows.path, k.DELAY] + settings.payload_bytes * 8 * scale / rate
    trips = np.maximum(1, np.add.reduceat(hop, flows.path_ptr[:-1][travels]).astype(np.int64))
    trip = int(trips.max())
    slowest = np.minimum.reduceat(rate, flows.path_ptr[:-1][travels])
    window = np.maximum(1, trip * slowest // (8 * scale))
    if settings.windowed:
        own = np.maximum(1, trips * slowest // (8 * scale))
        table[travels, k.WINDOW] = own if settings.window == "path" else window
    if control.asking:
        table[travels, k.FIRST_PACKETS] = control.asking.first(window, settings.payload_bytes)
    if control.law:
        memory[:, k.TRIP] = trip
        memory[travels, k.TRIP_BYTES] = window
        memory[travels, k.LINE_BITS] = rate[flows.path_ptr[:-1][travels]]
        memory[:, k.HOPS] = np.diff(flows.path_ptr)
        memory[:, k.WINDOW_BYTES] = table[:, k.WINDOW]
    return memory


def _flow_tables(flows: Flows, links: Ints, settings: Settings) -> tuple[Ints, Ints, Ints, Ints]:
    """Flows, ways, and the lists of flows that take turns at a port or follow another; fills the ports in ``links``."""
    count = len(flows.src)
    table = in_lines(np.zeros((count, k.FLOW_COLUMNS), dtype=np.int64))
    table[:, k.BYTES_PER_ROUND] = flows.size_bytes
    table[:, k.AWAITED] = flows.after >= 0
    table[:, k.OFFSET] = flows.start_ps // settings.tick_ps
    table[:, k.CARRIES] = flows.size_bytes
    table[flows.after < 0, k.STATE] = k.UNDER_WAY
    table[:, [k.SENDER_END, k.RECEIVER_END, k.GAP, k.BEGAN, k.RESEND]] = -1
    table[:, k.FULL_PAYLOAD], table[:, k.OVERHEAD] = settings.payload_bytes, settings.overhead_bytes
    table[:, k.MILESTONE] = settings.ack_every
    table[:, k.CYCLE] = np.arange(count)
    table[:, [k.CYCLE_LEN, k.ROUNDS]] = 1
    table[:, [k.SRC_PARTY, k.DST_PARTY]] = -1
    if len(flows.classes):
        table[:, k.LANE] = lane_bits(settings, flows.classes)
    there, back = np.diff(flows.path_ptr), np.diff(flows.back_ptr)
    ends = np.cumsum(there + back + 2)
    table[:, k.WAY] = ends - (there + back + 2)
    table[:, k.WAY_BACK] = ends - back - 1
    route = np.full(int(ends[-1]) if count else 0, -1, dtype=np.int64)
    route[_places(table[:, k.WAY], there)] = flows.path
    route[_places(table[:, k.WAY_BACK], back)] = flows.back
    first = route[table[:, k.WAY]]
    used = np.bincount(first[first >= 0], minlength=len(links))
    links[:, k.SERVED] = 0
    turns = give_room(links, used)
    followers = np.flatnonzero(flows.after >= 0)
    followers = followers[np.argsort(flows.after[followers], kind="stable")]
    until = np.cumsum(np.bincount(flows.after[followers], minlength=count))
    table[:, k.FOLLOWERS], table[:, k.FOLLOWERS_END] = np.concatenate(([0], until[:-1])), until
    return table, route, turns, followers


def _places(first: Ints, counts: Ints) -> Ints:
    """``first[i] .. first[i] + counts[i]``, one after another."""
    before = np.cumsum(counts) - counts
    places: Ints = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
    return places
