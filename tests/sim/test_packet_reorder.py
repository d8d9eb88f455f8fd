"""Receivers that take packets in any order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles.packet_values import Flow
from tests.sim.test_packets_twin import columns
from tests.sim.traffic import all_reduce, star
from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.sim.packets.fabric_wires import wires_of_fabric
from xsim.sim.packets.instances import Instances
from xsim.sim.packets.replay import replay
from xsim.sim.packets.settings import Settings
from xsim.sim.traffic.compiled import Compiler

LOSSY = Graph(2, frozenset(), (Cable(0, 1, 10**11, 1_000_000, 0.05),))


@pytest.mark.parametrize("size_bytes", [1, 999, 1000, 64_000, 200_001, 5_000_000])
def test_only_what_was_lost_is_sent_again(size_bytes: int) -> None:
    flows = columns([Flow(0, 1, size_bytes, 0, -1, (0,), (1,))])

    outcome = replay(LOSSY, flows, Settings(receiver="selective", retry_ps=100_000_000, retries=50))

    there, back = outcome.links.packets
    lost_there, lost_back = outcome.links.lost
    least = -(-size_bytes // 1000) + lost_there
    assert least <= there <= least + lost_back  # an acknowledgement that is lost may cost a packet
    assert back == there - lost_there
    assert outcome.go_backs[0] <= lost_there + lost_back


def test_without_losses_both_kinds_of_receivers_are_the_same() -> None:
    fabric = star(5, 1e10)
    compiled = Compiler(fabric)(all_reduce(range(5), 1_234_567))
    ends = []
    for settings in (Settings(completion="receiver"), Settings(completion="receiver", receiver="selective")):
        instances = Instances(fabric, settings, wires_of_fabric(fabric, settings))
        base = instances.open(0, compiled)
        instances.release(base, compiled, 0, 77)
        ends.append([instances.run(10**12), instances.totals().flows])

    assert ends[0] == ends[1]


def test_a_flow_has_no_more_packets_under_way_than_its_receiver_can_tell_apart() -> None:
    """The delay alone would hold 12,500 packets of 1000 bytes."""
    graph = Graph(2, frozenset(), (Cable(0, 1, 10**11, 500_000_000),))
    flows = columns([Flow(0, 1, 10_000_000, 0, -1, (0,), (1,))])

    outcome = replay(graph, flows, Settings(receiver="selective"))

    round_trips = np.ceil(10_000 / 4096) - 1
    assert outcome.receiver_end_ps[0] > round_trips * 1_000_000_000


def test_a_selective_receiver_cannot_save_acknowledgements() -> None:
    with pytest.raises(SpecError, match="ack_every = 3000: a selective receiver acknowledges every packet"):
        Settings(receiver="selective", ack_every=3000)
