"""Figures by hand for two unlike devices, and what the list of columns promises."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.toy import Pace, play, program, sync
from xsim.account import Account, account
from xsim.fabric.fabric import Fabric, Link
from xsim.metrics import COLUMNS, Metrics, measure
from xsim.optimality import Distance, Optimality
from xsim.plan.memory import RankMemory, Verdict
from xsim.plan.workload import Compute, Ready, Workload
from xsim.sim.contracts import FlowTimes, NetworkStats
from xsim.sim.timeline import Timeline
from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
    EfficiencyCurve,
    HostSpec,
    LinkSpec,
    NicSpec,
    ScaleOutSpec,
)
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.tables import exchange_table, link_table, operator_table, rank_table

HOUR_PS = 3600 * 10**12


def device(name: str, price_usd: float, price_usd_per_hour: float, power_w: float) -> DeviceSpec:
    return DeviceSpec(
        name=name,
        peak_flops_per_s=(("bf16", 1e12),),
        memory_bytes=1000,
        memory_bandwidth_bytes_per_s=1e12,
        pcie=LinkSpec(bandwidth_bytes_per_s=1e9, latency_ps=0),
        scale_up=LinkSpec(bandwidth_bytes_per_s=1e9, latency_ps=0),
        efficiency=EfficiencyCurve(matmul=1.0, attention=1.0, memory=1.0, half_flops=0.0),
        power_w=power_w,
        idle_power_w=100,
        price_usd=price_usd,
        price_usd_per_hour=price_usd_per_hour,
    )


MODEL = ModelSpec(
    name="small",
    layers=2,
    hidden=8,
    heads=2,
    kv_heads=2,
    ffn=32,
    vocab=16,
    seq_len=4,
    gated=False,
    norm="layernorm",
    bias=False,
    learned_positions=True,
    tied=True,
)
SLOTS = (
    DeviceSlot(device=device("fast", 9000, 3.0, 700), count=1),
    DeviceSlot(device=device("slow", 3000, 1.0, 400), count=1),
    DeviceSlot(device=device("unused", 1e9, 1e9, 1e9), count=1),
)
SCENARIO = Scenario(
    cluster=ClusterSpec(
        name="pair",
        hosts=(HostSpec(devices=SLOTS, nic=NicSpec(bandwidth_bytes_per_s=1e9, latency_ps=0)),),
        scale_out=ScaleOutSpec(uplink=LinkSpec(bandwidth_bytes_per_s=1e9, latency_ps=0)),
    ),
    model=MODEL,
    batch=2,
)
FABRIC = Fabric(
    bandwidth_bytes_per_s=np.full(3, 1e9),
    latency_ps=np.zeros(3, dtype=np.int64),
    links=(Link("up 0", "scale_up"), Link("up 1", "scale_up"), Link("nic 0", "nic")),
    hosts=(0, 0, 0),
    router=lambda src, dst: (),
)
STATS = NetworkStats(
    link_bytes=np.array([60, 40, 0]),
    link_busy_ps=np.array([HOUR_PS // 4, HOUR_PS // 2, 0]),
    flows=FlowTimes(np.array([5, 7, 90]), np.array([50, 49, 1])),
)
EXCHANGES = Optimality(
    moves=(Distance(bound_ps=30, alone_ps=40, times=3), Distance(bound_ps=0, alone_ps=80, times=1)),
    syncs=(Distance(bound_ps=5, alone_ps=5, times=1),),
)
NEED = RankMemory(weight_bytes=100, gradient_bytes=200, optimizer_bytes=300, activation_bytes=50, workspace_bytes=0)
MEMORY = Verdict(
    needs=((0, dataclasses.replace(NEED, weight_bytes=250)), (1, NEED)),
    rank=0,
    shortfall_bytes=0,
    utilisation=0.8,
    text="all fit",
)


def two_replicas() -> tuple[Workload, Timeline, Account]:
    """An hour: rank 0 computes half of it, rank 1 three quarters; an eighth each for sync and optimizer."""
    eighth = HOUR_PS // 8
    programs = tuple(
        program(
            rank,
            0,
            (rank,),
            "F0 B0",
            (Compute("attention", (2 * eighth,)),),
            (Compute("mlp", (backward,)), Ready(0)),
            (Compute("optimizer", (eighth,)),),
        )
        for rank, backward in enumerate((2 * eighth, 4 * eighth))
    )
    workload = Workload(programs, (), (sync(0, 1),))
    timeline = play(workload, Pace(sync_ps=((eighth, eighth),)))
    return workload, timeline, account(workload, timeline)


@pytest.fixture(name="metrics")
def _metrics() -> Metrics:
    return measure(SCENARIO, two_replicas()[2], FABRIC, STATS, EXCHANGES, MEMORY)


def test_times_are_means_and_maxima_over_ranks(metrics: Metrics) -> None:
    row = metrics.row()

    assert row["training_time_s"] == 3600
    assert (row["compute_time_s"], row["compute_time_max_s"]) == (5 * 450, 6 * 450)
    assert (row["optimizer_time_s"], row["dp_comm_time_s"], row["bubble_time_s"]) == (450, 450, 0)
    assert (row["idle_time_s"], row["idle_time_max_s"]) == (450, 900)
    assert (row["attention_time_s"], row["mlp_time_s"], row["grad_sync_time_s"]) == (900, 1350, 450)


def test_throughput_and_mfu_count_what_the_model_needs(metrics: Metrics) -> None:
    weights = 2 * 12 * 8 * 8 + 16 * 8
    flops_per_token = 6 * weights + 12 * 2 * 8 * 4

    assert metrics.samples_per_s == 2 / 3600
    assert metrics.tokens_per_s == 8 / 3600
    assert metrics.mfu == pytest.approx(8 * flops_per_token / (3600 * 2e12))


def test_money_and_energy_count_the_deployed_ranks_only(metrics: Metrics) -> None:
    assert metrics.ranks == 2
    assert metrics.capex_usd == 12000
    assert metrics.tco_usd_per_gpu_hour == 6000
    assert metrics.usd_per_iteration == 4
    # 5/8 and 7/8 of the hour at 700 W and 400 W, the rest at 100 W
    assert metrics.energy_j == pytest.approx(3600 * (5 / 8 * 700 + 3 / 8 * 100 + 7 / 8 * 400 + 1 / 8 * 100))


def test_wires_and_flows(metrics: Metrics) -> None:
    row = metrics.row()

    assert (row["scale_up_bytes"], row["nic_bytes"], row["spine_bytes"]) == (100, 0, 0)
    assert (metrics.link_utilisation_max, metrics.link_utilisation_mean) == (0.5, 0.375)
    assert metrics.busiest_link == "up 1"
    assert metrics.flows == 100
    assert [metrics.flow_time_p50_s, metrics.flow_time_p99_s, metrics.flow_time_max_s] == [5e-12, 7e-12, 90e-12]


def test_the_distance_from_the_optimum_is_weighted_by_how_often_each_runs(metrics: Metrics) -> None:
    assert (metrics.move_optimality, metrics.sync_optimality) == (3 * 30 / (3 * 40 + 80), 1)


def test_nothing_sent_is_no_error() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    stats = NetworkStats(np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64), FlowTimes(nothing, nothing))

    metrics = measure(SCENARIO, two_replicas()[2], FABRIC, stats, Optimality((), ()), MEMORY)

    assert (metrics.busiest_link, metrics.link_utilisation_max, metrics.flow_time_p99_s) == ("", 0, 0)
    assert (metrics.move_optimality, metrics.sync_optimality) == (1, 1)


def test_memory_is_the_largest_need(metrics: Metrics) -> None:
    assert (metrics.peak_memory_bytes, metrics.memory_utilisation_max, metrics.fits) == (800, 0.8, True)


def test_a_row_has_the_columns_in_order_and_kind(metrics: Metrics) -> None:
    kinds = {"float": (int, float), "int": (int,), "bool": (bool,), "text": (str,)}

    absent = {"estimate_time_s", "estimate_error", "predicted_s"}
    assert list(metrics.row()) == [column.name for column in COLUMNS if column.name not in absent]
    row = dataclasses.replace(metrics, estimate_time_s=1.0, estimate_error=-0.5, predicted_s=1.0).row()
    assert list(row) == [column.name for column in COLUMNS]
    for column in COLUMNS:
        value = row[column.name]
        assert isinstance(value, kinds[column.kind]), column.name
        assert column.doc, column.name


def test_a_column_with_a_unit_says_so_in_its_name() -> None:
    endings = {"s": "_s", "1/s": "_per_s", "B": "_bytes", "USD/h": "_usd_per_gpu_hour", "J": "_j"}

    for column in COLUMNS:
        assert column.name.endswith(endings.get(column.unit, "")), column.name
        assert column.unit != "USD" or "usd" in column.name


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.integers(1, 100))
def test_percentile_is_the_nearest_rank(times: list[int], percent: int) -> None:
    durations, counts = np.unique(np.array(times, dtype=np.int64), return_counts=True)

    found = FlowTimes(durations, counts).percentile_ps(percent)

    assert found == sorted(times)[-(-len(times) * percent // 100) - 1]


def test_tables_have_columns_of_one_length() -> None:
    workload, timeline, found = two_replicas()
    ranks = rank_table(SCENARIO, workload, timeline, found, MEMORY)
    operators = operator_table(found)
    links = link_table(FABRIC, STATS, timeline.makespan_ps)
    exchanges = exchange_table(workload, dataclasses.replace(EXCHANGES, moves=()))

    for table, rows in ((ranks, 2), (operators, 8), (links, 3), (exchanges, 1)):
        assert {len(column) for column in table.values()} == {rows}
    assert (list(ranks["device"]), list(ranks["host"])) == (["fast", "slow"], [0, 0])
    assert list(ranks["straggler_wait_ps"]) == [HOUR_PS // 4, 0]
    assert list(ranks["peak_memory_bytes"]) == [800, 650]
    assert list(operators["operator"])[:4] == ["attention", "mlp", "optimizer", "grad_sync"]
    assert list(links["utilisation"]) == [0.25, 0.5, 0]
    assert {name: list(column) for name, column in exchanges.items()} == {
        "exchange": ["sync dense"],
        "content": ["dense gradients of layers 1..1"],
        "groups": ["0.0.0, 1.0.0"],
        "ranks": ["0, 1"],
        "strategy": [""],
        "times": [1],
        "bound_ps": [5],
        "alone_ps": [5],
        "optimality": [1.0],
    }
