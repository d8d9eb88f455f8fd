"""Speed of the packet simulation: permutations and a ring of flows on fat trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.netref import flows_between
from xsim.fabric.graph import Cable, Graph
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings

RATE, DELAY_PS = 100 * 10**9, 1_000_000


@pytest.mark.parametrize("radix", [8, 16])
def test_a_permutation_of_1_mb(benchmark: Any, radix: int) -> None:
    graph = fat_tree(radix)
    hosts = radix**3 // 4
    ends = [(host, (host + hosts // 2 + 1) % hosts, 10**6, -1) for host in range(hosts)]
    flows = flows_between(graph, ends)

    outcome = benchmark.pedantic(replay, (graph, flows, Settings()), rounds=3, warmup_rounds=1)

    assert outcome.links.packets.sum() > 2 * 2 * 1000 * hosts


def test_a_ring_all_reduce_of_4_mb_on_128_hosts(benchmark: Any) -> None:
    graph, count = fat_tree(8), 128
    ends = [
        ((chain + step) % count, (chain + step + 1) % count, 4_000_000 // count, chain * 254 + step - 1 if step else -1)
        for chain in range(count)
        for step in range(2 * count - 2)
    ]
    flows = flows_between(graph, ends)

    outcome = benchmark.pedantic(replay, (graph, flows, Settings(payload_bytes=9000)), rounds=3, warmup_rounds=1)

    assert len(outcome.sender_end_ps) == 32_512
    assert np.all(outcome.sender_end_ps > outcome.receiver_end_ps)


def fat_tree(radix: int) -> Graph:
    """Hosts, leaves, middle switches and cores, in this order."""
    half = radix // 2
    hosts, leaves, cores = radix * half * half, radix * half, half * half
    middle, core = hosts + leaves, hosts + 2 * leaves
    joins = [(host, hosts + host // half) for host in range(hosts)]
    joins += [(hosts + leaf, middle + leaf // half * half + up) for leaf in range(leaves) for up in range(half)]
    joins += [(middle + own, core + up * half + own % half) for own in range(leaves) for up in range(half)]
    cables = tuple(Cable(a, b, RATE, DELAY_PS) for a, b in joins)
    return Graph(core + cores, frozenset(range(hosts, core + cores)), cables)
