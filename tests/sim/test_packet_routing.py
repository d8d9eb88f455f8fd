"""Which way packets take: collisions where a hash decides, none where packets are spread."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from tests.oracles.packet_cases import all_ways
from tests.oracles.packet_values import Flow
from tests.plan.test_collective_times import S, graph, hosts_of
from tests.sim.test_packets_twin import columns
from xsim.errors import SpecError
from xsim.fabric.equal_paths import path_sets
from xsim.fabric.graph import Cable, Graph
from xsim.fabric.hashed_paths import Paths
from xsim.fabric.topology.rail import Rail
from xsim.plan.collective.direct import Direct
from xsim.sim.congestion.hpcc import Hpcc
from xsim.sim.network.packet import Packet
from xsim.sim.packets.flows import Flows
from xsim.sim.packets.replay import Outcome, replay
from xsim.sim.packets.settings import ROUTINGS, Settings
from xsim.sim.packets.ways import MOST_WAYS, sample

Rule = Literal["hash", "round_robin", "rail", "spray", "adaptive"]
RULES = pytest.mark.parametrize("routing", ROUTINGS)
WIDE = 4  # hosts of each leaf, and spines
RATE, DELAY_PS, SIZE = 100 * 10**9, 1_000_000, 300_000


def leaves_and_spines(leaves: int, spines: int = WIDE) -> Graph:
    hosts = leaves * WIDE
    joins = [(host, hosts + host // WIDE) for host in range(hosts)]
    joins += [(hosts + leaf, hosts + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    switches = frozenset(range(hosts, hosts + leaves + spines))
    return Graph(hosts + leaves + spines, switches, tuple(Cable(a, b, RATE, DELAY_PS) for a, b in joins))


def permutation(net: Graph, leaves: int, starts_ps: int = 0) -> list[Flow]:
    """From each host to one that three leaves and one place further on, by spines of which some collide."""
    hosts = leaves * WIDE
    flows = []
    for src in range(hosts):
        dst = (src + 3 * WIDE + 1) % hosts
        there, back = all_ways(net, src, dst), all_ways(net, dst, src)
        way = there[src * 5 // 3 % len(there)]
        flows.append(Flow(src, dst, SIZE, src * starts_ps, -1, way, back[src % len(back)], ways=there))
    return flows


def played(routing: Rule, flows: Flows, net: Graph, seed: int = 0) -> Outcome:
    return replay(net, flows, Settings(routing=routing, seed=seed))


def mean_us(outcome: Outcome) -> float:
    return float((outcome.receiver_end_ps - outcome.start_ps).mean()) / 1e6


def test_spread_packets_are_hardly_slower_than_alone_and_hashed_ones_collide() -> None:
    net = leaves_and_spines(5)
    flows = columns(permutation(net, 5))
    packets = SIZE // 1000
    alone_us = (packets * (1048 + 60) + 3 * 1048) * 8e6 / RATE + 4 * DELAY_PS / 1e6  # with the others' acknowledgements

    found = {routing: mean_us(played(routing, flows, net)) for routing in ("hash", "spray", "adaptive")}

    assert found["spray"] < 1.1 * alone_us
    assert found["adaptive"] < 1.2 * alone_us
    assert found["hash"] > 1.4 * alone_us


@RULES
def test_the_same_seed_is_the_same_run_and_every_byte_comes_once(routing: Rule) -> None:
    net = leaves_and_spines(5)
    flows = columns(permutation(net, 5, starts_ps=777_777))
    first, again, other = (played(routing, flows, net, seed) for seed in (1, 1, 2))

    assert first.receiver_end_ps.tolist() == again.receiver_end_ps.tolist()
    assert first.links.sent_bytes.tolist() == again.links.sent_bytes.tolist()
    if routing in ("spray", "adaptive"):
        assert first.receiver_end_ps.tolist() != other.receiver_end_ps.tolist()
    into = first.links.packets[1 : 2 * len(flows.src) : 2]
    assert into.tolist() == [2 * SIZE // 1000] * len(flows.src)  # a packet for each, and one for each acknowledged


@RULES
def test_it_does_not_matter_in_which_order_flows_are_listed(routing: Rule) -> None:
    net = leaves_and_spines(4)
    listed = permutation(net, 4, starts_ps=1_234_567)
    order = np.random.default_rng(3).permutation(len(listed)).tolist()

    straight = played(routing, columns(listed), net).receiver_end_ps
    shuffled = played(routing, columns([listed[flow] for flow in order]), net).receiver_end_ps

    assert shuffled.tolist() == straight[order].tolist()


def test_flows_take_turns_or_the_path_of_their_number() -> None:
    net = leaves_and_spines(2)
    ways = all_ways(net, 1, 5)
    flows = columns([Flow(1, 5, 1000, 10**6 * n, -1, ways[0], all_ways(net, 5, 1)[0], ways=ways) for n in range(6)])

    turns, rails = (played(routing, flows, net).links.packets for routing in ("round_robin", "rail"))

    assert [turns[way[1]] for way in ways] == [2, 2, 1, 1]
    assert [rails[way[1]] for way in ways] == [0, 6, 0, 0]


def test_of_many_paths_some_are_used_evenly() -> None:
    net = leaves_and_spines(2, spines=200)
    hashed = Paths(np.array([0, 4]), np.array(all_ways(net, 0, 7)[77]))

    found = path_sets(net, hashed, np.array([7]), frozenset(), sample)

    assert len(found.sets[0]) == MOST_WAYS
    assert set(found.sets[0]) < set(all_ways(net, 0, 7))
    assert sample(3) == [0, 1, 2]


def test_several_paths_need_receivers_and_congestion_control_that_can_do_with_them() -> None:
    with pytest.raises(SpecError, match="receiver = 'in_order': it drops packets that overtake others"):
        Settings(routing="spray", receiver="in_order")
    with pytest.raises(SpecError, match="routing = 'adaptive': HPCC compares what the packets of a flow have seen"):
        Settings(routing="adaptive", congestion=Hpcc())
    with pytest.raises(SpecError, match="routing = 'best': packets are routed by no such rule; choose one of hash"):
        Settings(routing="best")  # type: ignore[arg-type]


@RULES
def test_a_collective_puts_as_many_bytes_on_the_spines_whatever_the_rule(routing: Rule) -> None:
    fabric = hosts_of(4, 4, topology=Rail())
    all_to_all = graph(Direct(), "all_to_all", fabric)
    session = Packet(routing=routing).open(fabric, 0)
    session.repeat(all_to_all, 1)
    stats, expected = session.stats(), Packet().open(fabric, 0)
    expected.repeat(all_to_all, 1)

    by_kind = Counter[str]()
    for link, now, before in zip(fabric.links, stats.link_bytes, expected.stats().link_bytes, strict=True):
        by_kind[link.kind] += int(now) - int(before)
    assert not any(by_kind.values())


def test_relays_inside_hosts_keep_packets_off_the_spines() -> None:
    carried = {}
    for topology in (Rail(), Rail(pxn=True)):
        fabric = hosts_of(4, 4, topology=topology)
        for routing in ("hash", "spray"):
            session = replace(Packet(), routing=routing).open(fabric, 0)
            session.repeat(graph(Direct(), "all_to_all", fabric), 1)
            sent = zip(fabric.links, session.stats().link_bytes.tolist(), strict=True)
            carried[topology.pxn, routing] = sum(size for link, size in sent if link.kind == "spine")

    assert carried[True, "hash"] == carried[True, "spray"] == 0
    assert carried[False, "hash"] == carried[False, "spray"] == 2 * 24 * S // 64
