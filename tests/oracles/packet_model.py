"""Slow and plain: flows over hosts, switches and wires, packet by packet. The oracle of the packet kernel.

It agrees with HPCC's public ns-3 model of RDMA hosts to the nanosecond (``tests/sim/test_packet_model.py``). What it
does at equal instants is part of the model: events run in the order in which they were scheduled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from tests.oracles.packet_clock import Clock, Dice
from tests.oracles.packet_faults import Outage, Outages
from tests.oracles.packet_host import Congestion, Receiver, Sender, Turns, ack_size, acknowledgement
from tests.oracles.packet_port import Kind, Packet, Port
from tests.oracles.packet_switch import Switch
from tests.oracles.packet_values import Flow, Outcome, PacketSettings, round_trip
from tests.oracles.packet_ways import Spray, Steering
from xsim.fabric.graph import Cable, Graph

__all__ = ["StuckError", "simulate"]


class StuckError(Exception):
    """Nothing can happen any more, and flows are unfinished.

    Attributes:
        flows: Their numbers.
        paused: Links whose starts are paused.
    """

    def __init__(self, flows: tuple[int, ...], paused: tuple[int, ...]) -> None:
        super().__init__(f"flows {flows} cannot end; links {paused} are paused")
        self.flows, self.paused = flows, paused


def simulate(
    graph: Graph,
    flows: Sequence[Flow],
    settings: PacketSettings,
    congestion: Congestion | None = None,
    outages: Sequence[Outage] = (),
) -> Outcome:
    """All of ``flows`` over ``graph``, to the end; at the end every byte has come once and every buffer is empty.

    Raises:
        StuckError: Flows wait for one another or for what is lost.
        GaveUpError: A sender has gone back too often.
        NoWayError: Cables fail for good that flows cannot do without.
    """
    network = _Network(graph, flows, settings, congestion or Congestion(), outages)
    network.clock.run()
    unfinished = tuple(number for number, tick in enumerate(network.sender_end) if tick < 0)
    if unfinished:
        raise StuckError(unfinished, tuple(port.link for port in network.ports if port.paused))
    network.assert_conserved()
    return network.outcome()


class _Network:
    """Everything, and what connects it: the ends of the links, and flows that start when others end."""

    def __init__(
        self,
        graph: Graph,
        flows: Sequence[Flow],
        settings: PacketSettings,
        congestion: Congestion,
        outages: Sequence[Outage],
    ) -> None:
        self.clock = Clock()
        self._outages, self._usual = Outages(outages), tuple(flows)
        for tick in self._outages.ticks:  # before all else of its instant
            self.clock.at(tick, self._change)
        self._graph, self._settings, self._congestion = graph, settings, congestion
        self._flows = list(flows)
        self._turns: dict[int, Turns] = {}
        self._classes = _classes(flows, settings)
        self._switches: dict[int, Switch] = {}
        self.ports: list[Port] = []
        self._wire_up()
        self._senders: dict[int, Sender] = {}
        self._steering = Steering(self._wait)
        self._by_start = sorted(flows, key=lambda flow: (flow.after >= 0, flow.start_ps))
        self._receivers = [Receiver(flow.size_bytes, settings) for flow in flows]
        self._ack_size = ack_size(settings, congestion)
        self._started: Counter[tuple[int, int]] = Counter()
        self._routes: dict[tuple[int, int], list[Flow]] = {}
        self._followers: list[list[int]] = [[] for _ in flows]
        self.start = [-1] * len(flows)
        self.sender_end = [-1] * len(flows)
        self.receiver_end = [-1] * len(flows)
        for number, flow in enumerate(flows):
            self._routes.setdefault((flow.src, flow.dst), []).append(flow)
            if flow.after >= 0:
                self._followers[flow.after].append(number)
            else:
                self._schedule(number)

    def outcome(self) -> Outcome:
        def in_ps(ticks: Sequence[int]) -> tuple[int, ...]:
            return tuple(tick * self._settings.tick_ps for tick in ticks)

        go_backs = (self._senders[n].go_backs if n in self._senders else 0 for n in range(len(self._flows)))
        links = tuple(port.counters for port in self.ports)
        return Outcome(in_ps(self.start), in_ps(self.sender_end), in_ps(self.receiver_end), tuple(go_backs), links)

    def assert_conserved(self) -> None:
        for flow, receiver in zip(self._flows, self._receivers, strict=True):
            assert receiver.expected == flow.size_bytes
        for port in self.ports:
            port.assert_idle()
        for switch in self._switches.values():
            switch.assert_empty()
        assert not any(any(turns.acks.values()) for turns in self._turns.values())

    # --- wires ---

    def _wire_up(self) -> None:
        graph = self._graph
        links = 2 * len(graph.cables)
        seeds = np.random.default_rng(self._settings.seed).integers(-(1 << 63), 1 << 63, size=links, dtype=np.int64)
        for link in range(links):
            cable = graph.cables[link // 2]
            start, end = (cable.b, cable.a) if link % 2 else (cable.a, cable.b)
            dice = Dice(int(seeds[link]) % 2**64)
            self.ports.append(self._port(link, cable, start in graph.switches, end, dice))
        nics = [self.ports[hop.link].bits_per_s for host in graph.hosts for hop in graph.leaving(host)]
        for vertex in graph.switches:
            ports = {hop.link: self.ports[hop.link] for hop in graph.leaving(vertex)}
            self._switches[vertex] = Switch(vertex, self._settings, self.clock, ports, max(nics, default=1))

    def _port(self, link: int, cable: Cable, of_switch: bool, end: int, dice: Dice) -> Port:
        def deliver(packet: Packet) -> None:
            self._arrive(packet, link, end)

        if of_switch:
            start = cable.b if link % 2 else cable.a
            return Port(
                link, cable, self._settings, self.clock, dice, lambda: self._switches[start].next_packet(link), deliver
            )
        turns = self._turns[link] = Turns(self.clock, self._settings, self._classes)
        turns.port = Port(link, cable, self._settings, self.clock, dice, turns.next_packet, deliver)
        return turns.port

    def _arrive(self, packet: Packet, link: int, end: int) -> None:
        if packet.kind in (Kind.PAUSE, Kind.RESUME):
            self.ports[link ^ 1].pause(packet.traffic_class, paused=packet.kind is Kind.PAUSE)
        elif packet.way:
            self._pass_on(packet, link, end)
        elif packet.kind is Kind.DATA:
            self.ports[link].leave(packet.size, packet.traffic_class)
            self._receive(packet)
        else:
            self.ports[link].leave(packet.size, packet.traffic_class)
            self._acknowledge(packet)

    def _pass_on(self, packet: Packet, link: int, switch: int) -> None:
        if packet.kind is Kind.DATA and self._settings.routing == "adaptive":
            self._steering.choose(packet, self.ports[link].dice)
        if self.ports[packet.way[0]].down:
            self.ports[packet.way[0]].counters.lost += 1
            self.ports[link].leave(packet.size, packet.traffic_class)
        else:
            self._switches[switch].forward(packet, link, self.ports[link])

    def _change(self) -> None:
        """Cables fail or are mended; what has not finished takes the ways that are left."""
        self._outages.change(self._sever, lambda link: self.ports[link].mend())
        by_all = self._settings.routing != "path"
        for number, usual in enumerate(self._usual):
            if self.sender_end[number] < 0 and usual.answered:
                flow = self._flows[number] = self._outages.routed(usual, by_all=by_all)
                if number in self._senders:
                    self._senders[number].reroute(flow)

    def _sever(self, link: int) -> None:
        far = self._switches.get(self._start_of(link ^ 1))
        self.ports[link].sever(far.forget(link) if far else {})
        near = self._switches.get(self._start_of(link))
        if near:
            near.sever(link)

    # --- flows ---

    def _schedule(self, number: int) -> None:
        self.clock.after(self._settings.ticks(self._flows[number].start_ps), lambda: self._begin(number))

    def _begin(self, number: int) -> None:
        flow = self._flows[number]
        self.start[number] = self.clock.now
        if self._settings.routes_by_start:
            pair = flow.src, flow.dst
            route = self._routes[pair][self._started[pair]]
            self._started[pair] += 1
            flow = self._flows[number] = replace(flow, path=route.path, back=route.back)
        if flow.size_bytes == 0:
            self.receiver_end[number] = self.sender_end[number] = self.clock.now
            self._start_followers(number)
            return
        turns = self._turns[flow.path[0]]
        window = self._window(flow)
        spray = self._spray(number) if self._settings.routing == "spray" else None
        self._senders[number] = Sender(number, flow, window, self._settings, self.clock, turns, self._congestion, spray)
        turns.join(self._senders[number])

    def _spray(self, number: int) -> Spray:
        usual = self._usual[number]
        same = [other for other in self._by_start if (other.src, other.dst) == (usual.src, usual.dst)]
        earlier = next(place for place, other in enumerate(same) if other is usual)
        return Spray(self._flows[number], earlier, self._settings.seed)

    def _wait(self, link: int) -> float:
        """How long its queue takes, packets on the wire not counted; in any unit. For ever if it has failed."""
        if self.ports[link].down:
            return inf
        return self._switches[self._start_of(link)].queues[link].packet_bytes / self.ports[link].bits_per_s

    def _start_of(self, link: int) -> int:
        cable = self._graph.cables[link // 2]
        return cable.b if link % 2 else cable.a

    def _window(self, flow: Flow) -> int | None:
        if self._settings.window_bytes == "path":
            cables = [self._graph.cables[link // 2] for link in flow.path]
            return round_trip(cables, self._settings.payload_bytes)[1]
        return self._settings.window_bytes

    def _receive(self, packet: Packet) -> None:
        """Acknowledge, and then, if flows end at their receivers, start those that wait for this one."""
        number, now = packet.flow, self.clock.now
        receiver, back = self._receivers[number], self._flows[number].back
        kind = receiver.answer(packet, now)
        if receiver.news:
            for link in packet.taken:
                self.ports[link].counters.carried_bytes += packet.payload
        if not self._flows[number].answered:
            assert kind is not Kind.NACK, "where nothing is answered, nothing is lost"
            if receiver.expected == receiver.size_bytes:  # its sender is done, though it has not heard of it
                self._senders[number].acked, self.sender_end[number] = receiver.expected, now
        elif kind is not None:
            turns = self._turns[back[0]]
            own = 0 if self._settings.ack_priority else packet.traffic_class
            turns.acks[own].append(acknowledgement(kind, self._ack_size, packet, receiver.expected, back, own))
            turns.port.kick()
        if receiver.expected == receiver.size_bytes and self.receiver_end[number] < 0:
            self.receiver_end[number] = now
            if self._settings.completion == "receiver":
                self._start_followers(number)

    def _acknowledge(self, packet: Packet) -> None:
        """A flow that has finished is forgotten: what comes for it later does nothing at all."""
        number, sender = packet.flow, self._senders[packet.flow]
        if sender.finished:
            return
        sender.count(packet)
        if sender.finished:
            self.sender_end[number] = self.clock.now
            if self._settings.completion == "sender":
                self._start_followers(number)
        sender.react(packet)
        sender.turns.port.kick()

    def _start_followers(self, number: int) -> None:
        """Behind everything that is scheduled already for their instant."""
        for follower in self._followers[number]:
            self._schedule(follower)


def _classes(flows: Sequence[Flow], settings: PacketSettings) -> tuple[int, ...]:
    """Those in use, in order; one more where there is but one and it is exempt."""
    found = {flow.traffic_class for flow in flows} | ({0} if settings.ack_priority else set())
    return tuple(sorted(found | {3} if all(map(settings.exempt, found)) else found))
