"""Transfer graphs in the packet engine: they go in, completions are read off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.sim.contracts import Fault, LinkCounts, LinkSamples
from xsim.sim.kernels import packet_columns as k
from xsim.sim.kernels.never import LONGEST_PS, NEVER_PS, PPM
from xsim.sim.packets.counts import add_back, counts_of
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.fabric_ways import FabricWays
from xsim.sim.packets.fabric_wires import INSIDE_HOSTS
from xsim.sim.packets.faults import Breaking, changes_of
from xsim.sim.packets.lanes import lane_bits
from xsim.sim.packets.reorder import make_room
from xsim.sim.packets.samples import Sampler
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.skip import engine_for
from xsim.sim.packets.slots import Slots
from xsim.sim.packets.stuck import full_queues, listed, reason
from xsim.sim.packets.turns import give_room, standing
from xsim.sim.packets.wires import Wires, width_of
from xsim.sim.traffic.compiled import Compiled
from xsim.sim.traffic.stored import SCALE_UP, largest_bytes
from xsim.sim.traffic.tally import Totals

__all__ = ["Instances"]

Ints = NDArray[np.int64]
FAR_BYTES = 1 << 33  # more than any string of bits stands for


class Instances:
    """Graphs that share links, packet by packet. Each row of a graph is a flow of its own, for all of its rounds.

    A graph that has ended, and that nothing under way knows any more, leaves its slots to those that come.

    Attributes:
        next_ps: The next instant in which something happens; ``NEVER_PS`` if there is none.
    """

    def __init__(self, fabric: Fabric, settings: Settings, wires: Wires, faults: Sequence[Fault] = ()) -> None:
        """``wires`` are those of the fabric, and change with what passes over them."""
        assert settings.tick_ps == 1, "graphs are timed in picoseconds"
        nothing = np.zeros(0, dtype=np.int64)
        flows = np.zeros((0, k.FLOW_COLUMNS), dtype=np.int64)
        control = settings.congestion
        memory = np.zeros((0, k.OWN + control.remembers if control.law else 0))
        kind: type[Engine] = Breaking if faults else engine_for(settings)
        self._engine = kind(wires, flows, memory, nothing, nothing, nothing, width_of(wires.links), settings)
        self._fabric, self._settings = fabric, settings
        self._sampler = Sampler(settings.sample_ps, settings.tick_ps, len(wires.links), "network.sample")
        kinds = np.array([link.kind for link in fabric.links])
        self._scale_up, self._inside = kinds == SCALE_UP, np.isin(kinds, INSIDE_HOSTS)
        self._ways = FabricWays(fabric, settings)
        if isinstance(self._engine, Breaking):
            back = wires.links[:, k.BACK].tolist()
            self._engine.changes = changes_of(fabric, faults, back, self._inside.tolist())
            self._engine.down, self._engine.reroute = {}, self._reroute
            self._engine.sim[k.BY_PACKET] = True  # those of one transfer go different ways
        self._slots = Slots(self._engine)
        self._gone_back = np.zeros(len(fabric.links), dtype=np.int64)  # by flows whose slots are others' now
        self._let: Ints = np.zeros(len(fabric.links), dtype=np.int64)  # flows that begin at each port, so far
        self._capacity = self._let.copy()  # of each port's list of flows
        self._parties: dict[int, tuple[int, int]] = {}  # per slot of a party, its handle and number
        self._durations: Counter[int] = Counter()
        self.next_ps = NEVER_PS

    def open(self, handle: int, compiled: Compiled, traffic_class: int | None = None) -> int:
        """Add a graph, nothing released, in the first class if none is said; its first slot."""
        engine, rows, parties = self._engine, compiled.graph.rows, compiled.parties
        if not self._slots.ready(rows + parties):
            self._leave()
            self._slots.make_room(rows + parties)
        base = self._slots.take(rows + parties)
        block = self._slots.flows(base)
        block[:] = self._block(base, compiled)
        number = self._settings.classes[0] if traffic_class is None else traffic_class
        block[:rows, k.LANE] = lane_bits(self._settings, np.array(number))
        engine.memory[base : base + rows + parties] = 0
        self._slots.follow(base, compiled)
        ports = engine.route[block[:rows, k.WAY]]
        self._slots.taken[base].ports = ports[ports >= 0]
        self._let_in(ports)
        self._size_packets(block[:rows], compiled)
        self._tell_control(base, compiled)
        words = make_room(block[:rows], _largest_bytes(compiled), self._settings)
        block[:rows, k.ARRIVED] += self._slots.words(base, words)
        self._parties |= {
            base + rows + party: (handle, party) for party in range(parties) if not compiled.idle >> party & 1
        }
        engine.sim[k.UNFINISHED] += rows
        engine.followed()
        return base

    def _leave(self) -> None:
        """Free the slots of all graphs that have ended and that nothing knows any more."""
        for base in self._slots.over():
            if self._parties.keys().isdisjoint(range(base, base + self._slots.taken[base].count)):
                self._retire(base)

    def _retire(self, base: int) -> None:
        """Give all back that the graph has taken."""
        flows = self._slots.flows(base)
        self._count_back(self._gone_back, flows)
        self._let -= np.bincount(self._slots.taken[base].ports, minlength=len(self._let))
        flows[:] = 0
        self._ways.forget(base)
        self._slots.give(base)

    def release(self, base: int, compiled: Compiled, party: int, at_ps: int) -> None:
        """Let ``party`` of the graph at ``base`` begin at ``at_ps``."""
        slot = np.array([base + compiled.graph.rows + party], dtype=np.int64)
        self._engine.post(k.RELEASE, slot, np.array([at_ps], dtype=np.int64))
        self._look_ahead()

    def run(self, until_ps: int) -> list[tuple[int, int, int]]:
        """(handle, party, at_ps) of the first instant up to ``until_ps`` in which parties are done.

        None after ``LONGEST_PS``: slow links have packets without end.
        """
        engine = self._engine
        while (answer := self._sampler.run(engine, min(until_ps, LONGEST_PS))) == k.GROW:
            self._empty_log()
        if answer == k.LOST_HOPE and engine.sim[k.GAVE_UP] >= 0:
            raise self._gave_up()
        if answer == k.LOST_HOPE or (answer == k.IDLE and not engine.sim[k.ENDED] and self._stuck()):
            raise self._error()
        done = engine.ended[: engine.sim[k.ENDED]].tolist()
        engine.sim[k.ENDED] = 0
        self._look_ahead()
        now_ps = int(engine.sim[k.NOW])
        return [(*self._parties.pop(slot), now_ps) for slot in done]

    @property
    def now_ps(self) -> int:
        """The instant of the last event."""
        return int(self._engine.sim[k.NOW])

    def totals(self) -> Totals:
        """Everything so far: bytes of transfers that are complete, links as busy as they have sent."""
        self._empty_log()
        totals = Totals(len(self._fabric.links))
        links = self._engine.ports()
        totals.link_bytes += links[:, k.CARRIED]
        totals.link_busy_ps += links[:, k.BUSY]
        totals.flows.update(self._durations)
        return totals

    def counts(self) -> LinkCounts:
        """What packets did on the links, so far."""
        back = self._gone_back.copy()
        self._count_back(back, self._engine.flows)
        return counts_of(self._engine.ports(), back, self._settings.tick_ps)

    def dice(self) -> Ints:
        """Where each link is in its sequence of chances."""
        return self._engine.ports()[:, k.DICE]

    def _count_back(self, back: Ints, flows: Ints) -> None:
        """Add, per port, how often the senders among these slots went back."""
        row = flows[:, k.CYCLE_LEN] > 0  # and no party, which has no way
        add_back(back, self._engine.route[flows[row, k.WAY]], flows[row, k.GO_BACKS])

    def samples(self) -> LinkSamples | None:
        """The links over time, so far."""
        return self._sampler.found(self._engine)

    def _look_ahead(self) -> None:
        tick = self._engine.next_tick()
        self.next_ps = tick if tick >= 0 else NEVER_PS

    def _stuck(self) -> bool:
        """Whether a flow has begun and cannot end."""
        return bool((self._engine.flows[:, k.STATE] == k.UNDER_WAY).any())

    def _error(self) -> SpecError:
        """What is wrong with the transfers that have begun and cannot end."""
        flows, route = self._engine.flows, self._engine.route
        ways = flows[flows[:, k.STATE] == k.UNDER_WAY, k.WAY].tolist()
        ends = [(self._name(route[way]), self._name(route[way + np.argmax(route[way:] < 0) - 1])) for way in ways]
        shown = [f"{first.partition(' -> ')[0]} -> {last.rpartition(' -> ')[2]}" for first, last in ends]
        problem, fix = reason(self._engine.links, self._name, len(self._fabric.links))
        return SpecError("network", "packet", f"transfers {listed(shown)} cannot end: {problem}", fix)

    def _gave_up(self) -> SpecError:
        """A sender has gone back too often."""
        engine = self._engine
        way = engine.route[engine.flows[engine.sim[k.GAVE_UP], k.WAY] :]
        first, last = self._name(way[0]), self._name(way[np.argmax(way < 0) - 1])
        transfer = f"transfer {first.partition(' -> ')[0]} -> {last.rpartition(' -> ')[2]}"
        problem = f"its sender has gone back {self._settings.retries} times in a row"
        full = full_queues(engine.links, self._name, len(self._fabric.links))
        slows = self._settings.congestion.law or self._settings.congestion.asking
        problem += full + (", where nothing slows down those that find room" if full and not slows else "")
        fix = "choose a network.congestion such as dctcp, another network.flow_control, or a longer network.retry_ps"
        return SpecError("network", "packet", f"{transfer} does not end: {problem}", fix)

    def _name(self, link: int) -> str:
        return self._fabric.links[link].name

    def _empty_log(self) -> None:
        engine = self._engine
        for log, times in ((engine.log[: engine.sim[k.LOGGED]], 1), *engine.repeated):
            durations_ps, counts = np.unique(log, return_counts=True)
            for duration_ps, count in zip(durations_ps.tolist(), counts.tolist(), strict=True):
                self._durations[duration_ps] += times * count
        engine.sim[k.LOGGED] = 0
        engine.repeated.clear()

    def _block(self, base: int, compiled: Compiled) -> Ints:
        """The slots of an instance, rows and parties, with their ways."""
        graph, rows, parties = compiled.graph, compiled.graph.rows, compiled.parties
        slots = np.zeros((rows + parties, k.FLOW_COLUMNS), dtype=np.int64)
        row = slots[:rows]
        src, dst = rows + compiled.src_party, rows + compiled.dst_party
        row[:, [k.GAP, k.BEGAN, k.SENDER_END, k.RECEIVER_END, k.RESEND]] = -1
        row[:, k.BYTES_PER_ROUND], row[:, k.OFFSET] = compiled.size_bytes, graph.delay_ps
        row[:, k.ROUNDS], row[:, k.CYCLE_LEN] = graph.rounds, np.maximum(1, graph.cycle_len)
        row[:, k.CYCLE] = base + np.where(graph.cycle_len > 0, graph.cycle_base, np.arange(rows))
        row[:, k.EXTRA], row[:, k.MILESTONE] = graph.wire_ppm - PPM, self._settings.ack_every
        row[:, k.SRC_PARTY], row[:, k.DST_PARTY] = base + src, base + dst
        self._add_ways(*self._ways.give(base, row, compiled))
        row[:, k.AWAITED] = np.diff(graph.pred_ptr) + 1 + (src != dst)
        return slots

    def _add_ways(self, route: Ints, forks: Ints) -> None:
        self._engine.route = np.concatenate((self._engine.route, route))
        self._engine.forks = np.concatenate((self._engine.forks, forks))

    def _reroute(self) -> None:
        """Links have failed, or work again."""
        engine = self._engine
        assert isinstance(engine, Breaking)
        self._ways.down, self._ways.now_ps = frozenset(engine.down), int(engine.sim[k.NOW])
        self._ways.mends = any(not change.fails for change in engine.changes)
        self._add_ways(*self._ways.give_again(engine.flows))

    def _let_in(self, at: Ints) -> None:
        """Make room in the lists of the ports at which the new flows take turns."""
        engine = self._engine
        self._let += np.bincount(at[at >= 0], minlength=len(self._let))
        if (self._let <= self._capacity).all():
            return
        capacity = np.where(self._let > self._capacity, 2 * self._let, self._capacity)
        ports = np.flatnonzero(engine.links[:, k.FLOWS_HERE]).tolist()
        kept = [standing(engine.links, engine.turns, port) for port in ports]
        engine.turns, self._capacity = give_room(engine.links, capacity), capacity
        for port, flows in zip(ports, kept, strict=True):
            first = int(engine.links[port, k.FLOWS_AT])
            engine.turns[first : first + len(flows)] = flows

    def _size_packets(self, flows: Ints, compiled: Compiled) -> None:
        """What the packets of these flows are like, by the links of their ways."""
        settings, hops = self._settings, np.diff(compiled.path_ptr)
        row_of = np.repeat(np.arange(len(flows)), hops)
        scale_up, inside = (
            np.bincount(row_of, kind[compiled.path], len(flows)) == hops for kind in (self._scale_up, self._inside)
        )
        flows[:, k.FULL_PAYLOAD] = np.where(scale_up, settings.scale_up_payload_bytes, settings.payload_bytes)
        flows[:, k.OVERHEAD] = np.where(scale_up, settings.scale_up_header_bytes, settings.overhead_bytes)
        flows[:, k.INSIDE] = inside

    def _tell_control(self, base: int, compiled: Compiled) -> None:
        """Windows, and what the congestion control is told of each flow."""
        settings, control, engine = self._settings, self._settings.congestion, self._engine
        windowed = settings.windowed
        if not windowed and not control.law and not control.asking:
            return
        for row in range(compiled.graph.rows):
            path = compiled.path[compiled.path_ptr[row] : compiled.path_ptr[row + 1]]
            if len(path) and not engine.flows[base + row, k.INSIDE]:
                rate = engine.links[path, k.RATE]
                hops = 2 * engine.links[path, k.DELAY] + settings.payload_bytes * 8 * 10**12 / rate
                trip = max(1, int(hops.sum()))
                window = max(1, trip * int(rate.min()) // (8 * 10**12))
                engine.flows[base + row, k.WINDOW] = window if windowed else 0
                if control.asking:
                    first = control.asking.first(np.array([window]), settings.payload_bytes)
                    engine.flows[base + row, k.FIRST_PACKETS] = first[0]
                if control.law:
                    told = engine.memory[base + row]
                    out = int(np.argmin(self._inside[path]))  # the NIC, where the sender paces, not the PCIe before it
                    told[k.TRIP], told[k.TRIP_BYTES], told[k.LINE_BITS] = trip, window, rate[: out + 1].min()
                    told[k.HOPS] = len(path)
                    told[k.WINDOW_BYTES] = window if windowed else 0


def _largest_bytes(compiled: Compiled) -> Ints:
    """On the wire, of each row the most that one round of it carries."""
    return np.minimum(largest_bytes(compiled.graph), FAR_BYTES) * compiled.graph.wire_ppm // PPM + 1
