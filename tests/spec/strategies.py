"""Any legal spec, for property tests."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from xsim.spec.cluster import (
    SCALE_UP_KINDS,
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
    EfficiencyCurve,
    HostSpec,
    LinkSpec,
    NicSpec,
    ScaleOutSpec,
)
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec

counts = st.integers(1, 4)
rates = st.floats(1e6, 1e18)
times = st.integers(0, 10**15)
sizes = st.integers(1, 2**63 - 1)
fractions = st.floats(0.001, 1.0)
amounts = st.floats(0.0, 1e9)
words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs", "Cf", "Co", "Cn")))
DTYPES = ("bf16", "fp16", "fp32", "fp8", "tf32")

links = st.builds(LinkSpec, bandwidth_bytes_per_s=rates, latency_ps=times)
nics = st.builds(NicSpec, bandwidth_bytes_per_s=rates, latency_ps=times, per_host=st.none() | st.just(1))
curves = st.builds(
    EfficiencyCurve,
    matmul=fractions,
    attention=fractions,
    memory=fractions,
    half_flops=amounts,
    attention_half_flops=st.none() | amounts,
    overhead_ps=times,
)
peaks = st.dictionaries(st.sampled_from(DTYPES), rates, min_size=1).map(lambda found: tuple(sorted(found.items())))
devices = st.builds(
    DeviceSpec,
    name=words,
    peak_flops_per_s=peaks,
    memory_bytes=sizes,
    memory_bandwidth_bytes_per_s=rates,
    pcie=links,
    efficiency=curves,
    power_w=rates,
    idle_power_w=amounts,
    price_usd=amounts,
    price_usd_per_hour=amounts,
    scale_up=links,
    rate_flops_per_s=st.none() | rates,
)
slots = st.builds(
    DeviceSlot,
    device=devices,
    count=counts,
    domain=words,
    pcie=st.none() | links,
    scale_up=st.none() | links,
    rate_flops_per_s=st.none() | rates,
)
hosts = st.builds(
    HostSpec,
    devices=st.lists(slots, min_size=1, max_size=2).map(tuple),
    nic=nics,
    scale_up=st.sampled_from(SCALE_UP_KINDS),
    count=counts,
)
clusters = st.builds(
    ClusterSpec,
    name=words,
    hosts=st.lists(hosts, min_size=1, max_size=2).map(tuple),
    scale_out=st.builds(ScaleOutSpec, uplink=links, hosts_per_tor=counts, spines=counts),
)


@st.composite
def models(draw: st.DrawFn) -> ModelSpec:
    kv_heads, groups, width = draw(counts), draw(counts), draw(counts)
    return ModelSpec(
        name=draw(words),
        layers=draw(counts),
        hidden=kv_heads * groups * width,
        heads=kv_heads * groups,
        kv_heads=kv_heads,
        ffn=draw(counts),
        vocab=draw(counts),
        seq_len=draw(counts),
        gated=draw(st.booleans()),
        norm=draw(st.sampled_from(("layernorm", "rmsnorm"))),
        bias=draw(st.booleans()),
        learned_positions=draw(st.booleans()),
        tied=draw(st.booleans()),
    )


@st.composite
def plans(draw: st.DrawFn, layers: int = 8) -> DeploymentPlan:
    """Replicas over disjoint ranks from 0 up, each covering layers 1..``layers``."""
    free = iter(range(1000))
    replicas = [_replica(draw, layers, free) for _ in range(draw(st.integers(1, 3)))]
    bucket = draw(st.none() | sizes)
    return DeploymentPlan(replicas=tuple(replicas), name=draw(words), bucket_bytes=bucket)


def _replica(draw: st.DrawFn, layers: int, free: Iterator[int]) -> Replica:
    chunks = draw(st.integers(1, 2))
    parts = chunks * draw(st.integers(1, layers // chunks))
    inner = draw(st.lists(st.integers(2, layers), min_size=parts - 1, max_size=parts - 1, unique=True).map(sorted))
    cuts = [1, *inner, layers + 1]
    micro_batch = draw(counts)
    stages = parts // chunks
    return Replica(
        stages=tuple(
            Stage(
                groups=_groups(draw, micro_batch, free),
                layers=tuple(range(cuts[c * stages + i], cuts[c * stages + i + 1]) for c in range(chunks)),
                sequence_parallel=draw(st.booleans()),
            )
            for i in range(stages)
        ),
        micro_batch=micro_batch,
        micro_batches=draw(counts),
    )


def _groups(draw: st.DrawFn, micro_batch: int, free: Iterator[int]) -> tuple[DeviceGroup, ...]:
    count = draw(st.integers(1, min(2, micro_batch)))
    samples = [micro_batch] if count == 1 else [1, micro_batch - 1]
    groups = []
    for share in samples:
        tp, cp = draw(counts), draw(st.integers(1, 2))
        groups.append(DeviceGroup(ranks=tuple(next(free) for _ in range(tp * cp)), samples=share, cp=cp))
    return tuple(groups)
