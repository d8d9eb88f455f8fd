"""Slow and plain: receivers that ask for packets, over switches that cut what finds no room. The oracle of ``ndp``.

The first window of a flow comes unasked. For each packet that has come to a receiver, whole or as a header, it asks the
flow for one more, unless as many are on their way as are missing. All that one port receives is asked for through one
pacer, a packet's time apart, the flows in turn. At a switch headers, acknowledgements and calls overtake data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from tests.oracles.packet_asking import Asking, CallFor, Header, Out, Pacer, Source, Target
from tests.oracles.packet_clock import Clock, Dice
from tests.oracles.packet_faults import Outage, Outages
from tests.oracles.packet_host import Turns
from tests.oracles.packet_model import StuckError
from tests.oracles.packet_port import Kind, Packet, Port
from tests.oracles.packet_values import Flow, Outcome, PacketSettings
from tests.oracles.packet_ways import Spray
from xsim.fabric.graph import Cable, Graph

__all__ = ["simulate_asking"]


def simulate_asking(
    graph: Graph, flows: Sequence[Flow], settings: PacketSettings, asking: Asking, outages: Sequence[Outage] = ()
) -> tuple[Outcome, list[int]]:
    """All of ``flows`` to the end, and how many packets were cut before each link.

    Raises:
        NoWayError: Cables have failed for good, and no way is left for a flow.
        StuckError: What was lost is waited for.
        GaveUpError: A sender has gone back too often.
    """
    network = _Network(graph, flows, settings, asking, outages)
    network.clock.run()
    unfinished = tuple(number for number, tick in enumerate(network.sender_end) if tick < 0)
    if unfinished:
        raise StuckError(unfinished, ())
    return network.outcome(), network.cuts


class _Network:
    def __init__(
        self,
        graph: Graph,
        flows: Sequence[Flow],
        settings: PacketSettings,
        asking: Asking,
        outages: Sequence[Outage],
    ) -> None:
        self.clock, self._graph, self._flows, self._usual = Clock(), graph, list(flows), tuple(flows)
        self._outages = Outages(outages)
        for tick in self._outages.ticks:  # before all else of its instant
            self.clock.at(tick, self._change)
        self._settings, self._asking = settings, asking
        self._turns: dict[int, Turns] = {}
        self._outs: dict[int, Out] = {}
        self._pacers: dict[int, Pacer] = {}
        self._ports: list[Port] = []
        self.cuts = [0] * 2 * len(graph.cables)
        self._wire_up()
        self._sources: dict[int, Source] = {}
        self._targets: dict[int, Target] = {}
        self._start, self.sender_end, self._receiver_end = ([-1] * len(flows) for _ in range(3))
        for number, flow in enumerate(flows):
            if flow.after < 0:
                self._schedule(number)

    def outcome(self) -> Outcome:
        def in_ps(ticks: Sequence[int]) -> tuple[int, ...]:
            return tuple(tick * self._settings.tick_ps for tick in ticks)

        assert not any(out.urgent or out.data for out in self._outs.values())
        go_backs = tuple(self._sources[n].go_backs if n in self._sources else 0 for n in range(len(self._flows)))
        links = tuple(port.counters for port in self._ports)
        return Outcome(in_ps(self._start), in_ps(self.sender_end), in_ps(self._receiver_end), go_backs, links)

    def _wire_up(self) -> None:
        links = 2 * len(self._graph.cables)
        seeds = np.random.default_rng(self._settings.seed).integers(-(1 << 63), 1 << 63, size=links, dtype=np.int64)
        for link in range(links):
            cable = self._graph.cables[link // 2]
            start, end = (cable.b, cable.a) if link % 2 else (cable.a, cable.b)
            self._ports.append(
                self._port(link, cable, start in self._graph.switches, end, Dice(int(seeds[link]) % 2**64))
            )

    def _port(self, link: int, cable: Cable, of_switch: bool, end: int, dice: Dice) -> Port:
        def deliver(packet: Packet) -> None:
            self._arrive(packet, end)

        if of_switch:
            self._outs[link] = Out()
            return Port(link, cable, self._settings, self.clock, dice, lambda: self._take(link), deliver)
        turns = self._turns[link] = Turns(self.clock, self._settings, (3,))
        turns.port = Port(link, cable, self._settings, self.clock, dice, turns.next_packet, deliver)
        self._pacers[link] = Pacer()
        return turns.port

    def _arrive(self, packet: Packet, end: int) -> None:
        if packet.way:
            self._forward(packet)
        elif end == self._flows[packet.flow].dst:
            self._receive(packet)
        else:
            self._return(packet)

    def _take(self, link: int) -> Packet | None:
        return self._outs[link].take(paused=self._ports[link].paused)

    def _change(self) -> None:
        """Cables fail or are mended; what has not finished takes the ways that are left."""
        self._outages.change(self._sever, lambda link: self._ports[link].mend())
        by_all = self._settings.routing != "path"
        for number, usual in enumerate(self._usual):
            if self.sender_end[number] < 0:
                flow = self._flows[number] = self._outages.routed(usual, by_all=by_all)
                if number in self._sources:
                    self._sources[number].reroute(flow)

    def _sever(self, link: int) -> None:
        self._ports[link].sever({})
        if link in self._outs:
            self._ports[link].counters.lost += self._outs[link].lose()

    def _forward(self, packet: Packet) -> None:
        out = packet.way.popleft()
        port, waiting = self._ports[out], self._outs[out]
        if port.down:
            port.counters.lost += 1
            return
        if packet.kind is Kind.DATA and not isinstance(packet, Header):
            full = self._settings.payload_bytes + self._settings.header_bytes
            held = sum(other.size for other in waiting.data)
            waiting.data.append(packet)
            if held and held + packet.size > self._asking.queue_packets * full:
                self.cuts[out] += 1
                if port.dice.throw() < 0.5:
                    waiting.data[-1], waiting.data[-2] = waiting.data[-2], waiting.data[-1]
                cut = waiting.data.pop()
                size = self._settings.ack_bytes
                waiting.urgent.append(Header(Kind.DATA, size, cut.flow, cut.number, 0, way=cut.way))
        else:
            waiting.urgent.append(packet)
        port.kick()

    # --- flows ---

    def _schedule(self, number: int) -> None:
        self.clock.after(self._settings.ticks(self._flows[number].start_ps), lambda: self._begin(number))

    def _begin(self, number: int) -> None:
        flow, settings = self._flows[number], self._settings
        self._start[number] = self.clock.now
        if flow.size_bytes == 0:
            self._receiver_end[number] = self.sender_end[number] = self.clock.now
            self._start_followers(number)
            return
        turns = self._turns[flow.path[0]]
        source = Source(
            number, flow, self._asking.firsts[number], settings, self.clock, turns, self._spray(number, flow)
        )
        self._sources[number] = source
        firsts = set(range(0, flow.size_bytes, settings.payload_bytes))
        self._targets[number] = Target(flow, source.allowed, firsts)
        turns.join(source)  # type: ignore[arg-type]

    def _spray(self, number: int, flow: Flow) -> Spray | None:
        """By the flow's place among those between its hosts, in the order of their starts, those that wait last."""
        if self._settings.routing == "path":
            return None
        usual = self._usual[number]
        alike = [other for other in self._usual if (other.src, other.dst) == (flow.src, flow.dst)]
        alike.sort(key=lambda other: (other.after >= 0, other.start_ps))
        return Spray(flow, next(n for n, other in enumerate(alike) if other is usual), self._settings.seed)

    def _receive(self, packet: Packet) -> None:
        number, flow = packet.flow, self._flows[packet.flow]
        target, size, way = self._targets[number], self._settings.ack_bytes, deque(flow.back[1:])
        if isinstance(packet, Header):
            self._want(number)
            self._answer(flow, Header(Kind.NACK, size, number, packet.number, way=way))
        else:
            last = target.missing == {packet.number}
            target.missing.discard(packet.number)
            if last:
                self._receiver_end[number] = self.clock.now
                if self._settings.completion == "receiver":
                    self._start_followers(number)
            self._answer(flow, Packet(Kind.ACK, size, number, target.expected, came=packet.number, way=way))
            self._want(number)

    def _want(self, number: int) -> None:
        target, flow = self._targets[number], self._flows[number]
        target.coming -= 1
        if target.coming < len(target.missing):
            target.coming += 1
            target.to_ask += 1
            if target.to_ask == 1:
                pacer = self._pacers[flow.back[0]]
                if not pacer.flows:
                    self.clock.at(max(self.clock.now, pacer.free_at), lambda: self._ask(flow.back[0]))
                pacer.flows.append(number)

    def _ask(self, link: int) -> None:
        pacer, settings = self._pacers[link], self._settings
        while pacer.flows and not self._targets[pacer.flows[0]].missing:
            self._targets[pacer.flows.popleft()].to_ask = 0
        if not pacer.flows:
            return
        number = pacer.flows.popleft()
        flow, target = self._flows[number], self._targets[number]
        target.to_ask -= 1
        if target.to_ask:
            pacer.flows.append(number)
        self._answer(flow, CallFor(Kind.ACK, settings.ack_bytes, number, way=deque(flow.back[1:])))
        full = settings.payload_bytes + settings.header_bytes
        pacer.free_at = self.clock.now + settings.serialisation(full, self._ports[link].bits_per_s)
        if pacer.flows:
            self.clock.at(pacer.free_at, lambda: self._ask(link))

    def _answer(self, flow: Flow, packet: Packet) -> None:
        turns = self._turns[flow.back[0]]
        turns.acks[packet.traffic_class].append(packet)
        turns.port.kick()

    def _return(self, packet: Packet) -> None:
        number, source = packet.flow, self._sources[packet.flow]
        if isinstance(packet, Header | CallFor):
            source.hears(packet)
        elif not source.finished:
            source.confirms(packet.number, packet.came)
            if source.finished:
                self.sender_end[number] = self.clock.now
                if self._settings.completion == "sender":
                    self._start_followers(number)
        source.turns.port.kick()

    def _start_followers(self, number: int) -> None:
        for follower, flow in enumerate(self._flows):
            if flow.after == number:
                self._schedule(follower)
