"""Columns of the packet kernel's tables, and the kinds of its events. All tables are int64 unless said.

rows      R x 8    a packet, or an event that is no packet (``TIME`` .. ``HOP``); free ones form a list
links     L x 56   a directed link: its transmitter, and the ingress port at its far end (``FREE_AT`` ..); then, as many
                   rows again for each class beside the first, their lanes, see ``packet_lane``
chances   L x 2    float64: ``PMAX``, ``LOSS``
switches  S x 2    ``SHARED``, ``POOL``
flows     F x 56   a flow, or a party of one graph (``NEXT_BYTE`` .. ``STRAY``)
arrived   1-D      bits of packets that have overtaken others, see ``packet_reorder``
route     1-D      directed links of all ways, each closed by -1
forks     W x 4    of each place in ``route`` the ways that are the same up to there; empty where nobody chooses
turns     1-D      for each host port, the flows that it serves in turn, and a table of them, see ``packet_crowd``
members   1-D      the flows that follow each flow
wheel     1-D      heads of the buckets, then one bit per bucket that is not empty
bucket    2 x R    the open bucket: keys and rows, the next one last
heap      3 x R    times, numbers and rows of the events that the wheel does not hold
sim       1-D      ``NOW`` .. ``FEW``: the state of the whole, and its settings
"""

from __future__ import annotations

# Of a row. SERIAL: its number in the order of scheduling, which decides between equal times. FLOW: of a packet; the
# link of FREE, WAKE, PAUSE, RESUME and CREDIT. NUMBER: first byte of a data packet, next byte wanted of an
# acknowledgement.
# HOP: the place in ``route`` of the link that it is on.
TIME, SERIAL, NEXT, KIND, FLOW, NUMBER, SIZE, HOP = range(8)
ROW_COLUMNS = 8

# KIND. The packets come first; a congestion mark is added to the kind.
DATA, ACK, NACK, PAUSE, RESUME, CREDIT, FREE, WAKE, START, TIMER = range(10)
TIMERS = 3  # TIMER + 0 .. TIMER + 2
RETRY = TIMER + TIMERS
RELEASE = RETRY + 1
ASK = RELEASE + 1  # a host's port asks for a packet; see ``packet_pull``
KINDS, MARKED = 15, 16  # mask of the kind, and the mark
CUT, CALL = 32, 64  # besides: a data packet of which the header is left, an ACK that asks for a packet instead
LANE_AT, LANES = 7, 7 << 7  # from this bit on, in these bits: the number of the lane of a packet's class

# Of a link as its transmitter sees it. FREE_AT, FREE_SERIAL: the event of its becoming free, real only if FREE_SET.
# HEAD, TAIL: its queue. URGENT, URGENT_TAIL: pause and resume frames. FLOWS_HERE: how many flows take turns at it.
# BUSY: for how long it has sent. DATA_SIZE: of its usual packet, which takes DATA_TIME. What an event touches stands
# together, eight columns to a line of the cache.
FREE_AT, FREE_SERIAL, FREE_SET, HEAD, URGENT, PAUSED, BACKLOG, TAIL = range(8)
DELAY, DATA_TIME, ACK_TIME, BYTES, PACKETS, BUSY, FLOWS_HERE, DATA_SIZE = range(8, 16)
# Of the ingress port at its far end. INTO: switch there, -1 for a host. PAUSING: whether the transmitter has been told
# to pause. SHIFT: the threshold is the free pool, shifted right by this. BUFFER: bytes of its own that the transmitter
# has credit for; 0: it is in the memory that the switch shares, and SIGNALS says whether it pauses the transmitter.
# SEVERED: what has a smaller number than this was on the link when it failed.
INTO, TAKEN, OVER, PAUSING, SHIFT, HEADROOM, BUFFER, SEVERED = range(16, 24)
# FLOWS_AT: where in ``turns`` its flows stand. SERVED: place of the last one served there. CARRIED: bytes of complete
# transfers. LOST: by errors of the wire. PAUSED_FOR, PAUSED_SINCE: of its transmitter. BACK: the link the other way.
KMIN, KMAX, DICE, MARKS, URGENT_TAIL, FLOWS_AT, SERVED, WAKE_ROW = range(24, 32)
CARRIED, DROPS, LOST, PAUSED_FOR, PAUSED_SINCE, BACK, PAUSES, SIGNALS = range(32, 40)
# CREDITS: bytes that it may still send. OWED, OWED_LAST: a list of what is on its way back to it. That calls the
# transmitter only if it waits: CREDIT_CALL is NO_CALL, ONE_CALL that is an event already, or NEXT_CALL, which the next
# to be given back will be.
CREDITS, OWED, OWED_LAST, CREDIT_CALL = range(40, 44)
# ASKING, ASKING_LAST: flows that the host is to ask for packets, in turn. ASK_AT: when it may ask again. CUTS: packets
# cut because the queue was full. SERVED_LANE: number of the lane served last.
ASKING, ASKING_LAST, ASK_AT, CUTS, RATE, SERVED_LANE = range(44, 50)
# ROOM: for so many flows there are slots in ``turns``. SLOTS: how many are taken if its flows are a crowd, see
# ``packet_crowd``, else 0.
ROOM, SLOTS = range(50, 52)
LINK_COLUMNS = 56
NO_CALL, ONE_CALL, NEXT_CALL = range(3)

