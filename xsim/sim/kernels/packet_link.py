"""Ports: transmission, queues, shared buffers of switches, pause frames, congestion marks.

A port that is idle sends at once. One that is busy queues, and only then is its becoming free made an event; its number
was set aside when the transmission began, so that it comes when it would have come.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels.jit import part, rare_kernel
from xsim.sim.kernels.packet_clock import new_row, recycle, schedule_numbered
from xsim.sim.kernels.packet_columns import (
    ACK_SIZE,
    ACK_TIME,
    BACK,
    BACKLOG,
    BELOW,
    BUSY,
    BYTES,
    CLASSES,
    DATA,
    DATA_SIZE,
    DATA_TIME,
    DELAY,
    DICE,
    DROPS,
    FLOW,
    FLOWS_HERE,
    FREE,
    FREE_AT,
    FREE_SERIAL,
    FREE_SET,
    HEAD,
    HEADROOM,
    HOP_RECORDS,
    HOPS_SEEN,
    INTO,
    ISSUED,
    KIND,
    KINDS,
    KMAX,
    KMIN,
    MARKED,
    MARKS,
    MOST_RECORDS,
    NEXT,
    NOW,
    OVER,
    PACKETS,
    PAUSE,
    PAUSES,
    PAUSING,
    PFC_SIZE,
    PMAX,
    POOL,
    RATE,
    RECORD,
    RESERVE,
    SCALE,
    SHARED,
    SHIFT,
    SIGNALS,
    SIZE,
    TAIL,
    TAKEN,
    TURN,
    URGENT,
    URGENT_TAIL,
)
from xsim.sim.kernels.packet_lane import others_wait, queued_bytes

__all__ = [
    "admit",
    "append",
    "busy",
    "chance",
    "depart",
    "expect_free",
    "mark",
    "mixed_bits",
    "record",
    "signal",
    "threshold",
    "transmit",
    "urge",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@part
def busy(link: int, links: Ints, sim: Ints) -> bool:
    """Whether the port is sending, seen from the event in hand."""
    free_at = links[link, FREE_AT]
    return bool(free_at > sim[NOW] or (free_at == sim[NOW] and links[link, FREE_SERIAL] > sim[TURN]))


@part
def expect_free(link: int, rows: Ints, links: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Make the end of the transmission under way an event, if it is none yet."""
    if links[link, FREE_SET] == 0:
        links[link, FREE_SET] = 1
        row = new_row(rows, sim)
        rows[row, KIND], rows[row, FLOW] = FREE, link
        schedule_numbered(row, links[link, FREE_AT], links[link, FREE_SERIAL], rows, wheel, heap, sim)


