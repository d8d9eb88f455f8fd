"""From being awaited to being done: what starts a flow, and what starts when it has ended."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.never import HALF_PPM, PPM
from xsim.sim.kernels.packet_clock import new_row, schedule
from xsim.sim.kernels.packet_columns import (
    ACKED,
    AWAITED,
    BEGAN,
    BY_PACKET,
    BYTES_PER_ROUND,
    CARRIED,
    CARRIES,
    CLASSES,
    CYCLE,
    CYCLE_LEN,
    DONE,
    DST_PARTY,
    ENDED,
    EXTRA,
    FEW,
    FINISHED,
    FLOW,
    FLOW_RATE,
    FLOWS_AT,
    FLOWS_HERE,
    FOLLOWERS,
    FOLLOWERS_END,
    GATHER,
    IN_TURN,
    INSIDE,
    JOIN,
    KIND,
    LOGGED,
    NOW,
    OFFSET,
    POSTED,
    QUEUE,
    RATE,
    READY_AT,
    RECEIVER_END,
    ROUNDS,
    SELECTIVE,
    SENDER_END,
    SLOTS,
    SRC_PARTY,
    START,
    STATE,
    UNDER_WAY,
    UNFINISHED,
    WAITING,
    WAY,
)
from xsim.sim.kernels.packet_crowd import Crowd
from xsim.sim.kernels.packet_pull import begin_asking
from xsim.sim.kernels.packet_reorder import begin_round

__all__ = ["begin", "complete", "release", "settle"]

Ints = NDArray[np.int64]


@part
def release(slot: int, rows: Ints, flows: Ints, route: Ints, members: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """One thing less to wait for, for each flow that follows ``slot``; those with nothing left are ready."""
    for i in range(flows[slot, FOLLOWERS], flows[slot, FOLLOWERS_END]):
        flow = members[i]
        flows[flow, AWAITED] -= 1
        if flows[flow, AWAITED] == 0:
            _ready(flow, rows, flows, route, wheel, heap, sim)


@part
def _ready(flow: int, rows: Ints, flows: Ints, route: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """The next round of the flow starts, last of all that happens at its instant.

    A transfer with nothing to carry over links is free; what starts in a replay has its time in any case.
    """
    base = flows[flow, CYCLE]
    payload = flows[base + (flow - base - flows[flow, DONE]) % flows[flow, CYCLE_LEN], BYTES_PER_ROUND]
    extra = flows[flow, EXTRA]
    size = payload + payload // PPM * extra + (payload % PPM * extra + HALF_PPM) // PPM
    flows[flow, CARRIES], flows[flow, READY_AT], flows[flow, STATE] = size, sim[NOW], UNDER_WAY
    free = size == 0 and route[flows[flow, WAY]] >= 0 and flows[flow, SRC_PARTY] >= 0
    row = new_row(rows, sim)
    rows[row, KIND], rows[row, FLOW] = START, flow
    schedule(row, sim[NOW] + (0 if free or flows[flow, ROUNDS] == 0 else flows[flow, OFFSET]), rows, wheel, heap, sim)


@part
def begin(
    crowd: Crowd,
    flow: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    arrived: Ints,
    route: Ints,
    turns: Ints,
    members: Ints,
    ended: Ints,
    log: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> int:
    """Start a round; without bytes or links it ends at once. The link to prompt, -1 for none."""
    link = route[flows[flow, WAY]]
    flows[flow, BEGAN] = sim[NOW]
    if flows[flow, ROUNDS] == 0 or flows[flow, CARRIES] == 0 or link < 0:
        flows[flow, RECEIVER_END] = sim[NOW]
        complete(flow, rows, links, flows, route, members, ended, log, wheel, heap, sim)
        settle(flow, flows, sim)
        return -1
    if sim[SELECTIVE] and not flows[flow, INSIDE]:
        begin_round(flow, flows, arrived)
    if sim[QUEUE]:
        begin_asking(flow, rows, flows, sim)
    flows[flow, POSTED] += flows[flow, CARRIES]
    if flows[flow, IN_TURN] == 0:
        flows[flow, IN_TURN], flows[flow, FLOW_RATE] = 1, links[link, RATE]
        links[link, FLOWS_HERE] += 1
        if links[link, SLOTS] > 0:
            crowd(JOIN, flow, link, links, flows, turns, sim)
        else:
            turns[links[link, FLOWS_AT] + links[link, FLOWS_HERE] - 1] = flow
            if links[link, FLOWS_HERE] // 2 > sim[FEW] and sim[CLASSES] == 0:
                crowd(GATHER, -1, link, links, flows, turns, sim)
    return int(link)


@part
def complete(
    flow: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    route: Ints,
    members: Ints,
    ended: Ints,
    log: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> None:
    """A round has ended: what waited for it starts, its own next round and the next flow's among it."""
    flows[flow, DONE] += 1
    if flows[flow, SRC_PARTY] >= 0 and flows[flow, CARRIES] > 0 and flows[flow, ROUNDS] > 0:
        _count(flow, links, flows, route, log, sim)
    done, count, base = flows[flow, DONE], flows[flow, CYCLE_LEN], flows[flow, CYCLE]
    flows[flow, STATE] = WAITING
    if done >= flows[flow, ROUNDS]:
        release(flow, rows, flows, route, members, wheel, heap, sim)
        _tell_parties(flow, flows, ended, sim)
        return
    before, after = base + (flow - base - 1) % count, base + (flow - base + 1) % count
    if flows[before, DONE] >= done:
        _ready(flow, rows, flows, route, wheel, heap, sim)
    if after != flow and flows[after, DONE] == done and flows[after, STATE] == WAITING:
        _ready(after, rows, flows, route, wheel, heap, sim)


@part
def settle(flow: int, flows: Ints, sim: Ints) -> None:
    """A flow whose rounds are done and whose bytes are acknowledged has finished."""
    if (
        flows[flow, DONE] >= flows[flow, ROUNDS]
        and flows[flow, ACKED] == flows[flow, POSTED]
        and flows[flow, STATE] != FINISHED
    ):
        flows[flow, SENDER_END], flows[flow, STATE] = sim[NOW], FINISHED
        sim[UNFINISHED] -= 1


@part
def _count(flow: int, links: Ints, flows: Ints, route: Ints, log: Ints, sim: Ints) -> None:
    """A transfer is complete: its bytes per link, unless its packets have counted them, and how long it took."""
    place = flows[flow, WAY]
    if route[place] < 0:
        return
    while route[place] >= 0 and (not sim[BY_PACKET] or flows[flow, INSIDE]):
        links[route[place], CARRIED] += flows[flow, CARRIES]
        place += 1
    log[sim[LOGGED]] = sim[NOW] - flows[flow, READY_AT]
    sim[LOGGED] += 1


@part
def _tell_parties(flow: int, flows: Ints, ended: Ints, sim: Ints) -> None:
    """Both parties have one flow less to wait for."""
    src, dst = flows[flow, SRC_PARTY], flows[flow, DST_PARTY]
    for party in (src, dst):
        if party >= 0:
            flows[party, AWAITED] -= 1
            if flows[party, AWAITED] == 0:
                ended[sim[ENDED]] = party
                sim[ENDED] += 1
        if src == dst:
            break
