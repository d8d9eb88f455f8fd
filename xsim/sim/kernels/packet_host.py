"""The two ends of a flow: a receiver that acknowledges, a sender that goes on or back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part
from xsim.sim.kernels.packet_clock import new_row, recycle, schedule_numbered
from xsim.sim.kernels.packet_columns import (
    ACK,
    ACK_EVERY,
    ACK_SIZE,
    ACKED,
    AT_RECEIVER,
    BY_PACKET,
    CAME,
    CLASSES,
    FLOW,
    GAP,
    GAP_TIME,
    GAP_UNTIL,
    GAVE_UP,
    GO_BACKS,
    HEAD,
    HOP,
    INSIDE,
    KEPT,
    KIND,
    KINDS,
    MILESTONE,
    NACK,
    NEXT_BYTE,
    NOW,
    NUMBER,
    OVERHEAD,
    PAUSED,
    POSTED,
    QUEUE,
    RECEIVED,
    RECEIVER_END,
    RETRIES,
    RETRY,
    RETRY_AT,
    RETRY_NUMBER,
    RETRY_SET,
    RETRY_TIME,
    SELECTIVE,
    SIZE,
    STATE,
    TRIES,
    TURN,
    UNDER_WAY,
    WAY,
    WAY_BACK,
)
from xsim.sim.kernels.packet_control import expect_reply
from xsim.sim.kernels.packet_credit import may_send
from xsim.sim.kernels.packet_flow import complete, settle
from xsim.sim.kernels.packet_lane import lane_of
from xsim.sim.kernels.packet_link import append, busy, transmit
from xsim.sim.kernels.packet_pull import drop, forget
from xsim.sim.kernels.packet_reorder import confirm, take
from xsim.sim.kernels.packet_ways import carry

__all__ = ["acknowledge", "receive", "retry"]

Ints = NDArray[np.int64]


@part
def receive(
    row: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    seen: Ints,
    arrived: Ints,
    route: Ints,
    members: Ints,
    ended: Ints,
    log: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> int:
    """A data packet has reached its host; an acknowledgement takes its row if the flow has any. The link to prompt."""
    flow, before, kind = rows[row, FLOW], flows[rows[row, FLOW], RECEIVED], ACK
    if sim[SELECTIVE] and not flows[flow, INSIDE]:
        seen[row, CAME] = rows[row, NUMBER]
        new = take(flow, rows[row, NUMBER], rows[row, SIZE], flows, arrived)
    else:
        kind = _take_in_order(flow, rows[row, NUMBER], rows[row, SIZE], flows, sim)
        new = flows[flow, RECEIVED] > before
    if new and sim[BY_PACKET] and not flows[flow, INSIDE]:
        carry(rows[row, HOP], rows[row, SIZE] - flows[flow, OVERHEAD], links, route)
    wanted = flows[flow, RECEIVED]
    if wanted > before and wanted == flows[flow, POSTED]:
        flows[flow, RECEIVER_END] = sim[NOW]
        if sim[AT_RECEIVER]:
            complete(flow, rows, links, flows, route, members, ended, log, wheel, heap, sim)
        if flows[flow, INSIDE]:
            flows[flow, ACKED] = wanted
            settle(flow, flows, sim)
    if kind < 0:
        recycle(row, rows, sim)
        return -1
    rows[row, KIND] = kind | (rows[row, KIND] & sim[KEPT])
    rows[row, NUMBER], rows[row, SIZE], rows[row, HOP] = wanted, sim[ACK_SIZE], flows[flow, WAY_BACK]
    out = route[flows[flow, WAY_BACK]]
    if (
        links[out, HEAD] < 0
        and sim[CLASSES] == 0
        and links[out, PAUSED] == 0
        and not busy(out, links, sim)
        and may_send(sim[ACK_SIZE], out, rows, links, wheel, heap, sim)
    ):
        transmit(row, out, rows, links, wheel, heap, sim)
        return -1
    append(row, lane_of(out, row, rows, sim) if sim[CLASSES] else out, rows, links)
    return int(out)


@part
def _take_in_order(flow: int, first: int, size: int, flows: Ints, sim: Ints) -> int:
    """Go on with the packet if it is the next one; how to answer, -1 for not at all."""
    wanted = flows[flow, RECEIVED]
    if first == wanted:
        wanted += size - flows[flow, OVERHEAD]
        flows[flow, RECEIVED] = wanted
        if flows[flow, INSIDE] or wanted < min(flows[flow, MILESTONE], flows[flow, POSTED]):
            return -1
        flows[flow, MILESTONE] = wanted + sim[ACK_EVERY]
        return ACK
    if first < wanted:  # without retries, no sender can be waiting for an acknowledgement that was lost
        return ACK if sim[RETRY_TIME] > 0 else -1
    if flows[flow, GAP] == wanted and sim[NOW] < flows[flow, GAP_UNTIL]:
        return -1
    flows[flow, GAP], flows[flow, GAP_UNTIL] = wanted, sim[NOW] + sim[GAP_TIME]
    return NACK


@part
def acknowledge(
    row: int,
    rows: Ints,
    links: Ints,
    flows: Ints,
    seen: Ints,
    arrived: Ints,
    route: Ints,
    members: Ints,
    ended: Ints,
    log: Ints,
    wheel: Ints,
    heap: Ints,
    sim: Ints,
) -> int:
    """An acknowledgement has reached the sender of its flow; the link to prompt."""
    flow, kind = rows[row, FLOW], rows[row, KIND] & KINDS
    news = rows[row, NUMBER] > flows[flow, ACKED]
    if sim[SELECTIVE]:
        news = confirm(flow, rows[row, NUMBER], seen[row, CAME], flows, arrived)
    elif news:
        flows[flow, ACKED] = rows[row, NUMBER]
        flows[flow, NEXT_BYTE] = max(flows[flow, NEXT_BYTE], flows[flow, ACKED])
    if news:
        flows[flow, RETRY_AT] = flows[flow, TRIES] = 0
        if sim[RETRY_TIME] > 0 and flows[flow, NEXT_BYTE] > flows[flow, ACKED]:
            expect_reply(flow, rows, flows, wheel, heap, sim)
    if flows[flow, ACKED] == flows[flow, POSTED]:
        if not sim[AT_RECEIVER] and flows[flow, STATE] == UNDER_WAY:
            complete(flow, rows, links, flows, route, members, ended, log, wheel, heap, sim)
        settle(flow, flows, sim)
        if sim[QUEUE]:
            drop(flow, rows, flows, sim)
    if kind == NACK:
        flows[flow, NEXT_BYTE] = flows[flow, ACKED]
        flows[flow, GO_BACKS] += 1
    recycle(row, rows, sim)
    return int(route[flows[flow, WAY]])


@part
def retry(flow: int, rows: Ints, flows: Ints, route: Ints, wheel: Ints, heap: Ints, sim: Ints) -> int:
    """A sender may have waited too long: it goes back. The link to prompt, -1 for none, -2 if it gives up."""
    flows[flow, RETRY_SET] = 0
    if flows[flow, RETRY_AT] == 0:
        return -1
    if flows[flow, RETRY_NUMBER] != sim[TURN]:
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW], flows[flow, RETRY_SET] = RETRY, flow, 1
        schedule_numbered(row, flows[flow, RETRY_AT], flows[flow, RETRY_NUMBER], rows, wheel, heap, sim)
        return -1
    flows[flow, RETRY_AT] = 0
    flows[flow, TRIES] += 1
    if flows[flow, TRIES] > sim[RETRIES]:
        sim[GAVE_UP] = flow
        return -2
    flows[flow, NEXT_BYTE] = flows[flow, ACKED]
    flows[flow, GO_BACKS] += 1
    if sim[QUEUE]:
        forget(flow, rows, flows, sim)
    return int(route[flows[flow, WAY]])
