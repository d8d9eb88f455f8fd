"""Every file of conf/cluster, conf/model and conf/deployment reads, and each deployment fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from omegaconf import OmegaConf

from xsim.spec.cluster import ClusterSpec, rank_devices, rank_hosts
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment
from xsim.spec.spellings import read_binary, read_text, write_binary, write_text
from xsim.spec.yaml_text import load

CONF = Path(__file__).parents[2] / "conf"
T = TypeVar("T")


def names(kind: str) -> list[str]:
    return sorted(path.stem for path in (CONF / kind).glob("*.yaml"))


def read(cls: type[T], kind: str, name: str) -> T:
    return read_text(cls, (CONF / kind / f"{name}.yaml").read_text(encoding="utf-8"), path=kind)


@pytest.mark.parametrize("name", names("cluster"))
def test_cluster(name: str) -> None:
    cluster = read(ClusterSpec, "cluster", name)

    assert cluster.name == name
    assert len(rank_devices(cluster)) == len(rank_hosts(cluster)) == cluster.ranks
    assert read_binary(ClusterSpec, write_binary(cluster)) == cluster
    assert read_text(ClusterSpec, write_text(cluster)) == cluster


@pytest.mark.parametrize("name", names("cluster"))
def test_every_rate_of_a_cluster_says_where_it_is_from(name: str) -> None:
    lines = (CONF / "cluster" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    context = [(line, before) for before, line in zip(["", *lines], lines, strict=False) if "bandwidth:" in line]

    assert [line for line, before in context if "#" not in line + before] == []


@pytest.mark.parametrize("kind", ["cluster", "model", "deployment"])
def test_hydra_reads_the_same(kind: str) -> None:
    for path in sorted((CONF / kind).glob("*.yaml")):
        assert OmegaConf.to_container(OmegaConf.load(path)) == load(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("name", names("model"))
def test_model(name: str) -> None:
    assert read(ModelSpec, "model", name).name == name


PARTS = {  # deployments on a part of a cluster that has another name, and a model for them
    "b200x4_h200x8_7b": ("xsim_testbed_nvlink", "llama2_7b"),
    "b200x2_h200x4_7b": ("xsim_testbed_nvlink", "llama2_7b"),
    "b200x2_h200x8_7b": ("xsim_testbed_nvlink", "llama2_7b"),
    "paper_c9_dp_7b": ("xsim_testbed_pcie", "llama2_7b"),
    "paper_c9_pp_7b": ("xsim_testbed_pcie", "llama2_7b"),
    "paper_c9_tp_7b": ("xsim_testbed_pcie", "llama2_7b"),
    "paper_sync": ("xsim_testbed_pcie", "llama2_7b"),
    "paper_sync_nics": ("h100x4_a100x4", "llama2_7b"),
}


def scenario_of(name: str) -> Scenario:
    """Of a deployment ``<cluster>_<size>``: the cluster it is named after and the Llama 2 of that size.

    ``_sp`` and ``_v2`` in the name tell variants of one deployment apart. Of a deployment ``eth_<size>``, which all
    clusters of that name can have: one of them, and the GPT-3 of that size. Of one on a part of a cluster, that one.
    """
    cluster, _, size = name.replace("_sp_", "_").removesuffix("_v2").rpartition("_")
    model = f"llama2_{size}"
    if name.startswith("eth_"):
        cluster, model = "eth_b2_b4", f"gpt3_{name.removeprefix('eth_').partition('_table_3')[0]}"
    if name in PARTS:
        cluster, model = PARTS[name]
    plan = read(DeploymentPlan, "deployment", name)
    spec = read(ModelSpec, "model", model)
    return Scenario(
        cluster=read(ClusterSpec, "cluster", cluster),
        model=replace(spec, layers=1) if name.startswith("paper_sync") else spec,
        batch=plan.samples,
        deployment=plan,
    )


def first_of(hosts: int, devices: int) -> list[int]:
    """Ranks of the first devices of the first hosts of both kinds: ``hosts`` x ``devices`` of each in ETH, Table 2."""
    return [start + 8 * host + i for start in (0, 32) for host in range(hosts) for i in range(devices)]


PART_OF_THE_CLUSTER = {
    "eth_350m": first_of(1, 2),
    "eth_1_3b": first_of(2, 2),
    "eth_2_6b": first_of(2, 4),
    "eth_6_7b": first_of(4, 4),
}


@pytest.mark.parametrize("name", names("deployment"))
def test_deployment(name: str) -> None:
    scenario = scenario_of(name)
    plan = scenario.deployment

    assert plan is not None
    assert plan.name == name
    ranks = [rank for _, group in plan.groups() for rank in group.ranks]
    if name not in PARTS:
        assert sorted(ranks) == PART_OF_THE_CLUSTER.get(name, list(range(scenario.cluster.ranks)))
    for replica in check_deployment(plan, scenario).replicas:
        assert replica.layers == range(scenario.model.layers + 2)


@pytest.mark.parametrize("name", [name for name in names("deployment") if name != "paper_c9_tp_7b"])
def test_every_device_group_is_of_one_kind_on_one_host(name: str) -> None:
    scenario = scenario_of(name)
    devices, hosts = rank_devices(scenario.cluster), rank_hosts(scenario.cluster)

    assert scenario.deployment is not None
    for _, group in scenario.deployment.groups():
        assert len({devices[rank].name for rank in group.ranks}) == 1
        assert len({hosts[rank] for rank in group.ranks}) == 1


def test_the_paper_figure_4() -> None:
    scenario = scenario_of("fig4_7b")
    plan = scenario.deployment
    stages = [
        (stage.groups[0].ranks, stage.layers, replica.micro_batches)
        for replica in (plan.replicas if plan else ())
        for stage in replica.stages
    ]

    assert [device.name for device in rank_devices(scenario.cluster)] == ["h100_80"] * 5 + ["a100_40"] * 5
    assert stages == [
        ((0, 1, 2), (range(1, 21),), 16),
        ((5, 6), (range(21, 33),), 16),
        ((3, 4), (range(1, 16),), 8),
        ((7, 8, 9), (range(16, 33),), 8),
    ]


def test_the_paper_rates_without_tensor_cores() -> None:
    cluster = read(ClusterSpec, "cluster", "fig4_explicit_rates")

    assert [device.rate_flops_per_s for device in rank_devices(cluster)] == [204.9e12] * 5 + [77.97e12] * 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fig4_7b", {16: {(0, 1, 2): (1, 20), (5, 6): (21, 32)}, 8: {(3, 4): (1, 15), (7, 8, 9): (16, 32)}}),
        ("fig4_13b", {16: {(0, 1, 2): (1, 25), (5, 6): (26, 40)}, 8: {(3, 4): (1, 19), (7, 8, 9): (20, 40)}}),
        ("h100x6_a100x4_7b", {16: {tuple(range(6)): (1, 26), tuple(range(6, 10)): (27, 32)}}),
        ("h100x6_a100x4_13b", {16: {tuple(range(6)): (1, 32), tuple(range(6, 10)): (33, 40)}}),
        ("h100x8_a100x1_7b", {16: {tuple(range(8)): (1, 30), (8,): (31, 32)}}),
        ("h100x8_a100x1_13b", {16: {tuple(range(8)): (1, 38), (8,): (39, 40)}}),
        ("h100x4_a100x4_7b", {16: {tuple(range(4)): (1, 23), tuple(range(4, 8)): (24, 32)}}),
        ("h100x6_a100x4_sp_7b", {16: {tuple(range(6)): (1, 26), tuple(range(6, 10)): (27, 32)}}),
        ("h100x8_a100x1_sp_7b", {16: {tuple(range(8)): (1, 30), (8,): (31, 32)}}),
        ("h100x4_a100x4_sp_7b", {16: {tuple(range(4)): (1, 23), tuple(range(4, 8)): (24, 32)}}),
        ("h100x4_a100x4_13b", {16: {tuple(range(4)): (1, 29), tuple(range(4, 8)): (30, 40)}}),
    ],
)
def test_who_holds_which_layers(name: str, expected: dict[int, dict[tuple[int, ...], tuple[int, int]]]) -> None:
    """Per number of micro-batches of a replica: first and last layer of each group."""
    plan = read(DeploymentPlan, "deployment", name)

    assert {replica.micro_batch for replica in plan.replicas} == {1}
    assert expected == {
        replica.micro_batches: {
            group.ranks: (stage.layers[0].start, stage.layers[0].stop - 1)
            for stage in replica.stages
            for group in stage.groups
        }
        for replica in plan.replicas
    }