# Of a crowd of flows: BLOCK slots make a block, and BLOCK of those a large one. Of either how many flows are PRESENT.
# QUIET: 0 if that is not known, else none of them has finished, and none may send before that instant, but for 1.
# WAKES: when the first of those with bytes may by its rate; an instant that has passed is not known.
BLOCK, BLOCK_COLUMNS = 64, 3
PRESENT, QUIET, WAKES = range(BLOCK_COLUMNS)
LATEST = 1 << 62
# What becomes of a crowd, or is asked of it: a flow joins; the list of a port becomes a crowd, or a plain list again;
# something has happened to a flow, or it has sent; which flow sends next, and when one may that waits for its rate.
JOIN, GATHER, DISPERSE, STIR, CHOOSE, SENT, LOOK_AGAIN = range(7)

# Of a place in ``route``: the same hop on the FIRST of COUNT ways, APART places from one to the next, which have
# all links up to here in common. At the first: LATELY, which of them was taken last.
FIRST, COUNT, APART, LATELY = range(4)
FORK_COLUMNS = 4

DOWN = 2  # of PAUSED: the link has failed

PMAX, LOSS = range(2)
SHARED, POOL = range(2)
SWITCH_COLUMNS = 2

# Of a flow, bytes of a stream: NEXT_BYTE to send, POSTED so far, ACKED, RECEIVED in order. AVAILABLE: when its rate
# lets it send again. WINDOW: 0 for none. WAY, WAY_BACK: places in ``route``. FULL_PAYLOAD, OVERHEAD: bytes of its
# packets. INSIDE: it stays in a host, is not acknowledged, and has no congestion control. RETRY_AT, RETRY_NUMBER: the
# event at which it goes back unless something comes (0: none); RETRY_SET: whether one is entered, that one or an
# earlier. TRIES: how often in a row it went back. ROUNDS: of the ring of CYCLE_LEN flows from CYCLE on, as in
# ``TransferGraph``, and how many are DONE. CARRIES: bytes of this round. OFFSET: from being ready to the start.
# AWAITED: of a flow, what must end or be released before it is ready; of a party, its flows. EXTRA: bytes on the wire
# beyond each million. IN_TURN: it stands in the list of its port; in a crowd, after so many slots. BASE: first byte of
# this round. ARRIVED, WORDS: place in ``arrived``, and words of either end there. WAYS: how many its packets take by
# turns, STRIDE places apart; SPRAYED: packets that have taken one; STRAY: seed of the turns. LANE: of its class, as it
# stands in the kind of its packets.
NEXT_BYTE, POSTED, ACKED, WINDOW, AVAILABLE, RECEIVED, WAY, WAY_BACK = range(8)
STATE, BYTES_PER_ROUND, OFFSET, AWAITED, FOLLOWERS, FOLLOWERS_END, BEGAN, SENDER_END = range(8, 16)
RECEIVER_END, FULL_PAYLOAD, OVERHEAD, INSIDE, MILESTONE, FLOW_RATE, LAST_SIZE, TRIES = range(16, 24)
RETRY_AT, RETRY_NUMBER, RETRY_SET, CYCLE, CYCLE_LEN, ROUNDS, DONE, CARRIES = range(24, 32)
READY_AT, SRC_PARTY, DST_PARTY, EXTRA, IN_TURN, GAP, GAP_UNTIL, GO_BACKS = range(32, 40)
BASE, ARRIVED, WORDS = range(40, 43)
# Where receivers ask, in packets: MISSING at the receiver, COMING to it or asked for, TO_ASK not yet asked for;
# NEXT_ASKED in the list of its port. ALLOWED to its sender, and there a list of those to be sent again. FIRST_PACKETS:
# of a round, allowed from the start.
MISSING, COMING, TO_ASK, NEXT_ASKED, ALLOWED, RESEND, RESEND_LAST, FIRST_PACKETS = range(43, 51)
WAYS, STRIDE, SPRAYED, STRAY, LANE = range(51, 56)
FLOW_COLUMNS = 56
WAITING, UNDER_WAY, FINISHED = range(3)  # STATE: nothing to do, something, never anything more