@part
def transmit(row: int, link: int, rows: Ints, links: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Begin to send the packet on an idle port."""
    size = rows[row, SIZE]
    if size == links[link, DATA_SIZE]:
        lasts = links[link, DATA_TIME]
    elif size == sim[ACK_SIZE]:
        lasts = links[link, ACK_TIME]
    else:
        lasts = (size * 8 * sim[SCALE] - sim[BELOW]) // links[link, RATE]
    free_at, number = sim[NOW] + lasts, sim[ISSUED]
    sim[ISSUED] = number + 2
    links[link, FREE_AT], links[link, FREE_SERIAL] = free_at, number
    links[link, BYTES] += size
    links[link, PACKETS] += 1
    links[link, BUSY] += lasts
    schedule_numbered(row, free_at + links[link, DELAY], number + 1, rows, wheel, heap, sim)
    links[link, FREE_SET] = 0
    waits = links[link, HEAD] >= 0 or links[link, FLOWS_HERE] > 0 or links[link, URGENT] >= 0
    if waits or (sim[CLASSES] and others_wait(link, links, sim)):
        expect_free(link, rows, links, wheel, heap, sim)


@part
def append(row: int, lane: int, rows: Ints, links: Ints) -> None:
    """Put the packet at the end of the lane's queue."""
    rows[row, NEXT] = -1
    if links[lane, HEAD] < 0:
        links[lane, HEAD] = row
    else:
        rows[links[lane, TAIL], NEXT] = row
    links[lane, TAIL] = row
    links[lane, BACKLOG] += rows[row, SIZE]


# --- switches ---


@part
def threshold(lane: int, links: Ints, switches: Ints) -> int:
    """Bytes beyond its reserve that the ingress port may hold: a share of what is free in the pool."""
    switch = links[lane, INTO]
    return int((switches[switch, POOL] - switches[switch, SHARED]) >> links[lane, SHIFT])


@part
def _arrive(lane: int, size: int, limit: int, links: Ints, switches: Ints, sim: Ints) -> None:
    """Account a packet to its ingress port: in the reserve, in the pool, else in the headroom."""
    held = links[lane, TAKEN] + size
    beyond = held - sim[RESERVE]
    if beyond > max(0, limit):
        links[lane, OVER] += size
    else:
        links[lane, TAKEN] = held
        switches[links[lane, INTO], SHARED] += max(0, min(size, beyond))


@part
def admit(
    row: int, lane: int, limit: int, rows: Ints, links: Ints, switches: Ints, wheel: Ints, heap: Ints, sim: Ints
) -> bool:
    """Take a packet into the memory of the switch, which may pause those who send over ``lane``; False: it is lost."""
    size = rows[row, SIZE]
    if size + links[lane, OVER] > links[lane, HEADROOM] and size + max(0, links[lane, TAKEN] - sim[RESERVE]) > limit:
        links[lane, DROPS] += 1
        recycle(row, rows, sim)
        return False
    _arrive(lane, size, limit, links, switches, sim)
    if links[lane, SIGNALS] and links[lane, PAUSING] == 0:
        over = links[lane, OVER] > 0
        if over or max(0, links[lane, TAKEN] - sim[RESERVE]) >= threshold(lane, links, switches):
            links[lane, PAUSING] = 1
            links[lane, PAUSES] += 1
            signal(PAUSE, lane, rows, links, wheel, heap, sim)
    return True


@part
def depart(lane: int, size: int, links: Ints, switches: Ints, sim: Ints) -> None:
    """Take a packet from its ingress port: from the headroom first, then the pool, then the reserve."""
    over = min(links[lane, OVER], size)
    links[lane, OVER] -= over
    size -= over
    shared = max(0, min(size, links[lane, TAKEN] - sim[RESERVE]))
    switches[links[lane, INTO], SHARED] -= shared
    links[lane, TAKEN] -= size


@rare_kernel
def signal(kind: int, lane: int, rows: Ints, links: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Tell the transmitter of ``lane`` to pause or to resume, by a frame ahead of all others the other way."""
    row, back = new_row(rows, sim), links[lane, BACK]
    rows[row, KIND], rows[row, FLOW], rows[row, SIZE] = kind, lane, sim[PFC_SIZE]
    urge(row, back, rows, links, wheel, heap, sim)


@part
def urge(row: int, link: int, rows: Ints, links: Ints, wheel: Ints, heap: Ints, sim: Ints) -> None:
    """Send the packet at once, or else ahead of all that is not urgent."""
    if not busy(link, links, sim):
        transmit(row, link, rows, links, wheel, heap, sim)
        return
    rows[row, NEXT] = -1
    if links[link, URGENT] < 0:
        links[link, URGENT] = row
    else:
        rows[links[link, URGENT_TAIL], NEXT] = row
    links[link, URGENT_TAIL] = row
    expect_free(link, rows, links, wheel, heap, sim)


@part
def mark(row: int, lane: int, link: int, rows: Ints, links: Ints, chances: Floats) -> None:
    """Congestion experienced, by the queue of its lane that the packet leaves behind."""
    queued, low, high = links[lane, BACKLOG], links[lane, KMIN], links[lane, KMAX]
    if queued > high or (
        queued > low and chance(link, links) < chances[link, PMAX] * (queued - low) / max(1, high - low)
    ):
        links[link, MARKS] += 1
        if rows[row, KIND] & KINDS == DATA:  # an acknowledgement has the mark that it echoes
            rows[row, KIND] |= MARKED


@part
def record(row: int, link: int, rows: Ints, links: Ints, seen: Ints, sim: Ints) -> None:
    """A data packet notes the state of the port that it leaves by."""
    count = seen[row, HOPS_SEEN]
    if rows[row, KIND] & KINDS == DATA and count < MOST_RECORDS:
        place = HOP_RECORDS + RECORD * count
        seen[row, place], seen[row, place + 1] = sim[NOW], links[link, BYTES]
        seen[row, place + 2], seen[row, place + 3] = links[link, BACKLOG], links[link, RATE]
        if sim[CLASSES]:
            seen[row, place + 2] = queued_bytes(link, links, sim)
        seen[row, HOPS_SEEN] = count + 1


@part
def chance(link: int, links: Ints) -> float:
    """The next number in 0 .. 1 of the link's own sequence (SplitMix64: Steele, Lea, Flood, OOPSLA 2014)."""
    state = np.uint64(links[link, DICE]) + np.uint64(0x9E3779B97F4A7C15)
    links[link, DICE] = np.int64(state)
    return float(mixed_bits(state)) * 2.0**-53


@part
def mixed_bits(state: np.uint64) -> int:
    """53 bits that depend on all of ``state``."""
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return int(np.int64(mixed >> np.uint64(11)))
