"""Many flows at one port take the turns that few would."""

from __future__ import annotations

import random
from typing import Literal
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_values import Flow
from tests.sim.test_packets_twin import columns
from xsim.fabric.graph import Cable, Graph
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.congestion.dctcp import Dctcp
from xsim.sim.congestion.hpcc import Hpcc
from xsim.sim.congestion.ndp import Ndp
from xsim.sim.congestion.none import Uncontrolled
from xsim.sim.congestion.swift import Swift
from xsim.sim.contracts import CongestionControl
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.replay import Outcome, replay
from xsim.sim.packets.settings import Settings

HOSTS = 4
STAR = Graph(HOSTS + 1, frozenset({HOSTS}), tuple(Cable(host, HOSTS, 10**11, 1_000_000) for host in range(HOSTS)))
CONTROLS = (Uncontrolled(), Dcqcn(), Dctcp(), Hpcc(), Swift(), Ndp())


@given(
    seed=st.integers(0, 1 << 30),
    count=st.sampled_from((5, 70, 200, 300)),
    into_one=st.booleans(),
    most_bytes=st.sampled_from((1, 1000, 5000)),
    control=st.sampled_from(CONTROLS),
    flow_control=st.sampled_from(("pause", "credit")),
    buffer_bytes=st.sampled_from((300_000, 32 << 20)),
    receiver=st.sampled_from(("auto", "selective")),
    fast_forward=st.booleans(),
    few=st.sampled_from((0, 3, 64)),
)
def test_a_crowd_takes_the_turns_of_a_plain_list(
    seed: int,
    count: int,
    into_one: bool,
    most_bytes: int,
    control: CongestionControl,
    flow_control: Literal["pause", "credit"],
    buffer_bytes: int,
    receiver: Literal["auto", "selective"],
    fast_forward: bool,
    few: int,
) -> None:
    draw = random.Random(seed)
    flows = []
    for number in range(count):
        src, dst = (draw.randrange(1, HOSTS), 0) if into_one else (0, draw.randrange(1, HOSTS))
        start_ps, after = draw.choice((0, 0, draw.randrange(10**8))), draw.choice((-1, -1, number - 1))
        flows.append(flow(src, dst, draw.randint(0, most_bytes), start_ps, after))
    settings = Settings(
        congestion=control,
        flow_control="pause" if control.asking else flow_control,
        buffer_bytes=buffer_bytes,
        receiver=receiver,
        fast_forward=fast_forward,
    )

    assert all_of(played(flows, settings, few)) == all_of(played(flows, settings, k.LATEST))


def test_more_flows_than_a_large_block_take_the_same_turns() -> None:
    draw = random.Random(0)
    flows = [flow(1, 0, draw.randint(1, 3000), draw.choice((0, draw.randrange(10**10))), -1) for _ in range(9000)]
    settings = Settings(buffer_bytes=400_000)

    assert all_of(played(flows, settings, 64)) == all_of(played(flows, settings, k.LATEST))


def flow(src: int, dst: int, size_bytes: int, start_ps: int, after: int) -> Flow:
    there, back = (2 * src, 2 * dst + 1), (2 * dst, 2 * src + 1)
    return Flow(src, dst, size_bytes, start_ps, after, there, back, ways=(there,), back_ways=(back,))


def played(flows: list[Flow], settings: Settings, few: int) -> Outcome:
    with patch("xsim.sim.packets.engine.FEW", few):
        return replay(STAR, columns(flows), settings)


def all_of(outcome: Outcome) -> list[object]:
    """In values that can be compared."""
    names = ("start_ps", "sender_end_ps", "receiver_end_ps", "go_backs", "busy_ps")
    counts = [outcome.links.sent_bytes, outcome.links.packets, outcome.links.paused_ps, outcome.links.marks]
    return [outcome.events, *(getattr(outcome, name).tolist() for name in names), *(own.tolist() for own in counts)]
