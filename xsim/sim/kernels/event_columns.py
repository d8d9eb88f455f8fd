"""Columns of the flow network's tables, and what stands in them.

Plain arrays, passed one by one: a tuple of them costs threefold.

slots   int64    S x 26     ``AT`` .. ``SOLE``
flows   float64  S x 6      ``LEFT`` .. ``LONE_RATE``
hops    int64    S x H x 3  ``LINK`` .. ``PREVIOUS``: hop h of the path of each row, a place in the link's list
links   int64    L x 11     ``HEAD`` .. ``HOLDER``
widths  float64  L x 3      ``CAPACITY`` .. ``KEY``
pool    int64               members of slots
sim     int64    10         ``NOW`` .. ``STAMP``: the instant, and how much of each list is in use
lists   int64    8 x max(S, L)  ``QUEUE`` .. ``HELD``
times   int64    T x 2      how many flows took how long: a hash table with 0 for nothing
"""

from __future__ import annotations

# AWAITED: of a row, its predecessors and releases still to come; of a party, its rows; AWAITS at first. DONE: rounds.
# SENT: bytes of the round, on the wire. MEMBERS: where in the pool a row has its successors and a party its rows,
# counted from the slot ORIGIN. PLACE: in the queue, or -1. LAST: the instant of the last change of rate, LAST_BEFORE of
# the one before; of a row that is AHEAD, end and start of the last round that was followed. EXTRA: bytes on the wire
# beyond each million. Of the first row of a ring: SOLE, whether no two of its rows share a link; RING, whether it may
# own its links (FREE_RING), does (ALONE), or neither (0); READIED, how many of its rows have been ready since.
# What is used together stands together.
AT, PLACE, STATE, SEEN, HOPS, LAST, LATENCY, BEGAN = range(8)
SENT, DONE, ROUNDS, AWAITED, CYCLE, COUNT, SIZE, EXTRA = range(8, 16)
RING, ORIGIN, MEMBERS, MEMBERS_END, SRC, DST, READIED, LAST_BEFORE = range(16, 24)
AWAITS, SOLE = range(24, 26)
SLOT_COLUMNS = 26
WAITING, SENDING, FLYING, PARTY, AHEAD, OVER = range(6)  # STATE; AHEAD and OVER: ready, and at its end, in a ring alone
FREE_RING, ALONE = range(1, 3)  # RING

# Bytes left at LAST and bytes per ps since then, the same before LAST, the rate to be, and the rate of a flow alone.
LEFT, RATE, LEFT_BEFORE, RATE_BEFORE, NEW_RATE, LONE_RATE = range(6)
FLOW_COLUMNS = 6

# A node of a link's list of flows is ``slot << NODE_BITS | hop``: a path has up to 64 links.
LINK, NEXT, PREVIOUS = range(3)
NODE_BITS = 6
NODE_HOP = (1 << NODE_BITS) - 1

# FLOWS: how many now; UNSET: how many of them have no new rate yet; OWNER: first row of the ring that has it to itself,
# or -1. USERS: rows among the events that have not ended; HOLDER: who uses it without events, a number of the caller's,
# or -1. FREE: bytes per ps not given to the others.
HEAD, FLOWS, SINCE, BUSY, BYTES, MARK, REACHED, UNSET, OWNER, USERS, HOLDER = range(11)
LINK_COLUMNS = 11
CAPACITY, FREE, KEY = range(3)
WIDTH_COLUMNS = 3

# TIMES: distinct flow completion times so far; NEW_TIMES: at most so many come up in one instant.
NOW, QUEUED, STACKED, ENDED, CHANGES, TIMES, NEW_TIMES, ORDERED, HOLDERS, STAMP = range(10)
SIM_COLUMNS = 10
QUEUE, READY, PARTIES, CHANGED, NEAR_FLOWS, NEAR_LINKS, ORDER, HELD = range(8)
LISTS = 8
