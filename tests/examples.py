"""Scenarios and random small experiments that several tests share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import TypeVar

import yaml
from hypothesis import strategies as st

from tests.topologies import fitting
from xsim.experiment import Experiment
from xsim.fabric.topology.rail import Rail
from xsim.families import build, names
from xsim.sim.contracts import Background
from xsim.spec.cluster import SCALE_UP_KINDS, ClusterSpec, HostSpec, LinkSpec, PcieLevel
from xsim.spec.codec import from_plain
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario

__all__ = ["FIG4", "SMALL", "TINY", "backgrounds", "experiments", "load", "scenario"]

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


def _shallow(question: Scenario) -> Scenario:
    """The same with 8 of 32 layers, dealt out alike, and short sequences: everything happens, but less often."""
    plan = question.deployment
    assert plan is not None
    ends = [(5, 8), (4, 8)]
    replicas = tuple(
        replace(
            replica,
            stages=(
                replace(replica.stages[0], layers=(range(1, first + 1),)),
                replace(replica.stages[1], layers=(range(first + 1, last + 1),)),
            ),
        )
        for replica, (first, last) in zip(plan.replicas, ends, strict=True)
    )
    model = replace(question.model, layers=8, seq_len=256)
    return replace(question, model=model, deployment=replace(plan, replicas=replicas))


FIG4 = scenario("fig4", "llama2_7b", "fig4_7b")
SMALL = _shallow(FIG4)


@st.composite
def experiments(draw: st.DrawFn, network: str = "flow") -> Experiment:
    """One to three small replicas on four hosts, with every kind of unlikeness and every member of the families."""
    chunks = draw(st.sampled_from((1, 1, 2)))
    schedule = draw(st.sampled_from(names("schedule") if chunks == 1 else ("gpipe", "interleaved")))
    both_ways = schedule == "dualpipe"
    zero = draw(st.sampled_from((0, 0, 1, 2) if both_ways else (0, 0, 1, 2, 3)))
    ranks = iter(draw(st.permutations(range(20))))
    count = draw(st.integers(1, 3))
    replicas = [draw(_replicas(ranks, chunks, both_ways))]
    alike = replicas[0] if zero == 3 else None
    replicas += [draw(_replicas(ranks, chunks, both_ways, alike)) for _ in range(count - 1)]
    tied = not (zero == 3 and len(replicas[0].stages) > 1) and draw(st.booleans())
    model = replace(TINY, tied=tied, seq_len=draw(st.sampled_from((16, 512))))
    load: tuple[float, ...] = ()
    if draw(st.sampled_from((False, False, True))):
        model = replace(model, experts=5, experts_per_token=2, expert_ffn=30, shared_ffn=draw(st.sampled_from((0, 40))))
        replicas = [_mixing(replica) for replica in replicas]
        load = draw(st.sampled_from(((), (3.0, 0.0, 1.0, 1.0, 1.0))))
    if zero:
        replicas = [draw(_keeping(replica)) for replica in replicas]
    if zero >= 2:
        replicas = [replace(replica, micro_batches=replicas[0].micro_batches) for replica in replicas]
    plan = DeploymentPlan(
        replicas=tuple(replicas),
        zero=zero,
        gather_overlap=zero > 0 and draw(st.booleans()),
        bucket_bytes=draw(st.sampled_from((None, 1, 50_000))),
        serial_sync=draw(st.booleans()),
        blocking_sends=draw(st.booleans()),
        rendezvous=chunks == 1 and schedule in ("gpipe", "one_f_one_b", "zb_h1") and draw(st.booleans()),
        tp_async=draw(st.booleans()),
        tp_overlap=draw(st.booleans()),
    )
    chosen = {family: draw(st.sampled_from(names(family))) for family in ("reshard", "collective", "topology")}
    cluster = draw(_clusters(sums=chosen["collective"] == "nvls"))
    scenario = Scenario(cluster=cluster, model=model, batch=plan.samples, deployment=plan, expert_load=load)
    chosen |= {"schedule": schedule, "network": network}
    topology = fitting(chosen.pop("topology"), scenario.cluster)
    members = {family: build(family, {"name": name}) for family, name in chosen.items()} | {"topology": topology}
    if isinstance(topology, Rail):
        members["topology"] = Rail(pxn=draw(st.booleans()))
    return Experiment(scenario=scenario, **members)


@st.composite
def backgrounds(draw: st.DrawFn) -> Background:
    """Traffic that suits ``experiments``, whose iterations take some milliseconds."""
    ranks = tuple(draw(st.lists(st.integers(0, 15), min_size=2, max_size=4, unique=True)))
    options: dict[str, dict[str, object]] = {
        "load": {"load": draw(st.sampled_from((0.05, 0.6))), "size": "2 MB"},
        "incast": {"senders": 3, "receiver": ranks[0], "size": "500 KB", "period": "300 us"},
        "job": {"size": "200 KB", "pause": "100 us", "ranks": ranks},
    }
    name = draw(st.sampled_from([name for name in names("background") if name != "none"]))
    made: Background = build("background", {"name": name} | options.get(name, {}))
    return made


@st.composite
def _clusters(draw: st.DrawFn, sums: bool) -> ClusterSpec:
    """Two hosts of 5 H100 and two of 5 A100, wired in any way; with ``sums`` the first has a switch that sums."""
    cluster = load(ClusterSpec, "fig4")
    hosts = (*cluster.hosts, *cluster.hosts)
    wired = tuple(
        replace(
            host,
            scale_up=draw(st.sampled_from(("nvswitch",) if sums and not number else SCALE_UP_KINDS)),
            nic=replace(host.nic, per_host=draw(st.sampled_from((None, 1, 2)))),
        )
        for number, host in enumerate(hosts)
    )
    if draw(st.sampled_from((False, False, True))):
        wired = tuple(draw(_with_tree(host)) for host in wired)
    made: ClusterSpec = replace(cluster, hosts=wired)
    return made


@st.composite
def _with_tree(draw: st.DrawFn, host: HostSpec) -> HostSpec:
    """The host with 8 of its devices, blocks of which share uplinks slower than their ports, or not."""
    levels = draw(st.sampled_from(((), (2,), (4,), (2, 4))))
    uplink = st.builds(LinkSpec, bandwidth_bytes_per_s=st.sampled_from((1e9, 30e9)), latency_ps=st.just(300_000))
    tree = tuple(PcieLevel(devices=devices, uplink=draw(uplink)) for devices in levels)
    return replace(host, devices=(replace(host.devices[0], count=8),), pcie_tree=tree)


@st.composite
def _replicas(
    draw: st.DrawFn, ranks: Iterator[int], chunks: int, both_ways: bool, alike: Replica | None = None
) -> Replica:
    """One or two stages of one to three ranks, each with ``chunks`` virtual stages, in one group or two.

    With ``both_ways`` two stages, and as many micro-batches from each end; with ``alike`` the layers of its stages.
    """
    micro_batch = draw(st.integers(1, 3))
    layers = [stage.layers for stage in alike.stages] if alike else draw(_layers(chunks, both_ways))
    return Replica(
        stages=tuple(draw(_stages(ranks, own, micro_batch)) for own in layers),
        micro_batch=micro_batch,
        micro_batches=2 * draw(st.integers(1, 2)) if both_ways else draw(st.integers(1, 3)),
    )


@st.composite
def _layers(draw: st.DrawFn, chunks: int, both_ways: bool) -> list[tuple[range, ...]]:
    """Of each stage, its virtual stages."""
    stages = 2 if both_ways else draw(st.integers(1, 2))
    inner = st.lists(
        st.integers(2, TINY.layers), min_size=stages * chunks - 1, max_size=stages * chunks - 1, unique=True
    )
    cuts = [1, *sorted(draw(inner)), TINY.layers + 1]
    parts = [range(start, stop) for start, stop in pairwise(cuts)]
    return [tuple(parts[s::stages]) for s in range(stages)]


@st.composite
def _keeping(draw: st.DrawFn, replica: Replica) -> Replica:
    """The replica, in some of whose groups ranks keep unlike parts of what is shared out."""
    shares = st.sampled_from(((), (0.5, 3.0, 1.2)))
    stages = tuple(
        replace(stage, groups=tuple(replace(g, state_shares=draw(shares)[: len(g.ranks)]) for g in stage.groups))
        for stage in replica.stages
    )
    return replace(replica, stages=stages)


def _mixing(replica: Replica) -> Replica:
    """The replica of a model with experts, which pairs of groups that are alike share out."""
    stages = (
        replace(
            stage,
            sequence_parallel=stage.sequence_parallel or any(group.tp > 1 for group in stage.groups),
            ep=len(stage.groups) if len({(g.tp, g.cp, g.samples) for g in stage.groups}) == 1 else 1,
        )
        for stage in replica.stages
    )
    return replace(replica, stages=tuple(stages))


@st.composite
def _stages(draw: st.DrawFn, ranks: Iterator[int], layers: tuple[range, ...], micro_batch: int) -> Stage:
    own = tuple(next(ranks) for _ in range(draw(st.integers(1, 3))))
    unequal = ((1.0,), (1.0, 2.0), (1.0, 1.01, 0.99))[len(own) - 1]  # each rank has a head of three
    shares = draw(st.sampled_from(((), unequal)))
    cp = draw(st.sampled_from((1, 2))) if len(own) == 2 and not shares else 1
    groups: tuple[DeviceGroup, ...] = (DeviceGroup(ranks=own, samples=micro_batch, cp=cp, tp_shares=shares),)
    if micro_batch > 1 and len(own) > 1 and draw(st.booleans()):
        groups = (DeviceGroup(ranks=own[:1], samples=1), DeviceGroup(ranks=own[1:], samples=micro_batch - 1))
    return Stage(groups=groups, layers=layers, sequence_parallel=draw(st.booleans()))
