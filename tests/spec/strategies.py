"""Any legal spec, for property tests."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from xsim.spec.cluster import (
    SCALE_UP_KINDS,
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
    DomainSpec,
    EfficiencyCurve,
    HostSpec,
    LinkSpec,
    NicSpec,
    PcieLevel,
    ScaleOutSpec,
)
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
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
    processors=st.none() | st.integers(1, 1000),
    inner_ramp=amounts,
    edge_ramp=amounts,
    attention_half_keys=st.none() | amounts,
    attention_half_queries=amounts,
    attention_backward=st.none() | fractions,
    norm=st.none() | fractions,
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
kinds = st.sampled_from(SCALE_UP_KINDS)


@st.composite
def hosts(draw: st.DrawFn) -> HostSpec:
    own = tuple(draw(st.lists(slots, min_size=1, max_size=2)))
    names = sorted({slot.domain for slot in own})
    domains = tuple(DomainSpec(name=name, scale_up=draw(kinds)) for name in names if draw(st.booleans()))
    return HostSpec(
        devices=own,
        nic=draw(nics),
        scale_up=draw(kinds),
        count=draw(counts),
        domains=domains,
        pcie_tree=draw(trees(sum(slot.count for slot in own))),
    )


@st.composite
def trees(draw: st.DrawFn, size: int) -> tuple[PcieLevel, ...]:
    """Up to two levels of blocks that divide a host of ``size`` devices."""
    levels: list[PcieLevel] = []
    for _ in range(draw(st.integers(0, 2))):
        inner = levels[-1].devices if levels else 1
        fitting = [count for count in range(2 * inner, size, inner) if size % count == 0]
        if fitting:
            levels.append(PcieLevel(devices=draw(st.sampled_from(fitting)), uplink=draw(links)))
    return tuple(levels)


clusters = st.builds(
    ClusterSpec,
    name=words,
    hosts=st.lists(hosts(), min_size=1, max_size=2).map(tuple),
    scale_out=st.builds(ScaleOutSpec, uplink=links, hosts_per_tor=counts, spines=counts),
)


@st.composite
def models(draw: st.DrawFn) -> ModelSpec:
    kv_heads, groups, width = draw(counts), draw(counts), draw(counts)
    vocab = draw(st.one_of(st.just(0), counts))
    experts = draw(st.one_of(st.just(0), counts))
    return ModelSpec(
        name=draw(words),
        layers=draw(counts),
        hidden=kv_heads * groups * width,
        heads=kv_heads * groups,
        kv_heads=kv_heads,
        ffn=draw(counts),
        vocab=vocab,
        seq_len=draw(counts),
        gated=draw(st.booleans()),
        norm=draw(st.sampled_from(("layernorm", "rmsnorm"))),
        bias=not experts and draw(st.booleans()),
        learned_positions=vocab > 0 and draw(st.booleans()),
        tied=vocab > 0 and draw(st.booleans()),
        experts=experts,
        experts_per_token=draw(st.integers(1, experts)) if experts else 0,
        expert_ffn=draw(counts) if experts else 0,
        shared_ffn=draw(counts) if experts else 0,
    )


recomputes = st.builds(Recompute, operator=words, layers=st.integers(1, 8).map(lambda first: range(first, first + 2)))


@st.composite
def plans(draw: st.DrawFn, layers: int = 8) -> DeploymentPlan:
    """Replicas over disjoint ranks from 0 up, each covering layers 1..``layers``."""
    free = iter(range(1000))
    replicas = [_replica(draw, layers, free) for _ in range(draw(st.integers(1, 3)))]
    bucket = draw(st.none() | sizes)
    names = ("serial_sync", "blocking_sends", "rendezvous", "tp_async", "tp_overlap", "gather_overlap")
    flags = {name: draw(st.booleans()) for name in names}
    zero = draw(st.integers(0, 3))
    return DeploymentPlan(
        replicas=tuple(replicas),
        name=draw(words),
        bucket_bytes=bucket,
        zero=zero,
        predicted_ps=draw(st.none() | st.integers(1, 10**15)),
        **flags,
    )


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
                micro_batch=draw(st.sampled_from((None, micro_batch))),
                ep=draw(counts),
                recompute=draw(st.lists(recomputes, max_size=2).map(tuple)),
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
        shares, kept = (
            draw(st.just(()) | st.lists(st.floats(0.1, 10), min_size=parts, max_size=parts).map(tuple))
            for parts in (tp, tp * cp)
        )
        shares = shares if cp == 1 else ()
        ranks = tuple(next(free) for _ in range(tp * cp))
        groups.append(DeviceGroup(ranks=ranks, samples=share, cp=cp, tp_shares=shares, state_shares=kept))
    return tuple(groups)
