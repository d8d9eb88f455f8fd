"""The networks flow and packet on the same flows, and the page docs/packet_vs_flow.md."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.agreement import Agreement, agreement, show
from runners.foreign import read_flows, read_topology
from runners.scenarios import Scenario, scenarios
from tests.oracles.packet_cases import BANDWIDTHS, DELAYS_PS, line
from xsim.fabric.graph import Cable, Graph
from xsim.interop.flows import read_flows as read_plain

PAGE = (Path(__file__).parents[2] / "docs" / "packet_vs_flow.md").read_text()
OF_REFERENCE = (
    *("single_2hop_1M", "single_4hop_1M", "single_6hop_10K", "single_6hop_1M", "single_6hop_10M"),
    *("star3_incast2_1M", "star17_incast16_1M", "star9_ring8_1M", "star9_ring8_4M"),
    *("ft16_ring8_1M", "ft16_ring8_4M", "ft16_ring16_1M", "ft16_ring16_4M"),
)
CABLES_PS = st.integers(500_000, 5_000_000)


@cache
def found() -> tuple[Agreement, ...]:
    return tuple(map(agreement, scenarios()))


def test_the_page_shows_what_its_command_prints() -> None:
    out = io.StringIO()
    show(found(), out)

    printed = [text for text in out.getvalue().splitlines() if text.startswith("|")]
    assert "python -m runners.agreement\n" in PAGE
    assert [text for text in printed if text not in PAGE.splitlines()] == []


def test_lone_flows_incasts_and_rings_agree_within_a_percent() -> None:
    """What is left are acknowledgements that come the other way, and who goes first where ports are shared."""
    for one in found():
        name = one.scenario.name
        if "alone" in name:
            assert one.flow_ps == pytest.approx(one.packet_ps, abs=1000)
        if name.startswith("ring") or "alone" in name or name.endswith("star"):
            assert abs(one.differ) < 0.01, name
            assert abs(one.makespans_differ) < 0.01, name
            assert one.verdict == "yes"
            assert one.differ_at_once < one.differ


def test_pauses_and_queues_are_what_flow_does_not_know() -> None:
    """It ends with the packets all the same where switches pause their neighbours, and before them where flows meet."""
    incast, small, large = (one for one in found() if one.scenario.name.startswith(("16 to 1, 1 MB, fat", "perm")))

    assert (incast.verdict, small.verdict, large.verdict) == ("no: pauses", "no: queues", "yes")
    assert incast.pauses > 0 == small.pauses == large.pauses
    assert incast.differ > 0.25
    assert abs(incast.makespans_differ) < 0.01
    assert abs(small.differ) < 0.01
    assert small.makespans_differ < -0.1


@pytest.mark.parametrize("name", OF_REFERENCE)
def test_scenarios_of_the_reference_agree_within_a_percent(reference_data: Path, name: str) -> None:
    folder = reference_data / "netref" / "scenarios"
    topology = name.partition("_")[0].replace("single", "ft16")
    flows = read_flows(folder / f"{name}.flows", None).flows

    one = agreement(Scenario(name, read_topology(folder / f"{topology}.hpcc", ()).graph, flows))

    assert abs(one.differ) < 0.01
    assert abs(one.makespans_differ) < 0.01


@given(cables=st.lists(st.tuples(BANDWIDTHS, DELAYS_PS), min_size=1, max_size=5), size_bytes=st.integers(1, 100_000))
def test_a_lone_flow_is_never_slower_on_a_simpler_network(cables: list[tuple[int, int]], size_bytes: int) -> None:
    """Among packets each is rounded down to a picosecond."""
    graph, last = line(cables), len(cables)

    one = agreement(Scenario("alone", graph, read_plain(f"1 0 {last} {size_bytes} 0 -1\n")))

    packets = -(-size_bytes // 9000)
    assert np.all(one.at_once_ps <= one.flow_ps)
    assert np.all(abs(one.flow_ps - one.packet_ps) <= packets)


@given(hosts=st.integers(2, 9), piece=st.integers(1, 300_000), rate=BANDWIDTHS, delay_ps=CABLES_PS)
def test_rings_agree_within_five_percent(hosts: int, piece: int, rate: int, delay_ps: int) -> None:
    """Over cables of some length: else an acknowledgement holds up a piece that is no longer than itself. And of one
    rate: else pieces meet, and the first goes first."""
    graph = star([rate] * hosts, delay_ps)
    text = "".join(
        f"{origin * hosts + step} {(origin + step) % hosts} {(origin + step + 1) % hosts} {piece} 0 "
        f"{origin * hosts + step - 1 if step else -1}\n"
        for origin in range(hosts)
        for step in range(hosts - 1)
    )

    one = agreement(Scenario("ring", graph, read_plain(text)))

    assert abs(one.differ) < 0.05
    assert abs(one.makespans_differ) < 0.05


@given(hosts=st.integers(2, 12), size_bytes=st.integers(200_000, 600_000), rate=BANDWIDTHS, delay_ps=DELAYS_PS)
def test_incasts_of_many_packets_agree_within_five_percent(
    hosts: int, size_bytes: int, rate: int, delay_ps: int
) -> None:
    """Those of few packets do not on the mean: on flow all end with the last, else one packet after another."""
    graph = star([rate] * (hosts + 1), delay_ps)
    text = "".join(f"{host} {host} {hosts} {size_bytes} 0 -1\n" for host in range(hosts))

    one = agreement(Scenario("incast", graph, read_plain(text)))

    assert abs(one.differ) < 0.05
    assert abs(one.makespans_differ) < 0.05


def star(rates: list[int], delay_ps: int) -> Graph:
    """A host for each rate, on one switch."""
    hosts = len(rates)
    cables = tuple(Cable(host, hosts, rate, delay_ps) for host, rate in enumerate(rates))
    return Graph(hosts + 1, frozenset({hosts}), cables)
