"""Speed of the packet simulation, in seconds of one core: permutations and rings on fat trees."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from tests.bench.fat_trees import MEGABYTE, fat_tree, permutation
from tests.bench.test_network import RANKS, hosts
from tests.sim.routed import flows_between
from tests.sim.traffic import all_reduce
from xsim.fabric.topology.rail import Rail
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.congestion.hpcc import Hpcc
from xsim.sim.congestion.none import Uncontrolled
from xsim.sim.contracts import CongestionControl
from xsim.sim.network.packet import Packet
from xsim.sim.packets.replay import Outcome, replay
from xsim.sim.packets.settings import Settings

LEAST_PACKETS_PER_S = {128: 400_000, 1024: 250_000}
LEAST_IN_CLASSES = 150_000
LIMIT_MB = 300

pytestmark = pytest.mark.benchmark(timer=time.process_time)


@pytest.mark.parametrize("control", [Uncontrolled(), Dcqcn(), Hpcc()], ids=["none", "dcqcn", "hpcc"])
@pytest.mark.parametrize("radix", [8, 16])
def test_a_permutation_of_1_mb(benchmark: Any, radix: int, control: CongestionControl) -> None:
    graph, flows = permutation(radix)

    outcome = benchmark.pedantic(replay, (graph, flows, Settings(congestion=control)), rounds=3, warmup_rounds=1)

    check(outcome, len(flows.src))
    if isinstance(control, Uncontrolled):
        packets = MEGABYTE // Settings().payload_bytes * len(flows.src)
        assert packets / benchmark.stats.stats.median > LEAST_PACKETS_PER_S[len(flows.src)]


@pytest.mark.parametrize("order", ["round_robin", "strict"])
def test_a_permutation_of_1_mb_in_two_classes(benchmark: Any, order: Literal["round_robin", "strict"]) -> None:
    graph, flows = permutation(8)
    flows = replace(flows, classes=np.where(np.arange(len(flows.src)) % 2, 1, 3))

    outcome = benchmark.pedantic(replay, (graph, flows, Settings(class_order=order)), rounds=3, warmup_rounds=1)

    check(outcome, len(flows.src))
    assert MEGABYTE // Settings().payload_bytes * len(flows.src) / benchmark.stats.stats.median > LEAST_IN_CLASSES


def test_memory_of_a_permutation_of_1024(benchmark: Any) -> None:
    """Of a process of its own; what ``getrusage`` says of it begins with the size of the process that started it."""
    script = (
        "import re; from pathlib import Path; from tests.bench.fat_trees import permutation; "
        "from xsim.sim.packets.replay import replay; from xsim.sim.packets.settings import Settings; "
        "assert (replay(*permutation(16), Settings()).sender_end_ps > 0).all(); "
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    run = [sys.executable, "-c", script]
    peak_kib = int(benchmark.pedantic(lambda: subprocess.check_output(run, text=True), rounds=1, warmup_rounds=1))

    assert peak_kib * 1024 < LIMIT_MB * 10**6


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
    assert benchmark.stats.stats.median < 0.35


def test_a_ring_all_reduce_of_16_mib_on_1024_devices(benchmark: Any) -> None:
    fabric, graph = Rail().build(hosts(RANKS // 8)), all_reduce(range(RANKS), 16 * 2**20)
    backend = Packet(payload_bytes=9000)

    took_ps = benchmark.pedantic(lambda: backend.open(fabric, 0).solo(graph), rounds=1, warmup_rounds=1)

    assert took_ps > 2 * (RANKS - 1) * (16 * 2**20 // RANKS) / 25e9 * 1e12, "the NICs of 25 GB/s are the least of it"
    assert benchmark.stats.stats.median < 15


def check(outcome: Outcome, hosts: int) -> None:
    """Every flow crossed two links at least, with its data and its acknowledgements."""
    assert outcome.links.packets.sum() > 2 * 2 * MEGABYTE // Settings().payload_bytes * hosts
