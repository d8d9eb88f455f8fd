"""Fast forward where one acknowledgement is for many packets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sim.routed import flows_between
from tests.sim.test_packets_skip import NINE, RATE, both, star

RATES = (RATE, 40 * 10**9, RATE, 25 * 10**9)
LONE, LONE_SLOWER = [(0, 2, 2 * 10**7, -1)], [(0, 3, 2 * 10**7, -1)]
RING = [(host, (host + 1) % 4, 2 * 10**7, -1) for host in range(4)]


@pytest.mark.parametrize("ack_every", [1, 9000, 65_536, 10**6, 3 * 10**6])
@pytest.mark.parametrize("payload_bytes", [4096, 9000])
@pytest.mark.parametrize("ends", [LONE, LONE_SLOWER, RING], ids=["lone", "slower", "ring"])
def test_no_byte_is_lost_between_two_acknowledgements(
    ends: list[tuple[int, int, int, int]], payload_bytes: int, ack_every: int
) -> None:
    graph = star(*RATES)
    settings = replace(NINE, payload_bytes=payload_bytes, ack_every=ack_every)

    exact, fast = both(graph, flows_between(graph, ends), settings)

    for column in ("sender_end_ps", "receiver_end_ps"):
        assert np.allclose(getattr(fast, column), getattr(exact, column), rtol=0.01, atol=0)
    assert np.array_equal(fast.links.packets, exact.links.packets)


def test_acknowledgements_of_several_packets_repeat_themselves() -> None:
    graph = star(*RATES)
    exact, fast = both(graph, flows_between(graph, LONE), replace(NINE, ack_every=40_000))

    assert np.array_equal(fast.sender_end_ps, exact.sender_end_ps)
    assert fast.events < exact.events / 2
