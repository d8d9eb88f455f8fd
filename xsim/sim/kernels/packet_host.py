"""Hosts: flows that take turns at a port, receivers that acknowledge, and what starts when a flow has ended."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import kernel
from xsim.sim.kernels.packet_clock import new_row, recycle, schedule, schedule_numbered
from xsim.sim.kernels.packet_columns import (
    ACK,
    ACK_EVERY,
    ACK_SIZE,
    ACKED,
    AT_RECEIVER,
    AVAILABLE,
    AWAITED,
    BACKLOG,
    BEGAN,
    BEGIN,
    BELOW,
    BYTES_PER_ROUND,
    CONTROLLED,
    DATA,
    FEEDBACK,
    FINISHED,
    FLOW,
    FLOW_RATE,
    FLOWS_AT,
    FLOWS_HERE,
    FOLLOWERS,
    FOLLOWERS_END,
    GAP,
    GAP_TIME,
    GAP_UNTIL,
    GAVE_UP,
    GO_BACKS,
    HEAD,
    HEADER,
    HOP,
    HOPS_SEEN,
    ISSUED,
    KIND,
    KINDS,
    LAST_SIZE,
    MARKED,
    MILESTONE,
    NACK,
    NEXT,
    NEXT_BYTE,
    NOW,
    NUMBER,
    OFFSET,
    PAUSED,
    PAYLOAD,
    POSTED,
    RATE,
    RECEIVED,
    RECEIVER_END,
    RECORDED,
    RETRIES,
    RETRY,
    RETRY_AT,
    RETRY_NUMBER,
    RETRY_SET,
    RETRY_TIME,
    SCALE,
    SENDER_END,
    SENT_AT,
    SERVED,
    SIZE,
    START,
    STATE,
    TRIES,
    TURN,
    UNDER_WAY,
    UNFINISHED,
    WAKE,
    WAKE_ROW,
    WAY,
    WAY_BACK,
    WINDOW,
)
from xsim.sim.kernels.packet_control import Law, advise
from xsim.sim.kernels.packet_link import append, busy, expect_free, transmit

__all__ = ["acknowledge", "begin", "prompt", "receive", "retry", "send_turn"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
LATEST = 1 << 62


# --- sending ---


@kernel
def prompt(
    link: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    seen: Ints,
    members: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """Something has changed for what waits at the host port: it sends now if it can, or when it becomes free."""
    if busy(link, links, sim):
        if links[link, HEAD] >= 0 or links[link, FLOWS_HERE] > 0:
            expect_free(link, rows, links, wheel, heap, sim)
    else:
        send_turn(link, rows, links, flows, seen, members, wheel, heap, sim)


@kernel
def send_turn(
    link: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    seen: Ints,
    members: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """Serve an idle port of a host: acknowledgements first, then the flows in turn."""
    row = links[link, HEAD]
    if row >= 0 and links[link, PAUSED] == 0:
        links[link, HEAD] = rows[row, NEXT]
        links[link, BACKLOG] -= rows[row, SIZE]
        transmit(row, link, rows, links, wheel, heap, sim)
        return
    place = _next_in_turn(link, links, flows, members, sim)
    if place < 0:
        _sleep(link, rows, links, flows, members, wheel, heap, sim)
        return
    links[link, SERVED] = place
    flow = members[links[link, FLOWS_AT] + place]
    payload = min(sim[PAYLOAD], flows[flow, POSTED] - flows[flow, NEXT_BYTE])
    size = payload + sim[HEADER]
    row = new_row(rows, sim)
    rows[row, KIND], rows[row, FLOW], rows[row, SIZE] = DATA, flow, size
    rows[row, NUMBER], rows[row, HOP] = flows[flow, NEXT_BYTE], flows[flow, WAY]
    flows[flow, NEXT_BYTE] += payload
    flows[flow, LAST_SIZE] = size
    if sim[RETRY_TIME] > 0 and flows[flow, RETRY_AT] == 0:
        _expect_reply(flow, rows, flows, wheel, heap, sim)
    if sim[RECORDED]:
        seen[row, SENT_AT], seen[row, HOPS_SEEN] = sim[NOW], 0
    transmit(row, link, rows, links, wheel, heap, sim)
    flows[flow, AVAILABLE] = sim[NOW] + (size * 8 * sim[SCALE] - sim[BELOW]) // flows[flow, FLOW_RATE]


@kernel
def _next_in_turn(link: int, links: Ints, flows: Ints, members: Ints, sim: Ints) -> int:
    """Place of the next flow after the last one served that may send, -1 if none may.

    Finished flows that the search comes by leave the list, with all finished ones behind the first of them.
    """
    first, count = links[link, FLOWS_AT], links[link, FLOWS_HERE]
    paused, found, leaving = links[link, PAUSED] != 0, -1, count
    for step in range(1, count + 1):
        place = (links[link, SERVED] + step) % count
        flow = members[first + place]
        sent, acked = flows[flow, NEXT_BYTE], flows[flow, ACKED]
        window = flows[flow, WINDOW]
        if not paused and sent < flows[flow, POSTED] and (window == 0 or sent - acked < window):
            if flows[flow, AVAILABLE] <= sim[NOW]:
                found = place
                break
        elif flows[flow, STATE] == FINISHED:
            leaving = min(leaving, place)
    if leaving < count:
        kept = leaving
        for place in range(leaving, count):
            flow = members[first + place]
            if flows[flow, STATE] != FINISHED:
                if place == found:
                    found = kept
                members[first + kept] = flow
                kept += 1
        links[link, FLOWS_HERE] = kept
    return int(found)


@kernel
def _sleep(link: int, rows: Ints, links: Ints, flows: Ints, members: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Wake the port when the first of its flows may send by its rate, unless it is to wake already."""
    if links[link, WAKE_ROW] >= 0:
        return
    first, at = links[link, FLOWS_AT], LATEST
    for place in range(links[link, FLOWS_HERE]):
        flow = members[first + place]
        if flows[flow, NEXT_BYTE] < flows[flow, POSTED] and flows[flow, AVAILABLE] > sim[NOW]:
            at = min(at, flows[flow, AVAILABLE])
    if at < LATEST:
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW] = WAKE, link
        links[link, WAKE_ROW] = row
        schedule(row, at, rows, wheel, heap, sim)


