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
from xsim.interop.flows import read_flows as read_plain

PAGE = (Path(__file__).parents[2] / "docs" / "packet_vs_flow.md").read_text()
OF_REFERENCE = (
    *("single_2hop_1M", "single_4hop_1M", "single_6hop_1M", "single_6hop_10M"),
    *("star3_incast2_1M", "star17_incast16_1M", "star9_ring8_4M", "ft16_ring8_4M"),
)


@cache
def found() -> tuple[Agreement, ...]:
    return tuple(map(agreement, scenarios()))


def test_the_page_shows_what_its_command_prints() -> None:
    out = io.StringIO()
    show(found(), out)

    printed = [text for text in out.getvalue().splitlines() if text.startswith("|")]
    assert "python -m runners.agreement\n" in PAGE
    assert [text for text in printed if text not in PAGE.splitlines()] == []


def test_what_differs_is_stored_on_the_way() -> None:
    """Except where switches pause their neighbours, or packets do not share as fairly as flows."""
    for one in found():
        name = one.scenario.name
        limit = 0.3 if one.pauses else 0.05 if name.startswith("permutation") else 0.01
        assert abs(one.rest) < limit, name
        if "alone" in name:
            assert one.rest == pytest.approx(0, abs=1e-6)
        assert one.makespans_differ < 0.005, name


@pytest.mark.parametrize("name", OF_REFERENCE)
def test_scenarios_of_the_reference_agree_within_five_percent(reference_data: Path, name: str) -> None:
    """Of one size, 1 MB and more, and rings whose pieces are that large for their way."""
    folder = reference_data / "netref" / "scenarios"
    topology = name.partition("_")[0].replace("single", "ft16")
    flows = read_flows(folder / f"{name}.flows", None).flows

    one = agreement(Scenario(name, read_topology(folder / f"{topology}.hpcc", ()).graph, flows))

    assert abs(one.differ) < 0.05
    assert abs(one.makespans_differ) < 0.05
    assert abs(one.rest) < 0.01


@given(cables=st.lists(st.tuples(BANDWIDTHS, DELAYS_PS), min_size=1, max_size=5), size_bytes=st.integers(1, 100_000))
def test_a_lone_flow_is_never_slower_on_a_simpler_network(cables: list[tuple[int, int]], size_bytes: int) -> None:
    """Analytic and flow are equal then; packets are stored on their way, and each is rounded down to a picosecond."""
    graph, last = line(cables), len(cables)

    one = agreement(Scenario("alone", graph, read_plain(f"1 0 {last} {size_bytes} 0 -1\n")))

    packets = -(-size_bytes // 9000)
    assert (one.flow_ps + one.stored_ps == one.packet_ps).all()
    assert (one.stored_ps >= -packets).all()
    assert np.all(one.flow_ps <= one.packet_ps + packets)
