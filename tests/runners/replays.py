"""Small files of other simulators, and the table that a replay of them writes."""

from __future__ import annotations

import csv
from pathlib import Path

from runners.network import main

STAR = """4 1 3
3
0 3 100Gbps 1000ns 0
1 3 100Gbps 1000ns 0
2 3 100Gbps 1000ns 0
"""
SERVERS = """5 2 1 2 3 H100
2 3 4
0 2 2880Gbps 0.000025ms 0
1 2 2880Gbps 0.000025ms 0
0 3 400Gbps 0.0005ms 0
"""
TREE = """Nodes 4
Tiers 2
Podsize 4
Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Downlink_Latency_ns 1000
"""
RING = "1 0 1 100000 0 -1\n2 1 2 100000 0 1\n3 2 0 100000 500 2\n"
STARTED = "2\n0 1 3 100 100000 0.0\n1 2 3 100 100000 0.000001\n"
MATRIX = """Nodes 4
Connections 2
Triggers 1
Failures 1
0->2 id 1 start 0 size 100000 send_done_trigger 1
2->3 id 2 trigger 1 size 100000
trigger id 1 oneshot
failure switch_type TOR switch_id 0 link_id 1
"""


def replayed(folder: Path, topology: str, flows: str, *words: str) -> list[dict[str, str]]:
    """The rows of the table that the command writes."""
    (folder / "net").write_text(topology)
    (folder / "ring.flows").write_text(flows)
    out = folder / "out.csv"
    assert main([f"topology={folder / 'net'}", f"flows={folder / 'ring.flows'}", f"out={out}", *words]) == 0
    with out.open(newline="") as file:
        return list(csv.DictReader(file))
