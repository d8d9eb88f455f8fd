"""A million flows that all start at one instant, between all hosts, or all into one or out of one."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from runners.warm import warm_packets
from tests.bench.fat_trees import fat_tree
from tests.sim.routed import routed
from xsim.fabric.flows import PORT, FlowList
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings

COUNT, HOSTS = 10**6, 128


def test_a_million_flows_of_a_packet_each(benchmark: Any) -> None:
    """8 s of the processor and 1 GB, ways not counted: 3 million events a second."""
    graph, rows, zero = fat_tree(8), np.arange(COUNT), np.zeros(COUNT, dtype=np.int64)
    target = (rows + 1 + np.random.default_rng(0).integers(0, HOSTS - 1, COUNT)) % HOSTS
    waits = np.zeros(COUNT + 1, dtype=np.int64)
    listed = FlowList(rows, rows % HOSTS, target, zero + 1000, zero, zero + PORT, waits, zero[:0])
    flows = routed(graph, listed)
    warm_packets(Settings())

    began_s = time.process_time()
    outcome = benchmark.pedantic(replay, (graph, flows, Settings()), rounds=1)
    took_s = time.process_time() - began_s

    hops = np.diff(flows.path_ptr) + np.diff(flows.back_ptr)
    assert int(outcome.links.packets.sum()) == int(hops.sum())
    assert (outcome.sender_end_ps > outcome.receiver_end_ps).all()
    assert took_s < 20


@pytest.mark.parametrize("into", [True, False])
def test_a_million_flows_of_one_host(benchmark: Any, into: bool) -> None:
    """10 s of the processor; looked at one by one, as they wait for their turns, they would take hours."""
    graph, rows, zero = fat_tree(4), np.arange(COUNT), np.zeros(COUNT, dtype=np.int64)
    waits, others = np.zeros(COUNT + 1, dtype=np.int64), 1 + rows % 15
    ends = (others, zero) if into else (zero, others)
    flows = routed(graph, FlowList(rows, *ends, zero + 1000, zero, zero + PORT, waits, zero[:0]))
    warm_packets(Settings())

    began_s = time.process_time()
    outcome = benchmark.pedantic(replay, (graph, flows, Settings()), rounds=1)
    took_s = time.process_time() - began_s

    assert (outcome.sender_end_ps > outcome.receiver_end_ps).all()
    assert took_s < 40
