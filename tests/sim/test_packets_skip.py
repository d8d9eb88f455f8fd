"""Packets that are not simulated: what is skipped goes on as it would have gone."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.packet_cases import BANDWIDTHS, DELAYS_PS
from tests.sim.routed import flows_between
from tests.sim.traffic import point_to_point
from tests.sim.traffic import star as star_of_ranks
from xsim.fabric.graph import Cable, Graph
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.congestion.dctcp import Dctcp
from xsim.sim.congestion.hpcc import Hpcc
from xsim.sim.congestion.none import Uncontrolled
from xsim.sim.congestion.swift import Swift
from xsim.sim.congestion.timely import Timely
from xsim.sim.contracts import CongestionControl
from xsim.sim.kernels import packet_columns
from xsim.sim.network.packet import Packet
from xsim.sim.packets import moving, skip
from xsim.sim.packets.flows import Flows
from xsim.sim.packets.replay import Outcome, replay
from xsim.sim.packets.settings import Settings

RATE = 100 * 10**9
NINE = Settings(payload_bytes=9000)
CONTROLS = (Uncontrolled(), Uncontrolled(), Dcqcn(), Dctcp(), Timely(), Hpcc(), Swift())
# Names of packet_columns that are neither columns nor kinds of events.
SETTINGS = {
    *(
        "ROW_COLUMNS",
        "LINK_COLUMNS",
        "SWITCH_COLUMNS",
        "FLOW_COLUMNS",
        "SIM_COLUMNS",
        "SEEN_COLUMNS",
        "KINDS",
        "TIMERS",
    ),
    *("TIMERS", "MARKED", "WAITING", "UNDER_WAY", "FINISHED", "BEGIN", "FEEDBACK", "ALARMED", "RECORD", "MOST_RECORDS"),
    *(
        "BUCKETS",
        "BUCKET_MASK",
        "WHEEL",
        "IDLE",
        "LATER",
        "GROW",
        "LOST_HOPE",
        "NO_CALL",
        "DOWN",
        "ONE_CALL",
        "NEXT_CALL",
    ),
    *("LANE_AT", "LANES"),  # of kinds
    *("BLOCK", "BLOCK_COLUMNS", "PRESENT", "QUIET", "WAKES", "LATEST"),  # of crowds, of which nothing is known any more
    *("JOIN", "GATHER", "DISPERSE", "STIR", "CHOOSE", "SENT", "LOOK_AGAIN"),  # what crowds are told and asked
    *("CUT", "CALL", "ASK"),  # of receivers that ask, beside whom nothing is skipped
    *("FIRST", "COUNT", "APART", "LATELY", "FORK_COLUMNS"),  # of switches that choose, beside whom nothing is, either
}
OF_MEMORY_AND_SEEN = {
    *("RATE_BITS", "WINDOW_BYTES", "ALARM", "LINE_BITS", "TRIP", "TRIP_BYTES", "OWN"),
    *("SENT_AT", "HOPS_SEEN", "CAME", "HOP_RECORDS", "HOPS", "PMAX", "LOSS"),
    *("FIRST", "COUNT", "APART", "LATELY", "FORK_COLUMNS"),  # of switches that choose, beside whom nothing is skipped
}
EVENTS = {
    "DATA",
    "ACK",
    "NACK",
    "PAUSE",
    "RESUME",
    "FREE",
    "WAKE",
    "START",
    "TIMER",
    "RETRY",
    "RELEASE",
    "CREDIT",
    "ASK",
}


def test_every_column_is_known_to_move_or_to_stay() -> None:
    """A new one must be put where ``moving`` lists its like, or fast forward would tell lies about it."""
    tree = ast.parse(inspect.getsource(packet_columns))
    assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    names = {name.id for target in assigned for name in ast.walk(target) if isinstance(name, ast.Name)}
    listed = {
        name
        for node in ast.walk(ast.parse(inspect.getsource(moving)))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
        for name in (part.attr for part in ast.walk(node.value) if isinstance(part, ast.Attribute))
    }

    assert names - listed - SETTINGS - OF_MEMORY_AND_SEEN - EVENTS == set()
    for columns in (
        moving.FLOW_COLUMNS,
        moving.LINK_COLUMNS,
        moving.SIM_COLUMNS + moving.NOT_MOVED,
        moving.ROW_COLUMNS,
    ):
        assert sorted(columns) == list(range(len(columns)))


def test_every_table_of_the_kernel_is_known() -> None:
    from xsim.sim.kernels.packet import run

    assert list(inspect.signature(run).parameters) == [
        *(
            "law",
            "crowd",
            "until",
            "rows",
            "links",
            "chances",
            "switches",
            "flows",
            "state",
            "knobs",
            "seen",
            "arrived",
        ),
        *("route", "forks", "turns", "members", "ended", "log", "wheel", "bucket", "heap", "sim"),
    ]


def test_one_stream_alone_and_equal_streams_in_a_ring_end_when_they_would() -> None:
    graph, ring = star(*[RATE] * 4), [(host, (host + 1) % 4, 3 * 10**8, -1) for host in range(4)]
    controls: tuple[Literal["pause", "credit"], ...] = ("pause", "credit")
    for ends, flow_control in product(([(0, 1, 10**8, -1)], ring), controls):
        flows = flows_between(graph, ends)
        exact, fast = both(graph, flows, replace(NINE, flow_control=flow_control))

        assert np.array_equal(fast.sender_end_ps, exact.sender_end_ps)
        assert np.array_equal(fast.receiver_end_ps, exact.receiver_end_ps)
        for column in ("sent_bytes", "packets", "pauses", "paused_ps"):
            assert np.array_equal(getattr(fast.links, column), getattr(exact.links, column))
        assert fast.events < exact.events / (50 if flow_control == "pause" else 1.2)


def test_what_begins_meanwhile_begins_when_it_would(eager: None) -> None:
    graph = star(*[RATE] * 3)
    flows = flows_between(graph, [(0, 1, 10**8, -1), (2, 1, 10**7, -1), (0, 2, 10**6, 1)])
    flows.start_ps[1] = 3_000_000_000
    exact, fast = both(graph, flows, NINE)

    assert fast.events < exact.events / 2
    assert np.array_equal(fast.start_ps[:2], exact.start_ps[:2])
    assert close(exact, fast)


def test_streams_that_pause_one_another_are_simulated(eager: None) -> None:
    graph = star(*[RATE] * 3)
    exact, fast = both(graph, flows_between(graph, [(0, 1, 10**8, -1), (2, 1, 10**8, -1)]), NINE)

    assert exact.links.pauses.sum() > 1000
    assert np.array_equal(fast.sender_end_ps, exact.sender_end_ps)
    assert np.array_equal(fast.links.pauses, exact.links.pauses)


def test_streams_that_wait_for_credit_end_when_they_would() -> None:
    graph = star(*[RATE] * 3)
    flows = flows_between(graph, [(0, 1, 10**8, -1), (2, 1, 10**7, -1)])
    exact, fast = both(graph, flows, replace(NINE, flow_control="credit", credit_bytes=20_000))

    assert np.array_equal(fast.sender_end_ps, exact.sender_end_ps)


@pytest.mark.parametrize("every_ps", [10**7, 10**8, 5 * 10**8, 2 * 10**9])
def test_asking_a_network_in_between_changes_nothing(every_ps: int) -> None:
    ends_ps = {exact: _ends_ps(Packet(payload_bytes=9000, exact=exact), every_ps) for exact in (True, False)}

    assert ends_ps[False] == ends_ps[True]


def _ends_ps(backend: Packet, every_ps: int) -> list[int]:
    """When two graphs end, of which the second begins while streams of the first go on."""
    begins_ps = 2 * 10**9
    network = backend.open(star_of_ranks(6, bandwidth=12.5e9), 0)
    first = network.submit(point_to_point((0, 1, 40_000_000), (2, 1, 40_000_000), (3, 4, 40_000_000)))
    second = network.submit(point_to_point((5, 1, 4_000_000)))
    network.release(first, 0, 0)
    for until_ps in range(every_ps, begins_ps + 1, every_ps):
        assert network.advance(until_ps) == []
    network.release(second, 0, begins_ps)
    found = [*network.advance(None), *network.advance(None)]
    return [completion.at_ps for completion in found]


def test_lost_packets_are_all_simulated(eager: None) -> None:
    graph = star(*[RATE] * 3, loss=1e-4)
    exact, fast = both(graph, flows_between(graph, [(0, 1, 10**8, -1)]), replace(NINE, retry_ps=10**9))

    assert exact.go_backs.sum() > 0
    assert np.array_equal(fast.sender_end_ps, exact.sender_end_ps)


def test_marked_streams_are_all_simulated(eager: None) -> None:
    graph = star(*[RATE] * 3)
    flows = flows_between(graph, [(0, 1, 10**8, -1), (2, 1, 10**8, -1)])
    exact, fast = both(graph, flows, replace(NINE, congestion=Dcqcn()))

    assert exact.links.marks.sum() > 0
    assert np.array_equal(fast.sender_end_ps, exact.sender_end_ps)


@given(
    control=st.sampled_from(CONTROLS),
    cables=st.lists(st.tuples(BANDWIDTHS, DELAYS_PS), min_size=3, max_size=5),
    ends=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=6),
    payload_bytes=st.sampled_from([4096, 9000]),
    ack_every=st.sampled_from([1, 10_000]),
    buffer_bytes=st.sampled_from([6_000_000, 32 << 20]),
    flow_control=st.sampled_from(["pause", "pause", "credit"]),
)
def test_fast_forward_is_close(
    control: CongestionControl,
    cables: list[tuple[int, int]],
    ends: list[tuple[int, int, int]],
    payload_bytes: int,
    ack_every: int,
    buffer_bytes: int,
    flow_control: Literal["pause", "credit"],
) -> None:
    count = len(cables)
    graph = Graph(count + 1, frozenset({count}), tuple(Cable(i, count, *cable) for i, cable in enumerate(cables)))
    flows = flows_between(
        graph,
        [(src % count, (src % count + 1 + hop % (count - 1)) % count, 3_000_000 * size, -1) for src, hop, size in ends],
    )
    settings = Settings(
        payload_bytes=payload_bytes,
        ack_every=1 if control.law else ack_every,
        buffer_bytes=buffer_bytes,
        flow_control=flow_control,
        congestion=control,
    )
    with pytest.MonkeyPatch.context() as patch:
        be_eager(patch)
        exact, fast = both(graph, flows, settings)
    assert close(exact, fast)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    be_eager(monkeypatch)


def be_eager(patch: pytest.MonkeyPatch) -> None:
    """Small cases are watched as closely as large ones would be, whatever that costs."""
    patch.setattr(skip, "PATIENCE", 2000)
    patch.setattr(skip, "GRANT", 1e12)


def both(graph: Graph, flows: Flows, settings: Settings) -> tuple[Outcome, Outcome]:
    """Packet by packet, and with skips."""
    return replay(graph, flows, settings), replay(graph, flows, replace(settings, fast_forward=True))


def close(exact: Outcome, fast: Outcome) -> bool:
    """Mean of the completion times within 1 %, the last of a hundred within 3 %."""
    took, found = (outcome.sender_end_ps - outcome.start_ps for outcome in (exact, fast))
    mean, tail = abs(found.mean() / took.mean() - 1), abs(np.percentile(found, 99) / np.percentile(took, 99) - 1)
    return bool(mean < 0.01 and tail < 0.03)


def star(*rates: int, loss: float = 0.0) -> Graph:
    count = len(rates)
    cables = tuple(Cable(host, count, rate, 1_000_000, loss) for host, rate in enumerate(rates))
    return Graph(count + 1, frozenset({count}), cables)
