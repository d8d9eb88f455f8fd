"""Lists of many flows: read, given their paths, and replayed with fair sharing."""

from __future__ import annotations

import numpy as np
from pytest_benchmark.fixture import BenchmarkFixture

from xsim.fabric.hashed_paths import paths_of
from xsim.interop.flows import read_flows
from xsim.interop.htsim_topology import read_topology
from xsim.sim.network.flow import Flow
from xsim.sim.replay import replay

K = 8  # a fat tree of 128 hosts
TIER = "Downlink_speed_Gbps 100\nDownlink_Latency_ns 1000\n"
TREE = (
    f"Nodes {K**3 // 4}\nTiers 3\nPodsize {K * K // 4}\n"
    f"Tier 0\n{TIER}Radix_Down {K // 2}\nRadix_Up {K // 2}\n"
    f"Tier 1\n{TIER}Radix_Down {K // 2}\nRadix_Up {K // 2}\n"
    f"Tier 2\n{TIER}Radix_Down {K}\n"
)


def ring(hosts: int) -> str:
    """The flows of an all-reduce: a chain per piece, each flow behind the one before it."""
    steps = range(2 * (hosts - 1))
    return "".join(
        f"{piece * len(steps) + step} {(piece + step) % hosts} {(piece + step + 1) % hosts} 8000 0 "
        f"{piece * len(steps) + step - 1 if step else -1}\n"
        for piece in range(hosts)
        for step in steps
    )


def test_a_ring_of_32_512_flows(benchmark: BenchmarkFixture) -> None:
    graph, text = read_topology(TREE).graph(), ring(128)

    def replayed() -> int:
        flows = read_flows(text)
        found = replay(graph, flows, paths_of(graph, flows)[0], flows.size_bytes, Flow(), 0, lambda _: None)
        assert np.all(found.end_ps > found.start_ps)
        return int(found.end_ps.max())

    assert benchmark(replayed) > 254 * (8000 * 80 + 2_000_000)
