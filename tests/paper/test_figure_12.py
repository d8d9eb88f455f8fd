"""Figure 12, section 5.3 (7): strategies by pair of tensor-parallel degrees, and the page docs/figure_12.md."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from analysis.compare import show
from runners.cli import read_command
from runners.points import plan_sweep
from runners.store import SCHEMA, row_of
from runners.worker import simulate
from tests.examples import load
from tests.strategies import WiredSite
from xsim.fabric.topology.clos import Clos
from xsim.plan.contracts import Reshard
from xsim.plan.layout import Layout
from xsim.plan.reshard.alpacomm import AlpaComm
from xsim.plan.reshard.hetauto import HetAuto
from xsim.plan.reshard.lcm import Lcm
from xsim.spec.cluster import ClusterSpec, LinkSpec

PAGE = (Path(__file__).parents[2] / "docs" / "figure_12.md").read_text()
PAIRS = [(a, b) for a in range(1, 9) for b in range(1, 9)]
SIZE = 840 * 10**5  # all shards of up to 8 ranks, and what they have in common, are whole


@pytest.fixture(scope="module", name="table")
def _table() -> pa.Table:
    """The rows that the command of the page writes."""
    plan = plan_sweep(read_command(["+grid=figure_12"], ""))
    rows = [row_of(point, simulate(point.config), worker=0, attempt=1) for point in plan.points]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def test_the_page_shows_what_its_command_prints(table: pa.Table) -> None:
    out = io.StringIO()
    show(table, file=out)

    printed = [line for line in out.getvalue().splitlines() if line.startswith("|")]

    assert "python -m runners.sweep +grid=figure_12" in PAGE
    assert [line for line in printed if line not in PAGE.splitlines()] == []
    assert [line for line in PAGE.splitlines() if line.startswith("|") and line not in printed] == []


def test_all_that_is_exposed_are_hand_overs(table: pa.Table) -> None:
    assert not any(table["dp_comm_time_s"].to_pylist())
    assert all(table["reshard_comm_time_s"].to_pylist())


def test_leaders_cost_where_degrees_differ_and_only_there(table: pa.Table) -> None:
    """On the clusters of the figure, each backend, activations whole or cut."""
    rows = table.to_pylist()
    times: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        times.setdefault((row["deployment"], row["network"]), {})[row["reshard"]] = row["training_time_s"]

    for (deployment, _), by_strategy in times.items():
        if deployment.startswith("h100x4_a100x4"):
            assert by_strategy["hetauto"] == by_strategy["lcm"] == by_strategy["alpacomm"]
        else:
            assert by_strategy["hetauto"] > max(by_strategy["lcm"], by_strategy["alpacomm"])


def test_the_gcd_alone_does_not_order_the_pairs(table: pa.Table) -> None:
    """The exposed hand-overs of TP 8 to 1, GCD 1, suffer less from leaders than those of TP 6 to 4, GCD 2."""
    rows = [row for row in table.to_pylist() if row["network"] == "flow"]
    exposed_s = {(row["deployment"], row["reshard"]): float(row["reshard_comm_time_s"]) for row in rows}

    def behind(deployment: str) -> float:
        return exposed_s[deployment, "hetauto"] / exposed_s[deployment, "lcm"]

    for activations in ("", "_sp"):
        assert behind(f"h100x4_a100x4{activations}_7b") == 1
        assert 1.02 < behind(f"h100x8_a100x1{activations}_7b") < 1.1
        assert 1.8 < behind(f"h100x6_a100x4{activations}_7b") < 2.2


def two_hosts(a: int, b: int, latency_ps: int) -> WiredSite:
    """``a`` and ``b`` H100, each with a NIC of 400 Gbps and its latency; everything else takes no time."""
    cluster = load(ClusterSpec, "h100x6_a100x4")
    source = cluster.hosts[0]
    (slot,) = source.devices
    free = replace(source.nic, latency_ps=latency_ps)
    inside = LinkSpec(bandwidth_bytes_per_s=1e15, latency_ps=0)
    device = replace(slot.device, pcie=replace(slot.device.pcie, latency_ps=0), scale_up=inside)
    hosts = tuple(replace(source, devices=(replace(slot, device=device, count=n),), nic=free) for n in (a, b))
    uplink = LinkSpec(bandwidth_bytes_per_s=1e15, latency_ps=0)
    return WiredSite(Clos().build(replace(cluster, hosts=hosts, scale_out=replace(cluster.scale_out, uplink=uplink))))


def move_ps(strategy: Reshard, a: int, b: int, latency_ps: int = 0) -> int:
    """How long a tensor takes from TP ``a`` to TP ``b`` in the other host, alone on the wires."""
    site = two_hosts(a, b, latency_ps)
    source, target = Layout.even(tuple(range(a)), SIZE), Layout.even(tuple(range(a, a + b)), SIZE)
    return site.price(strategy.move(source, target, site))


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_leaders_take_min_over_gcd_times_as_long_between_hosts(a: int, b: int) -> None:
    """All NICs of the narrower side are busy without leaders, as many as the GCD with them; inside it is free here."""
    behind = move_ps(HetAuto(), a, b) / move_ps(Lcm(), a, b)

    assert behind == pytest.approx(min(a, b) / math.gcd(a, b), rel=1e-3)


def test_leaders_are_slower_the_smaller_the_gcd_at_a_given_smaller_degree() -> None:
    pairs = {math.gcd(a, 6): (a, 6) for a in (6, 8, 7)}
    behind = {gcd: move_ps(HetAuto(), *pair) / move_ps(Lcm(), *pair) for gcd, pair in pairs.items()}

    assert {gcd: round(value, 2) for gcd, value in behind.items()} == {6: 1, 2: 3, 1: 6}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_cut_points_and_chunks_take_equally_long(a: int, b: int) -> None:
    assert move_ps(AlpaComm(), a, b) == pytest.approx(move_ps(Lcm(), a, b), rel=1e-6)


@pytest.mark.parametrize(("a", "b"), [(6, 4), (8, 1), (4, 4), (7, 8), (8, 5)])
def test_latency_is_never_on_the_side_of_more_messages(a: int, b: int) -> None:
    """lcm(a, b) messages against a + b - gcd(a, b)."""
    by_chunks, by_cuts = (move_ps(strategy, a, b, latency_ps=10**9) for strategy in (Lcm(), AlpaComm()))

    assert by_cuts <= by_chunks * (1 + 1e-6)
