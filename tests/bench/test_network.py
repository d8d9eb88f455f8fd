"""The network's sizes: a ring of 1024, thousands of small graphs, wires for 16,384 devices."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest

from tests.fabric.toys import NVLINK, cluster, host
from tests.sim.traffic import all_reduce, point_to_point
from tests.topologies import TOPOLOGIES
from xsim.fabric.fabric import Topology
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.fabric.topology.rail import Rail
from xsim.sim.network.flow import Flow
from xsim.spec.cluster import ClusterSpec, DeviceSlot

RANKS = 1024
MEBIBYTE = 2**20

# 2046 rounds; in each the slowest piece of 1 KiB crosses two NICs of 25 GB/s (41 ns) and waits 2.1 ns at links
RING_PS = 2046 * (40_960 + 2 * 1000 + 2 * 50)

_ALONE = """
from tests.bench.memory import peak_bytes
from tests.bench.test_network import RING_PS, run_ring
assert run_ring() == RING_PS
print(peak_bytes())
"""


def hosts(count: int) -> ClusterSpec:
    return cluster(host(DeviceSlot(device=NVLINK, count=8), count=count), per_tor=32, spines=16)


def run_ring() -> int:
    """All-reduce of 1 MiB over 1024 ranks, from the cluster to the last completion."""
    network = Flow().open(OneSwitch().build(hosts(RANKS // 8)), 0)
    network.release(network.submit(all_reduce(range(RANKS), MEBIBYTE)), 0, 0)
    return network.advance(None)[-1].at_ps


@pytest.mark.benchmark(group="network")
def test_ring_of_1024_alone(benchmark: Any) -> None:
    assert benchmark(run_ring) == RING_PS

    assert benchmark.stats.stats.min < 0.5


@pytest.mark.benchmark(group="network")
def test_ring_of_1024_from_event_to_event(benchmark: Any) -> None:
    fabric = OneSwitch().build(hosts(RANKS // 8))
    graph = all_reduce(range(RANKS), MEBIBYTE)

    found = benchmark.pedantic(lambda: Flow(reuse=False).open(fabric, 0).solo(graph), rounds=1)
    assert found == RING_PS


@pytest.mark.benchmark(group="network")
def test_memory_of_a_ring_of_1024(benchmark: Any) -> None:
    run = [sys.executable, "-c", _ALONE]
    peak = int(benchmark.pedantic(lambda: subprocess.check_output(run, text=True), rounds=1))

    assert peak < 300e6


@pytest.mark.benchmark(group="network")
@pytest.mark.parametrize("gap_ps", [10**7, 10**4], ids=["apart", "overlapping"])
def test_thousands_of_small_graphs(benchmark: Any, gap_ps: int) -> None:
    """16,000 hand-overs between neighbouring groups of 8, forth and back: each alone, or with others on its links."""
    fabric = Rail().build(hosts(128))
    groups = [range(first, first + 8) for first in range(0, 8 * 101, 8)]
    moves = [
        point_to_point(*((src, dst, 1000) for src, dst in zip(*pair, strict=True)), parties=pair)
        for left, right in pairwise(groups)
        for pair in ((left, right), (right, left))
    ]

    def hand_over() -> int:
        network = Flow().open(fabric, 0)
        done = 0
        for number in range(16_000):
            at_ps = number * gap_ps
            while batch := network.advance(at_ps):
                done += len(batch)
            handle = network.submit(moves[number % len(moves)])
            network.release(handle, 0, at_ps)
            network.release(handle, 1, at_ps)
        while batch := network.advance(None):
            done += len(batch)
        return done

    assert benchmark.pedantic(hand_over, rounds=3) == 32_000


@pytest.mark.benchmark(group="wiring")
@pytest.mark.parametrize("topology", [pytest.param(each, id=name) for name, each in TOPOLOGIES.items()])
def test_wires_of_16384_devices(benchmark: Any, topology: Topology) -> None:
    fabric = benchmark.pedantic(topology.build, (hosts(2048),), rounds=3)

    assert len(fabric.hosts) == 16_384
    assert benchmark.stats.stats.min < 1
