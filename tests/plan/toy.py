"""Small clusters and models to plan for."""

from __future__ import annotations

from dataclasses import replace

from tests.strategies import StandInSite
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.collective.ring import Ring
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import Schedule
from xsim.plan.lower import lower
from xsim.plan.reshard.lcm import Lcm
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.workload import Workload
from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
    EfficiencyCurve,
    HostSpec,
    LinkSpec,
    NicSpec,
    PcieLevel,
    ScaleOutSpec,
)
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario, check_deployment

GB_PER_S = 1e9
US = 1_000_000


def device(name: str = "toy", tflops: float = 100.0, memory_gb: float = 80.0) -> DeviceSpec:
    """A device without overheads that reaches its peaks."""
    return DeviceSpec(
        name=name,
        peak_flops_per_s=(("bf16", tflops * 1e12), ("fp32", tflops * 5e11)),
        memory_bytes=int(memory_gb * 1e9),
        memory_bandwidth_bytes_per_s=1000 * GB_PER_S,
        pcie=LinkSpec(bandwidth_bytes_per_s=32 * GB_PER_S, latency_ps=US),
        efficiency=EfficiencyCurve(matmul=1.0, attention=1.0, memory=1.0, half_flops=0.0),
        power_w=400.0,
        idle_power_w=50.0,
        price_usd=10000.0,
        price_usd_per_hour=1.0,
        scale_up=LinkSpec(bandwidth_bytes_per_s=300 * GB_PER_S, latency_ps=US),
    )


def cluster(*counts: int, devices: tuple[DeviceSpec, ...] = ()) -> ClusterSpec:
    """One host per count, each with that many equal devices."""
    kinds = devices or (device(),) * len(counts)
    nic = NicSpec(bandwidth_bytes_per_s=50 * GB_PER_S, latency_ps=US)
    return ClusterSpec(
        name="toy",
        hosts=tuple(
            HostSpec(devices=(DeviceSlot(device=kind, count=count),), nic=nic)
            for kind, count in zip(kinds, counts, strict=True)
        ),
        scale_out=ScaleOutSpec(uplink=LinkSpec(bandwidth_bytes_per_s=100 * GB_PER_S, latency_ps=US)),
    )


def with_trees(hardware: ClusterSpec) -> ClusterSpec:
    """Its hosts without scale-up: pairs, and in hosts of 8 fours, share uplinks of 16 and 4 GB/s."""
    uplinks = {2: 16, 4: 4}
    tree = tuple(
        PcieLevel(devices=devices, uplink=LinkSpec(bandwidth_bytes_per_s=rate * GB_PER_S, latency_ps=US))
        for devices, rate in uplinks.items()
    )
    levels = {4: tree[:1], 8: tree}
    hosts = tuple(replace(host, scale_up="pcie", pcie_tree=levels.get(host.size, ())) for host in hardware.hosts)
    return replace(hardware, hosts=hosts)


def model(
    *,
    layers: int = 4,
    hidden: int = 64,
    heads: int = 8,
    kv_heads: int | None = None,
    ffn: int = 256,
    vocab: int = 1000,
    seq_len: int = 32,
    gated: bool = False,
    tied: bool = True,
) -> ModelSpec:
    """A GPT, or with ``gated`` a Llama without its sizes."""
    return ModelSpec(
        name="toy",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads or heads,
        ffn=ffn,
        vocab=vocab,
        seq_len=seq_len,
        gated=gated,
        norm="rmsnorm" if gated else "layernorm",
        bias=not gated,
        learned_positions=not gated,
        tied=tied,
    )


def stage(*groups: tuple[int, ...], layers: range, samples: int = 1, sequence_parallel: bool = False) -> Stage:
    """Groups of ranks that take ``samples`` each."""
    return Stage(
        groups=tuple(DeviceGroup(ranks=ranks, samples=samples) for ranks in groups),
        layers=(layers,),
        sequence_parallel=sequence_parallel,
    )


def plan(*pipelines: tuple[Stage, ...], micro_batches: int = 4, bucket_bytes: int | None = None) -> DeploymentPlan:
    """A replica per pipeline."""
    return DeploymentPlan(
        replicas=tuple(
            Replica(stages=stages, micro_batch=stages[0].samples, micro_batches=micro_batches) for stages in pipelines
        ),
        bucket_bytes=bucket_bytes,
    )


def scenario(hardware: ClusterSpec, spec: ModelSpec, deployment: DeploymentPlan) -> Scenario:
    """The deployment's own batch."""
    return Scenario(cluster=hardware, model=spec, batch=deployment.samples, deployment=deployment)


def lowered(question: Scenario, schedule: Schedule | None = None) -> Workload:
    """The workload of the scenario's own deployment, by LCM rings."""
    assert question.deployment is not None
    return lower(
        question,
        check_deployment(question.deployment, question),
        schedule=schedule or GPipe(),
        reshard=Lcm(),
        collective=Ring(),
        compute=Roofline(),
        site=StandInSite(OneSwitch().build(question.cluster), question.dtype_bytes),
    ).workload