# Of a flow's congestion control: what it asks for, bits per second, bytes (0: no window) and up to three instants at
# which to be called (0: none); what it is told, the rate of the host's port, the ticks of an undisturbed round trip,
# the bytes that fit in one, and the links of the way.
RATE_BITS, WINDOW_BYTES, ALARM, LINE_BITS, TRIP, TRIP_BYTES, HOPS, OWN = 0, 1, 2, 5, 6, 7, 8, 9
BEGIN, FEEDBACK, ALARMED = range(3)  # why it is called; ALARMED + 0 .. ALARMED + 2

# Of what a packet has seen: when it left its host, of an acknowledgement the first byte of the packet that came (CAME),
# and of up to five switches the instant, the bytes sent there before it, the bytes queued behind it, and the bits per
# second.
SENT_AT, HOPS_SEEN, CAME, HOP_RECORDS = range(4)
RECORD, MOST_RECORDS = 4, 5
SEEN_COLUMNS = HOP_RECORDS + RECORD * MOST_RECORDS

BUCKETS = 1 << 14
BUCKET_MASK = BUCKETS - 1
WHEEL = BUCKETS + BUCKETS // 64

# TURN: number of the event in hand. CURSOR: the open bucket. LEFT: entries in it. ROWS_FREE: head of the list of free
# rows. UNFINISHED: flows. MARGIN: rows that one event may take. SCALE: ticks per second. CONTROLLED: whether there is a
# congestion control. RECORDED: whether packets record their way. WINDOW_FOLLOWS: the window shrinks with the rate.
# REPACED: a new rate holds for the pause after the last packet already. BELOW: 1 if what lasts a whole number of ticks
# is taken to last one less, see ``wires``. RETRY_TIME: 0 if no sender ever goes back by itself. GAVE_UP: the flow whose
# sender has gone back too often. ENDED, LOGGED: entries in ``ended`` and ``log``. SELECTIVE: whether receivers take
# packets in any order. QUEUE: bytes that wait for a port of a switch before it cuts packets; 0: none is cut, and
# senders do not wait to be asked. ALARMS: how many alarms of congestion controls have come with nothing in between, the
# last of them as event ALARMED_AT. ADAPTIVE: whether switches choose for each packet. CLASSES: lanes of a link, beside
# the first. LINKS: rows from one to the next. STRICT: whether the first goes first. EXEMPT: whether it does in any
# case, and the memory of switches does not count it. KEPT: what an acknowledgement keeps of the kind of its packet.
# BY_PACKET: whether each packet counts its bytes for the links that it has taken, not each transfer as it ends. FEW:
# flows at a port that are no crowd; twice as many and more become one.
NOW, TURN, ISSUED, CURSOR, LEFT, HEAPED, ROWS_FREE, ROWS_LEFT, EVENTS, UNFINISHED, MARGIN = range(11)
WIDTH, SCALE, ACK_SIZE, PFC_SIZE, ACK_EVERY, RESERVE, RESUME_GAP = range(11, 18)
GAP_TIME, AT_RECEIVER, CONTROLLED, RECORDED, WINDOW_FOLLOWS, REPACED, BELOW = range(18, 25)
RETRY_TIME, RETRIES, GAVE_UP, ENDED, LOGGED, SELECTIVE, QUEUE = range(25, 32)
ALARMS, ALARMED_AT, ADAPTIVE, CLASSES, LINKS, STRICT, EXEMPT, KEPT, BY_PACKET, FEW = range(32, 42)
SIM_COLUMNS = 48

# What ``run`` answers.
IDLE, LATER, GROW, LOST_HOPE = range(4)
