"""Background traffic beside a training: closed forms, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.test_executor import BACKWARD_PS, FORWARD_PS, fabric, pipeline, send
from xsim.errors import PlanError
from xsim.families import build
from xsim.plan.workload import Action, Program, Workload
from xsim.sim.contracts import Burst, Stream
from xsim.sim.executor import execute

QUIET_PS = 2 * (FORWARD_PS + BACKWARD_PS) + 2 * 300  # two stages, one micro-batch, 300 bytes there and back


def stream(*flows: tuple[int, int, int]) -> Stream:
    """Flows (at_ps, hosts from 0 to 1 or back: source, bytes), and then one byte again and again much later."""
    bursts = [Burst(at_ps, send(src, 1 - src, size)) for at_ps, src, size in flows]
    last = send(0, 1, 1)

    def endless() -> Iterator[Burst]:
        yield from bursts
        at_ps = 10**9
        while True:
            yield Burst(at_ps, last)
            at_ps += 10**6

    return Stream((*(burst.graph for burst in bursts), last), endless())


def took_ps(streams: Sequence[Stream], network: str = "flow", workload: Workload | None = None) -> int:
    wires = fabric(2)
    opened = build("network", {"name": network}).open(wires, 0)
    return execute(workload or pipeline("gpipe", 2, 1, 300), opened, wires, background=streams).makespan_ps


def test_two_flows_share_a_link_half_and_half() -> None:
    """The activation leaves at 1000; from 1100 on its last 200 bytes have half of the link, and take 400 ps."""
    assert took_ps([]) == QUIET_PS
    assert took_ps([stream((FORWARD_PS + 100, 0, 400))]) == QUIET_PS + 200
    assert took_ps([stream((FORWARD_PS + 100, 1, 400))]) == QUIET_PS  # on the link back nothing is under way then


def test_what_is_through_before_slows_nobody() -> None:
    assert took_ps([stream((FORWARD_PS - 400, 0, 400))]) == QUIET_PS
    assert took_ps([stream((FORWARD_PS - 399, 0, 400))]) == QUIET_PS + 1


def test_the_bursts_of_a_stream_wait_for_each_other() -> None:
    """Both would begin at 800. The second does at 1000, together with the activation, and they end at 1200 and 1400."""
    assert took_ps([stream((FORWARD_PS - 200, 0, 200), (FORWARD_PS - 200, 0, 100))]) == QUIET_PS + 100
    assert took_ps([stream((FORWARD_PS - 200, 0, 200)), stream((FORWARD_PS - 200, 0, 100))]) == QUIET_PS + 100
    assert took_ps([stream((0, 0, FORWARD_PS), (0, 0, 100), (0, 0, 100), (0, 0, 400))]) == QUIET_PS + 300


def test_without_contention_others_change_no_instant() -> None:
    assert took_ps([stream((0, 0, 10_000), (0, 1, 10_000))], "analytic") == QUIET_PS
    assert took_ps([stream((0, 0, 10_000), (0, 1, 10_000))], "flow") > QUIET_PS


@given(
    flows=st.lists(st.tuples(st.integers(0, 8_000), st.integers(0, 1), st.integers(1, 2_000)), min_size=1, max_size=6)
)
def test_a_flow_more_never_helps(flows: list[tuple[int, int, int]]) -> None:
    """One transfer at a time each way, and every flow in a stream of its own."""
    streams = [[stream(flow) for flow in flows[:count]] for count in (len(flows) - 1, len(flows))]
    fewer_ps, more_ps = map(took_ps, streams)

    assert QUIET_PS <= fewer_ps <= more_ps


@given(flows=st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 1), st.integers(1, 2_000)), max_size=6))
def test_links_carry_what_is_through_by_the_end(flows: list[tuple[int, int, int]]) -> None:
    """Flows of a stream follow each other, and those still under way at the end do not count."""
    wires = fabric(2)
    network = build("network", {"name": "analytic"}).open(wires, 0)
    execute(pipeline("gpipe", 2, 1, 300), network, wires, background=[stream(*sorted(flows))])

    carried, at_ps = [300, 300], 0
    for start_ps, src, size in sorted(flows):
        at_ps = max(at_ps, start_ps) + size
        carried[src] += size if at_ps <= QUIET_PS else 0
    assert network.stats().link_bytes.tolist() == carried


def test_a_program_that_waits_for_ever_is_named_in_company_too() -> None:
    good = pipeline("gpipe", 2, 1)
    first = good.programs[0]
    bad = Program(0, 0, 0, first.devices, (Action("B", 0), Action("F", 0)), first.bodies)

    with pytest.raises(PlanError, match="program 0 waits for ever in B0; 2 programs hang"):
        took_ps([stream((0, 0, 100))], workload=Workload((bad, good.programs[1]), good.moves, ()))
