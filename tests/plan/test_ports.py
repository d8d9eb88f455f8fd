"""Pieces follow one another, no port serves two at once, and latency decides how many pieces pay."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.traffic import star
from tests.strategies import SITE, WiredSite, disjoint_layouts, with_rings
from xsim.plan.comm import CommPlan, Transfer
from xsim.plan.contracts import Reshard
from xsim.plan.judge import verify_reduce
from xsim.plan.layout import Layout
from xsim.plan.ports import Flow, pipelined
from xsim.plan.reshard import ntp
from xsim.plan.reshard import star as by_star
from xsim.plan.spread import link_times, parts, spread

RANKS = 6
FABRIC = star(RANKS, bandwidth=1e9, latency_ps=0)
BYTE_PS = 1000


@st.composite
def flow_lists(draw: st.DrawFn) -> list[Flow]:
    """One-stage flows among six ranks, each of a span of its own."""
    pairs = st.tuples(st.integers(0, RANKS - 1), st.integers(0, RANKS - 1)).filter(lambda pair: pair[0] != pair[1])
    ends = draw(st.lists(pairs, min_size=1, max_size=20))
    sizes = draw(st.lists(st.integers(1, 10**6), min_size=len(ends), max_size=len(ends)))
    cuts = np.cumsum([0, *sizes]).tolist()
    return [Flow(*pair, range(*span), 0) for pair, span in zip(ends, pairwise(cuts), strict=True)]


def port_loads(flows: list[Flow]) -> list[int]:
    loads = [0] * (2 * RANKS)
    for flow in flows:
        loads[2 * flow.src] += len(flow.span)
        loads[2 * flow.dst + 1] += len(flow.span)
    return loads


@given(flows=flow_lists())
def test_one_stage_takes_as_long_as_the_busiest_port(flows: list[Flow]) -> None:
    """But for the rounding of portions to whole bytes, one per portion on the longest chain."""
    steps = pipelined(flows, 1, FABRIC, element_bytes=1)

    busiest_ps = max(port_loads(flows)) * BYTE_PS
    assert busiest_ps <= WiredSite(FABRIC).price(CommPlan(steps)) <= busiest_ps + len(steps) * BYTE_PS


@given(flows=flow_lists(), pieces=st.integers(1, 9))
def test_all_is_sent_once_and_no_port_serves_two(flows: list[Flow], pieces: int) -> None:
    steps = pipelined(flows, pieces, FABRIC, element_bytes=1)

    for flow in flows:
        sent = [s.span for s in steps if (s.src, s.dst) == (flow.src, flow.dst) and s.span.start in flow.span]
        assert sorted(element.start for element in sent)[0] == flow.span.start
        assert sum(map(len, sent)) == len(flow.span)
    for end in ("src", "dst"):
        for rank in range(RANKS):
            chain = [number for number, step in enumerate(steps) if getattr(step, end) == rank]
            assert all(before in steps[after].after for before, after in pairwise(chain))


@pytest.mark.parametrize(("latency_ps", "most", "expected"), [(0, 64, 64), (0, 8, 8), (10**6, 64, 22), (10**9, 64, 1)])
def test_latency_decides_how_many_pieces_pay(latency_ps: int, most: int, expected: int) -> None:
    """1 MB through two ports: 1 ms; a piece costs a link's latency twice, and sqrt(1 ms / 2 us) is 22."""
    flows = [Flow(0, 1, range(10**6), 0), Flow(1, 2, range(10**6), 1)]

    steps = pipelined(flows, most, star(3, 1e9, latency_ps), element_bytes=1)

    assert len(steps) == 2 * expected


def test_stages_of_a_piece_wait_for_each_other() -> None:
    steps = pipelined([Flow(0, 1, range(4), 0), Flow(1, 2, range(4), 1)], 2, FABRIC, element_bytes=1)

    assert steps == (
        Transfer(0, 1, range(2)),
        Transfer(0, 1, range(2, 4), after=(0,)),
        Transfer(1, 2, range(2), after=(0,)),
        Transfer(1, 2, range(2, 4), after=(1, 2)),
    )


@pytest.mark.parametrize("strategy", [ntp.Ntp(), by_star.Star()], ids=["ntp", "star"])
@given(many=disjoint_layouts(2, 4))
def test_rings_where_messages_would_be_too_many(strategy: Reshard, many: tuple[Layout, ...]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ntp, "MESSAGES", 0)
        patch.setattr(by_star, "MESSAGES", 0)
        plan = strategy.reduce(many, SITE)

    verify_reduce(plan, many)
    verify_reduce(with_rings(plan), many)
    assert {step.kind for step in plan.steps if not isinstance(step, Transfer)} >= {"all_reduce"}


def test_work_goes_where_it_is_done_in_the_shortest_time() -> None:
    """One task over a link of 1 or one of 2 bytes a second; another that only the first can do."""
    slow, fast = {0: 4.0}, {1: 2.0}

    (shares,) = spread([[slow, fast]])
    assert shares == pytest.approx((1 / 3, 2 / 3))
    assert spread([[slow, fast], [{0: 2.0}]]) == [pytest.approx((0.0, 1.0)), (1.0,)]
    assert spread([[{}, {}]]) == [(1.0, 0.0)]


def test_links_are_counted_as_often_as_they_are_crossed() -> None:
    assert link_times([(0, 1), (0, 2)], FABRIC) == {0: 2e-9, 3: 1e-9, 5: 1e-9}


@given(size=st.integers(0, 1000), weights=st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_parts_are_whole_and_in_proportion(size: int, weights: list[int]) -> None:
    shares = [weight / sum(weights) for weight in weights]

    found = parts(range(7, 7 + size), shares)

    assert [x for part in found for x in part] == list(range(7, 7 + size))
    assert all(abs(len(part) - share * size) <= 1 for part, share in zip(found, shares, strict=True))
