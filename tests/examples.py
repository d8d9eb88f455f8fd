"""Scenarios and random small experiments that several tests share."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TypeVar

import yaml
from hypothesis import strategies as st

from xsim.experiment import Experiment
from xsim.families import build
from xsim.spec.cluster import ClusterSpec
from xsim.spec.codec import from_plain
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

__all__ = ["TINY", "experiments", "load", "scenario"]

T = TypeVar("T")

TINY = ModelSpec(
    name="tiny",
    layers=4,
    hidden=60,
    heads=6,
    kv_heads=3,
    ffn=100,
    vocab=101,
    seq_len=16,
    gated=True,
    norm="rmsnorm",
    bias=False,
    learned_positions=False,
    tied=True,
)

_FOLDERS = {ClusterSpec: "cluster", ModelSpec: "model", DeploymentPlan: "deployment"}


@cache
def load(cls: type[T], name: str) -> T:
    """The value of ``conf/<folder>/<name>.yaml``."""
    text = resources.files("conf").joinpath(_FOLDERS[cls], f"{name}.yaml").read_text()
    return from_plain(cls, yaml.safe_load(text), _FOLDERS[cls])


def scenario(cluster: str, model: str, deployment: str) -> Scenario:
    """A scenario of three files of ``conf/``; the batch is the deployment's."""
    plan = load(DeploymentPlan, deployment)
    return Scenario(
        cluster=load(ClusterSpec, cluster), model=load(ModelSpec, model), batch=plan.samples, deployment=plan
    )


@st.composite
def experiments(draw: st.DrawFn, network: str = "flow") -> Experiment:
    """Two small replicas whose layers, TP degrees, samples and buckets differ, on hosts of three kinds of wiring."""
    cluster = load(ClusterSpec, "fig4")
    kinds = draw(st.sampled_from(("nvswitch", "full_mesh", "pcie")))
    nics = draw(st.sampled_from((None, 1, 2)))
    hosts = tuple(replace(host, scale_up=kinds, nic=replace(host.nic, per_host=nics)) for host in cluster.hosts)
    ranks = draw(st.permutations(range(10)))
    replicas = []
    for _ in range(2):
        sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
        micro_batch = draw(st.integers(1, 2))
        cut = draw(st.integers(1, TINY.layers - 1))
        parts = [range(1, cut + 1), range(cut + 1, TINY.layers + 1)] if len(sizes) == 2 else [range(1, TINY.layers + 1)]
        stages = []
        for size, layers in zip(sizes, parts, strict=True):
            own, ranks = ranks[:size], ranks[size:]
            stages.append(_stage(tuple(own), layers, micro_batch, split=draw(st.booleans()), cut=draw(st.booleans())))
        replicas.append(Replica(stages=tuple(stages), micro_batch=micro_batch, micro_batches=draw(st.integers(1, 3))))
    bucket_bytes = draw(st.sampled_from((None, 1, 50_000)))
    plan = DeploymentPlan(replicas=tuple(replicas), bucket_bytes=bucket_bytes)
    return Experiment(
        scenario=Scenario(cluster=replace(cluster, hosts=hosts), model=TINY, batch=plan.samples, deployment=plan),
        reshard=build("reshard", {"name": draw(st.sampled_from(("lcm", "hetauto", "alpacomm")))}),
        schedule=build("schedule", {"name": draw(st.sampled_from(("gpipe", "one_f_one_b")))}),
        topology=build("topology", {"name": draw(st.sampled_from(("one_switch", "clos", "rail")))}),
        network=build("network", {"name": network}),
    )


def _stage(ranks: tuple[int, ...], layers: range, micro_batch: int, *, split: bool, cut: bool) -> Stage:
    if split and micro_batch == 2 and len(ranks) > 1:
        groups: tuple[DeviceGroup, ...] = (
            DeviceGroup(ranks=ranks[:1], samples=1),
            DeviceGroup(ranks=ranks[1:], samples=1),
        )
    else:
        groups = (DeviceGroup(ranks=ranks, samples=micro_batch),)
    return Stage(groups=groups, layers=(layers,), sequence_parallel=cut)
