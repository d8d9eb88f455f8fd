"""What the congestion controls promise: Swift's target and its fairness; laws that meet odd acknowledgements."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from tests.oracles.packet_host import Congestion, Sender
from tests.oracles.packet_model import simulate
from tests.oracles.packet_swift import Swift as PlainSwift
from tests.oracles.packet_values import Flow, PacketSettings
from tests.sim.test_packets_twin import columns
from xsim.fabric.graph import Cable, Graph
from xsim.sim.congestion.dctcp import Dctcp
from xsim.sim.congestion.hpcc import Hpcc
from xsim.sim.congestion.swift import Swift
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings

BITS_PER_S, DELAY_PS, PAYLOAD = 10**11, 1_000_000, 4096
PLAIN = PacketSettings(tick_ps=1, below_whole=False, payload_bytes=PAYLOAD, routes_by_start=False)


def star(senders: int) -> Graph:
    """Hosts 0 .. ``senders`` on one switch; cable i is that of host i."""
    cables = tuple(Cable(host, senders + 1, BITS_PER_S, DELAY_PS) for host in range(senders + 1))
    return Graph(senders + 2, frozenset({senders + 1}), cables)


def incast(senders: int, size_bytes: int, apart_ps: int = 0) -> list[Flow]:
    """From hosts 1 on to host 0."""
    return [
        Flow(src, 0, size_bytes, apart_ps * (src - 1), -1, (2 * src, 1), (0, 2 * src + 1))
        for src in range(1, senders + 1)
    ]


def watched(graph: Graph, flows: list[Flow], begins: float) -> dict[int, PlainSwift]:
    """The plain model's controls of the flows, after the simulation."""
    controls: dict[int, PlainSwift] = {}

    def control(sender: Sender) -> PlainSwift:
        made = controls[sender.number] = PlainSwift(sender, dict.fromkeys(range(len(flows)), begins))
        return made

    simulate(graph, flows, PLAIN, Congestion(control, extra_bytes=8))
    return controls


def test_swift_holds_the_queue_of_an_incast_near_its_target() -> None:
    """16 senders begin with 13 packets each, three times what the target lets wait; it is reached from above."""
    controls = watched(star(16), incast(16, 800 * PAYLOAD), 13.0)

    for control in controls.values():
        half = len(control.delays) // 2
        late = [delay / control.target() for delay in control.delays[half:-20]]
        assert fmean(late) == pytest.approx(1.0, abs=0.15)
        assert max(control.delays[:40]) > 1.3 * control.target()
    most = 16 * 800 * (PAYLOAD + 56) * 8 * 10**12 // BITS_PER_S
    last_ps = max(control.sender.clock.now for control in controls.values())
    assert most < last_ps < 1.02 * most  # and the link never idles


def test_swift_shares_a_link_fairly_with_who_comes_late() -> None:
    """The second flow begins with one packet, 0.3 ms after the first has: that has long had more, and gives it up."""
    early, late = watched(star(2), incast(2, 6000 * PAYLOAD, 300_000_000), 1.0).values()

    assert 20 * late.windows[0] < max(early.windows)
    assert fmean(early.windows[3000:4000]) == pytest.approx(fmean(late.windows[3000:4000]), rel=0.05)


def test_swift_alone_fills_its_link() -> None:
    graph, flow = star(1), incast(1, 2_000_000)
    ideal = replay(graph, columns(flow), Settings(payload_bytes=PAYLOAD, header_bytes=56))
    found = replay(graph, columns(flow), Settings(payload_bytes=PAYLOAD, congestion=Swift()))

    assert found.sender_end_ps[0] == pytest.approx(ideal.sender_end_ps[0], rel=0.001)


def test_swift_paces_what_is_less_than_a_packet() -> None:
    """A target that no packet can meet leaves the least window: one packet in a hundred trips."""
    graph, flow = star(1), incast(1, 40 * PAYLOAD)
    control = Swift(base_ns=1, hop_ns=0, range_ns=0, least=0.01)
    found = replay(graph, columns(flow), Settings(payload_bytes=PAYLOAD, congestion=control))

    trip_ps = 4 * DELAY_PS + 2 * 332_160 + 2 * 4_800
    packets_at_the_end = 15  # of 40: until then the window halves once a trip
    assert found.sender_end_ps[0] > packets_at_the_end * 100 * trip_ps


def test_swift_lessens_its_window_when_packets_are_lost() -> None:
    lossy = replace(star(1), cables=tuple(replace(cable, loss=0.02) for cable in star(1).cables))
    settings = Settings(payload_bytes=PAYLOAD, congestion=Swift(), retry_ps=100_000_000, retries=50)
    found = replay(lossy, columns(incast(1, 2_000_000)), settings)

    assert found.go_backs[0] > 0
    law, knobs = Swift().law, np.array(Swift().knobs(10**12, 1000))
    state, seen = np.zeros(k.OWN + 4), np.zeros(k.SEEN_COLUMNS, dtype=np.int64)
    state[[k.LINE_BITS, k.TRIP, k.TRIP_BYTES, k.HOPS]] = 1e11, 1e7, 100_000, 2
    law(k.BEGIN, 0, 0, 0, False, state, seen, knobs)
    windows = []
    for now, acked, sent in ((10**7, 1000, 101_000), (2 * 10**7, 1000, 1000), (4 * 10**7, 1000, 2000)):
        seen[k.SENT_AT] = now - 10**7
        law(k.FEEDBACK, now, acked, sent, False, state, seen, knobs)
        windows.append(float(state[k.OWN]))
    assert windows == pytest.approx([100.01, 50.005, 50.005])


def test_hpcc_learns_nothing_from_two_stamps_of_one_tick() -> None:
    """Ports are faster than the clock where an acknowledgement takes no tick at all."""
    control = Hpcc()
    law, knobs = control.law, np.array(control.knobs(10**9, 1000))
    state, seen = np.zeros(k.OWN + control.remembers), np.zeros(k.SEEN_COLUMNS, dtype=np.int64)
    state[[k.LINE_BITS, k.TRIP, k.TRIP_BYTES]] = 1e11, 12_480, 156_000
    law(k.BEGIN, 0, 0, 0, False, state, seen, knobs)
    seen[[k.HOPS_SEEN, k.HOP_RECORDS, k.HOP_RECORDS + 1, k.HOP_RECORDS + 3]] = 1, 5_000, 10_000, 10**11
    for acked in (1000, 2000, 3000):
        seen[k.HOP_RECORDS + 1] += 100_000
        law(k.FEEDBACK, 5_000 + acked, acked, 50_000, False, state, seen, knobs)
        assert np.isfinite(state).all()
        assert 1e9 <= state[k.RATE_BITS] <= 1e11


def test_hpcc_ends_where_packets_take_no_time() -> None:
    """Ports of 100 Tb/s and a clock of 1 ns: every stamp of a burst is the same."""
    fast = replace(star(2), cables=tuple(replace(cable, bandwidth_bits_per_s=10**14) for cable in star(2).cables))
    settings = Settings(tick_ps=1000, payload_bytes=100, congestion=Hpcc(), buffer_bytes=1 << 30)
    found = replay(fast, columns(incast(2, 100_000)), settings)

    assert (found.sender_end_ps > found.start_ps).all()


def test_dctcp_counts_in_packets_of_the_payload_in_use() -> None:
    assert Dctcp().knobs(10**12, 4096)[-1] == 4096
    assert "packet_bytes" not in Dctcp.__dataclass_fields__
