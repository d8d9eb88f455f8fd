"""What passes a port: packets that are forwarded, acknowledgements that wait, what flows send in their turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part, rare_kernel
from xsim.sim.kernels.packet_clock import new_row
from xsim.sim.kernels.packet_columns import (
    AVAILABLE,
    BACKLOG,
    BELOW,
    BUFFER,
    CLASSES,
    DATA,
    EXEMPT,
    FLOW,
    FLOW_RATE,
    FLOWS_AT,
    FLOWS_HERE,
    FULL_PAYLOAD,
    HEAD,
    HOP,
    HOPS_SEEN,
    INSIDE,
    KIND,
    LANE,
    LANE_AT,
    LAST_SIZE,
    LINKS,
    NEXT,
    NEXT_BYTE,
    NOW,
    NUMBER,
    OVER,
    OVERHEAD,
    PAUSED,
    PAUSING,
    POSTED,
    QUEUE,
    RECORDED,
    RESEND,
    RESERVE,
    RESUME,
    RESUME_GAP,
    RETRY_AT,
    RETRY_TIME,
    SCALE,
    SELECTIVE,
    SENT,
    SENT_AT,
    SERVED,
    SIZE,
    SLOTS,
    STRICT,
    TAKEN,
    URGENT,
    WAY,
    WAYS,
)
from xsim.sim.kernels.packet_control import expect_reply
from xsim.sim.kernels.packet_credit import give_back, may_send
from xsim.sim.kernels.packet_crowd import Crowd
from xsim.sim.kernels.packet_lane import flow_of_lanes, lane_of, next_lane
from xsim.sim.kernels.packet_link import (
    admit,
    append,
    busy,
    depart,
    mark,
    record,
    signal,
    threshold,
    transmit,
)
from xsim.sim.kernels.packet_pull import take_back
from xsim.sim.kernels.packet_reorder import skip
from xsim.sim.kernels.packet_turns import let_go, next_in_turn, sleep
from xsim.sim.kernels.packet_ways import next_way

__all__ = ["forward", "serve"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@part
def forward(
    row: int,
    link: int,
    out: int,
    rows: Ints,
    links: Ints,
    switches: Ints,
    seen: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> int:
    """A packet has come over ``link`` to a switch and goes on over ``out``; the link to prompt, -1 for none."""
    came, lane, size, exempt = link, out, rows[row, SIZE], False
    limit = threshold(link, links, switches)
    if sim[CLASSES]:
        came, lane = lane_of(link, row, rows, sim), lane_of(out, row, rows, sim)
        exempt = sim[EXEMPT] != 0 and came == link
    elif (
        links[out, HEAD] < 0
        and links[out, URGENT] < 0
        and links[out, PAUSED] == 0
        and links[link, PAUSING] == 0
        and links[link, OVER] == 0
        and (links[link, BUFFER] > 0 or (links[link, TAKEN] + size <= sim[RESERVE] and size <= limit))
        and not busy(out, links, sim)
        and may_send(size, out, rows, links, wheel, heap, sim)
    ):  # it would come and go within the reserve of its port: nothing to account
        if links[link, BUFFER] > 0:
            give_back(size, link, rows, links, wheel, heap, sim)
        rows[row, HOP] += 1
        if sim[RECORDED]:
            record(row, out, rows, links, seen, sim)
        transmit(row, out, rows, links, wheel, heap, sim)
        return -1
    if links[came, BUFFER] > 0:
        links[came, TAKEN] += size
    elif not exempt and not admit(row, came, limit, rows, links, switches, wheel, heap, sim):
        return -1
    append(row, lane, rows, links)
    return out


@part
def serve(
    crowd: Crowd,
    link: int,
    rows: Ints,
    links: Ints,
    chances: Floats,
    switches: Ints,
    flows: Ints,
    seen: Ints,
    arrived: Ints,
    route: Ints,
    turns: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """Let an idle port send: pause frames first, then its queue, then its flows in turn."""
    row, lane, flow = links[link, URGENT], link, -1
    if row >= 0:
        links[link, URGENT] = rows[row, NEXT]
    elif sim[CLASSES]:
        lane = next_lane(link, rows, links, wheel, heap, sim)
        if lane < 0 and links[link, FLOWS_HERE] > 0:
            flow = _next_of_lanes(link, rows, links, flows, turns, wheel, heap, sim)
    elif links[link, HEAD] >= 0 and links[link, PAUSED] == 0:
        if not may_send(rows[links[link, HEAD], SIZE], link, rows, links, wheel, heap, sim):
            return
    elif links[link, FLOWS_HERE] > 0:
        lane = -1
        flow, place = next_in_turn(crowd, link, links, flows, turns, sim)
        if flow >= 0:
            size = min(flows[flow, FULL_PAYLOAD], flows[flow, POSTED] - _first(flow, rows, flows, sim))
            if not may_send(size + flows[flow, OVERHEAD], link, rows, links, wheel, heap, sim):
                return
            links[link, SERVED] = place
    else:
        return
    if flow >= 0:
        row = _packet_of(flow, rows, flows, seen, arrived, wheel, heap, sim)
    elif row < 0 and lane >= 0:
        row = links[lane, HEAD]
        links[lane, HEAD] = rows[row, NEXT]
        links[lane, BACKLOG] -= rows[row, SIZE]
        if route[rows[row, HOP]] != link:
            _leave(row, lane, link, rows, links, chances, switches, seen, route, wheel, heap, sim)
    elif row < 0:
        if links[link, FLOWS_HERE] > 0:
            sleep(crowd, link, rows, links, flows, turns, wheel, heap, sim)
        return
    transmit(row, link, rows, links, wheel, heap, sim)
    if flow >= 0 and links[link, SLOTS] > 0:
        crowd(SENT, flow, link, links, flows, turns, sim)


@rare_kernel
def _next_of_lanes(
    link: int, rows: Ints, links: Ints, flows: Ints, turns: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> int:
    """The flow that sends next where there are several classes, its credit taken; -1 if none may."""
    place, leaving = flow_of_lanes(link, rows, links, flows, turns, wheel, heap, sim)
    place = let_go(link, place, leaving, links, flows, turns)
    if place < 0:
        return -1
    flow = turns[links[link, FLOWS_AT] + place]
    lane = link + (flows[flow, LANE] >> LANE_AT) * sim[LINKS]
    links[lane if sim[STRICT] else link, SERVED] = place
    return int(flow)


@part
def _leave(
    row: int,
    lane: int,
    link: int,
    rows: Ints,
    links: Ints,
    chances: Floats,
    switches: Ints,
    seen: Ints,
    route: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """A packet leaves the buffer of a switch, which may let the port that it came by resume."""
    came_by, exempt = route[rows[row, HOP]], False
    if sim[CLASSES]:
        exempt = sim[EXEMPT] != 0 and lane == link
        came_by = lane_of(came_by, row, rows, sim)
    rows[row, HOP] += 1
    if links[came_by, BUFFER] > 0:
        links[came_by, TAKEN] -= rows[row, SIZE]
        give_back(rows[row, SIZE], came_by, rows, links, wheel, heap, sim)
    elif not exempt:
        depart(came_by, rows[row, SIZE], links, switches, sim)
    mark(row, lane, link, rows, links, chances)
    if links[came_by, PAUSING] and links[came_by, OVER] == 0:
        shared = links[came_by, TAKEN] - sim[RESERVE]
        if shared <= 0 or shared + sim[RESUME_GAP] <= threshold(came_by, links, switches):
            links[came_by, PAUSING] = 0
            signal(RESUME, came_by, rows, links, wheel, heap, sim)
    if sim[RECORDED]:
        record(row, link, rows, links, seen, sim)


@part
def _first(flow: int, rows: Ints, flows: Ints, sim: Ints) -> int:
    """The first byte of what the flow sends next: new, or cut on its way."""
    again = flows[flow, RESEND] if sim[QUEUE] else -1
    return int(rows[again, NUMBER] if again >= 0 else flows[flow, NEXT_BYTE])


@part
def _packet_of(
    flow: int, rows: Ints, flows: Ints, seen: Ints, arrived: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> int:
    """The packet that the flow sends now, and when it may send again."""
    first = _first(flow, rows, flows, sim)
    payload = min(flows[flow, FULL_PAYLOAD], flows[flow, POSTED] - first)
    size = payload + flows[flow, OVERHEAD]
    row = take_back(flow, rows, flows) if sim[QUEUE] else -1
    if row < 0:
        row = new_row(rows, sim)
        flows[flow, NEXT_BYTE] += payload
    rows[row, KIND] = DATA | flows[flow, LANE] if sim[CLASSES] else DATA
    rows[row, FLOW], rows[row, SIZE], rows[row, NUMBER] = flow, size, first
    rows[row, HOP] = next_way(flow, flows) if sim[SELECTIVE] and flows[flow, WAYS] > 1 else flows[flow, WAY]
    if sim[SELECTIVE] and not flows[flow, INSIDE]:
        skip(flow, flows, arrived)
    flows[flow, LAST_SIZE] = size
    if sim[RETRY_TIME] > 0 and flows[flow, RETRY_AT] == 0 and not flows[flow, INSIDE]:
        expect_reply(flow, rows, flows, wheel, heap, sim)
    if sim[RECORDED]:
        seen[row, SENT_AT], seen[row, HOPS_SEEN] = sim[NOW], 0
    flows[flow, AVAILABLE] = sim[NOW] + (size * 8 * sim[SCALE] - sim[BELOW]) // flows[flow, FLOW_RATE]
    return int(row)