# --- receiving ---


@kernel
def receive(
    row: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    seen: Ints,
    route: Ints,
    members: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """A data packet has reached its host; an acknowledgement takes its row."""
    flow, first = rows[row, FLOW], rows[row, NUMBER]
    wanted, kind = flows[flow, RECEIVED], ACK
    if first == wanted:
        wanted += rows[row, SIZE] - sim[HEADER]
        flows[flow, RECEIVED] = wanted
        if wanted == flows[flow, POSTED]:
            flows[flow, RECEIVER_END] = sim[NOW]
            if sim[AT_RECEIVER]:
                _complete(flow, rows, flows, members, wheel, heap, sim)
        elif wanted < flows[flow, MILESTONE]:
            recycle(row, rows, sim)
            return
        flows[flow, MILESTONE] = wanted + sim[ACK_EVERY]
    elif first < wanted:
        if sim[RETRY_TIME] == 0:  # no sender can be waiting for an acknowledgement that was lost
            recycle(row, rows, sim)
            return
    elif flows[flow, GAP] != wanted or sim[NOW] >= flows[flow, GAP_UNTIL]:
        flows[flow, GAP], flows[flow, GAP_UNTIL], kind = wanted, sim[NOW] + sim[GAP_TIME], NACK
    else:
        recycle(row, rows, sim)
        return
    rows[row, KIND] = kind | (rows[row, KIND] & MARKED)
    rows[row, NUMBER], rows[row, SIZE], rows[row, HOP] = wanted, sim[ACK_SIZE], flows[flow, WAY_BACK]
    out = route[flows[flow, WAY_BACK]]
    if links[out, HEAD] < 0 and links[out, PAUSED] == 0 and not busy(out, links, sim):
        transmit(row, out, rows, links, wheel, heap, sim)
    else:
        append(row, out, rows, links)
        prompt(out, rows, links, flows, seen, members, wheel, heap, sim)


@kernel
def acknowledge(
    law: Law,
    row: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    state: Floats,
    knobs: Floats,
    seen: Ints,
    route: Ints,
    members: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """An acknowledgement has reached the sender of its flow."""
    flow, kind = rows[row, FLOW], rows[row, KIND] & KINDS
    if rows[row, NUMBER] > flows[flow, ACKED]:
        flows[flow, ACKED] = rows[row, NUMBER]
        flows[flow, NEXT_BYTE] = max(flows[flow, NEXT_BYTE], flows[flow, ACKED])
        flows[flow, RETRY_AT] = flows[flow, TRIES] = 0
        if sim[RETRY_TIME] > 0 and flows[flow, NEXT_BYTE] > flows[flow, ACKED]:
            _expect_reply(flow, rows, flows, wheel, heap, sim)
    if flows[flow, ACKED] == flows[flow, POSTED] and flows[flow, SENDER_END] < 0:
        flows[flow, SENDER_END], flows[flow, STATE] = sim[NOW], FINISHED
        sim[UNFINISHED] -= 1
        if not sim[AT_RECEIVER]:
            _complete(flow, rows, flows, members, wheel, heap, sim)
    if kind == NACK:
        flows[flow, NEXT_BYTE] = flows[flow, ACKED]
        flows[flow, GO_BACKS] += 1
    link = route[flows[flow, WAY]]
    if sim[CONTROLLED]:
        marked, acked = (rows[row, KIND] & MARKED) != 0, rows[row, NUMBER]
        advise(law, FEEDBACK, flow, acked, marked, seen[row], link, rows, links, flows, state, knobs, wheel, heap, sim)
    recycle(row, rows, sim)
    prompt(link, rows, links, flows, seen, members, wheel, heap, sim)


@kernel
def _expect_reply(flow: int, rows: Ints, flows: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Let the sender go back if nothing comes for so long from now; an event entered before is moved when it is due."""
    number = sim[ISSUED]
    sim[ISSUED] = number + 1
    flows[flow, RETRY_AT], flows[flow, RETRY_NUMBER] = sim[NOW] + sim[RETRY_TIME], number
    if flows[flow, RETRY_SET] == 0:
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW], flows[flow, RETRY_SET] = RETRY, flow, 1
        schedule_numbered(row, flows[flow, RETRY_AT], number, rows, wheel, heap, sim)


@kernel
def retry(
    flow: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    seen: Ints,
    route: Ints,
    members: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> bool:
    """A sender may have waited too long; whether it goes on."""
    flows[flow, RETRY_SET] = 0
    if flows[flow, RETRY_AT] == 0:
        return True
    if flows[flow, RETRY_NUMBER] != sim[TURN]:
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW], flows[flow, RETRY_SET] = RETRY, flow, 1
        schedule_numbered(row, flows[flow, RETRY_AT], flows[flow, RETRY_NUMBER], rows, wheel, heap, sim)
        return True
    flows[flow, RETRY_AT] = 0
    flows[flow, TRIES] += 1
    if flows[flow, TRIES] > sim[RETRIES]:
        sim[GAVE_UP] = flow
        return False
    flows[flow, NEXT_BYTE] = flows[flow, ACKED]
    flows[flow, GO_BACKS] += 1
    prompt(route[flows[flow, WAY]], rows, links, flows, seen, members, wheel, heap, sim)
    return True


# --- starting and ending ---


@kernel
def _complete(flow: int, rows: Ints, flows: Ints, members: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """The flow has ended: what waits for it starts, last of all that happens at its instant."""
    for i in range(flows[flow, FOLLOWERS], flows[flow, FOLLOWERS_END]):
        follower = members[i]
        flows[follower, AWAITED] -= 1
        if flows[follower, AWAITED] == 0:
            row = new_row(rows, sim)
            rows[row, KIND], rows[row, FLOW] = START, follower
            schedule(row, sim[NOW] + flows[follower, OFFSET], rows, wheel, heap, sim)


@kernel
def begin(
    law: Law,
    flow: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    state: Floats,
    knobs: Floats,
    seen: Ints,
    route: Ints,
    members: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """Start a flow; without bytes or links it ends at once."""
    flows[flow, BEGAN], flows[flow, STATE] = sim[NOW], UNDER_WAY
    flows[flow, POSTED] += flows[flow, BYTES_PER_ROUND]
    link = route[flows[flow, WAY]]
    if flows[flow, BYTES_PER_ROUND] == 0 or link < 0:
        flows[flow, SENDER_END] = flows[flow, RECEIVER_END] = sim[NOW]
        flows[flow, STATE] = FINISHED
        sim[UNFINISHED] -= 1
        _complete(flow, rows, flows, members, wheel, heap, sim)
        return
    flows[flow, FLOW_RATE] = links[link, RATE]
    if sim[CONTROLLED]:
        advise(law, BEGIN, flow, 0, False, seen[0], link, rows, links, flows, state, knobs, wheel, heap, sim)
    members[links[link, FLOWS_AT] + links[link, FLOWS_HERE]] = flow
    links[link, FLOWS_HERE] += 1
    prompt(link, rows, links, flows, seen, members, wheel, heap, sim)
