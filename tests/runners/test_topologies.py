"""Topologies as points of a sweep: they end, and what a cluster does not fit is a row that says so."""

from __future__ import annotations

from pathlib import Path

from runners.cli import read_command
from runners.points import plan_single, plan_sweep
from runners.worker import simulate
from tests.examples import load
from tests.topologies import hpcc_text
from xsim.spec.cluster import ClusterSpec

SMALL = ["network=analytic", "cluster=h100x4_a100x4", "planner=uniform", "batch=4", "model.layers=2", "memory=report"]


def test_points_of_several_topologies_end(tmp_path: Path) -> None:
    path = tmp_path / "testbed.topo"
    path.write_text(hpcc_text(load(ClusterSpec, "h100x4_a100x4")))
    names = ["torus", "rail_only"]
    swept = plan_sweep(read_command([*SMALL, f"topology={','.join(names)}"], "")).points
    single = plan_single(read_command([*SMALL, "topology=file", f"topology.path={path}"], "")).points

    for point, name in zip((*swept, *single), (*names, "file"), strict=True):
        assert point.labels["topology"] == name
        assert simulate(point.config)["status"] == "ok"


def test_a_topology_that_a_cluster_does_not_fit_is_an_invalid_row() -> None:
    (point,) = plan_single(read_command([*SMALL, "topology=torus", "topology.sizes=[1]"], "")).points

    outcome = simulate(point.config)
    assert outcome["status"] == "invalid"
    assert outcome["reason"].startswith("topology.sizes = (1,): there is room for 1 switches, and the hosts need 2")
