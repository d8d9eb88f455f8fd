"""Published measurements of collectives: which rows count, and the machine that each was taken on."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import isfinite
from pathlib import Path

from xsim.plan.comm import CollectiveKind
from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
    HostSpec,
    LinkSpec,
    NicSpec,
    PcieLevel,
    ScaleOutSpec,
    ScaleUpKind,
)
from xsim.spec.codec import from_plain

__all__ = ["KINDS", "LEAST_BYTES", "Machine", "Row", "cluster", "read"]

KINDS: Mapping[str, CollectiveKind] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
LEAST_BYTES = 2**16
NOISE = 0.2  # a larger message that takes so much less time says that the series is noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a group of rows was measured on.

    Attributes:
        device: In the device library.
        nics: Per host.
        nic: Bandwidth of each.
        network: Of several hosts; its latency is calibrated.
        scale_up: As in ``HostSpec``.
        pcie_tree: Devices that share an uplink, and its bandwidth, from the innermost level. Latencies of uplinks are
            in the delays of protocols.
    """

    device: str
    nics: int = 8
    nic: str = "400 Gbps"
    network: str = ""
    scale_up: ScaleUpKind = "nvswitch"
    pcie_tree: tuple[tuple[int, str], ...] = ()


_GB200 = Machine(device="b200", nics=72, network="InfiniBand, 400 Gbps for each device")
# Its source does not describe the host. All-reduces reach 20 GB/s among 2 ranks, 5 among 4 and 1.5 among 8, as if pairs
# shared one way and fours a narrower one. Rates: fit.
_L40S = Machine(device="l40s", scale_up="pcie", pcie_tree=((2, "8.6 GB/s"), (4, "2.45 GB/s")))
_MACHINES: Mapping[str, Machine] = {
    "aic_nccl_a100_sxm": Machine(device="a100_80"),
    "vtrain_nccl_a100": Machine(device="a100_80"),
    "vidur_a100_dgx": Machine(device="a100_80"),
    "nccl_superbench_a100": Machine(device="a100_40"),
    "stas_a100": Machine(device="a100_80"),
    "aic_nccl_h100_sxm": Machine(device="h100_80"),
    "aic_nccl_h200_sxm": Machine(device="h200"),
    "stas_gpu_sweep_h200": Machine(device="h200"),
    "stas_h200_16g": Machine(device="h200"),
    "aic_nccl_b200_sxm": Machine(device="b200"),
    "stas_gpu_sweep_b200": Machine(device="b200"),
    "stas_b200": Machine(device="b200"),
    "aic_nccl_gb200": _GB200,
    "nccl_coreweave_gb200_72": _GB200,
    "nccl_coreweave_gb200_144": _GB200,
    "aic_nccl_l40s": _L40S,
    "nccl_aws_p4de_2n": Machine(device="a100_80", nics=4, nic="100 Gbps", network="EFA, 4 x 100 Gbps"),
    "nccl_oci_h100_2n": Machine(device="h100_80", network="RoCE, 8 x 400 Gbps"),
    "nccl_gcp_a3high_2n": Machine(device="h100_80", nics=4, nic="200 Gbps", network="TCPX, 4 x 200 Gbps"),
    "nccl_gcp_a3mega_2n": Machine(device="h100_80", nics=8, nic="200 Gbps", network="TCPXO, 8 x 200 Gbps"),
}
_EXCLUDED: Mapping[str, str] = {
    "vtrain_nccl_v100": "a hybrid cube mesh, which the simulator does not have",
    "vidur_a100_pairwise_nvlink": "NVLink in pairs only, which the simulator does not have",
    "vidur_h100_pairwise_nvlink": "NVLink in pairs only, which the simulator does not have",
    "aceso_prims_A100-40": "what its sizes count is unclear",
    "aceso_prims_GH-96": "what its sizes count is unclear",
    "galvatron": "what its sizes count is unclear, the machine is not stated",
    "flagperf_interconnect": "one figure without a size, in a convention of its own",
    "nccl_coreweave_gb200_1440": "1440 ranks",
    "issue_nccl1161_h100pcie": "an NVLink bridge between two cards, read in an excerpt",
    "issue_nccltests232_h100": "the algorithm was forced",
    "issue_nccltests252": "the algorithm was forced",
    "issue_nccl1453_degraded": "reported because the fabric was out of order",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement.

    Attributes:
        group, source: Where it is from.
        versioned: Whether the source states the version of NCCL.
    """

    group: str
    source: str
    kind: CollectiveKind
    ranks: int
    hosts: int
    size_bytes: int
    time_us: float
    versioned: bool

    @property
    def machine(self) -> Machine:
        """What it was measured on."""
        return _MACHINES[self.group]

    @property
    def held_out_by_size(self) -> bool:
        """Every second power of two."""
        return self.size_bytes.bit_length() % 2 == 0

    @property
    def held_out(self) -> bool:
        """Whether no generation's fit sees it: half of the sizes, and what states no version of NCCL."""
        return self.held_out_by_size or not self.versioned


def read(path: Path) -> tuple[tuple[Row, ...], Mapping[str, tuple[int, str]]]:
    """The rows that count, and of each group the others: how many, and why they do not."""
    kept: list[Row] = []
    left: defaultdict[str, list[str]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for raw in csv.DictReader(file):
            reason = _refused(raw)
            if reason is None:
                kept.append(_row(raw))
            elif reason:
                left[raw["group"]].append(reason)
    rows, noisy = _without_noise(kept)
    for row in noisy:
        left[row.group].append(f"a larger message took {NOISE:.0%} less time: noise")
    return rows, {group: (len(why), "; ".join(sorted(set(why)))) for group, why in sorted(left.items())}


def _refused(raw: Mapping[str, str]) -> str | None:
    """Why a row does not count; empty if it was not asked for, none if it counts."""
    if "SUSPECT" in raw["notes"] or "IDENTICAL" in raw["notes"]:
        return "flagged as not to be trusted"
    if raw["group"] in _EXCLUDED:
        return _EXCLUDED[raw["group"]]
    if raw["collective"] not in KINDS or float(raw["bytes"] or 0) < LEAST_BYTES:
        return ""
    if raw["group"] not in _MACHINES:
        return "unknown machine"
    if not _MACHINES[raw["group"]].network and int(raw["nodes"]) > 1:
        return "the network is not stated"
    return "the algorithm was forced" if "NVLS off" in raw["notes"] else None


def _row(raw: Mapping[str, str]) -> Row:
    """ValueError unless it says what was measured, on hosts of as many ranks each."""
    ranks, time_us = int(raw["gpus"]), float(raw["time_us"])
    hosts = -(-ranks // 72) if "NVL72" in raw["link"] else int(raw["nodes"])
    if not (isfinite(time_us) and time_us > 0):
        raise ValueError(f"{raw['source']}: time_us = {raw['time_us']} is no time")
    if ranks < 2 or hosts < 1 or ranks % hosts:
        raise ValueError(f"{raw['source']}: {ranks} gpus cannot be dealt out to {hosts} nodes")
    return Row(
        group=raw["group"],
        source=raw["source"],
        kind=KINDS[raw["collective"]],
        ranks=ranks,
        hosts=hosts,
        size_bytes=int(float(raw["bytes"])),
        time_us=time_us,
        versioned=bool(re.search(r"nccl \d", raw["notes"], re.IGNORECASE)),
    )


def _without_noise(rows: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Series (one source file, kind and number of ranks) in which time grows with size, and the rows of the others."""

    def series(row: Row) -> tuple[str, str, str, int, int]:
        return row.group, re.sub(r"#L\d+$", "", row.source), row.kind, row.ranks, row.hosts

    kept: list[Row] = []
    noisy: list[Row] = []
    for _, found in groupby(sorted(rows, key=lambda row: (series(row), row.size_bytes)), key=series):
        own = list(found)
        falls = any(b.time_us < (1 - NOISE) * a.time_us for a, b in pairwise(own))
        (noisy if falls else kept).extend(own)
    return tuple(kept), tuple(noisy)


def cluster(machine: Machine, ranks: int, hosts: int, nic_latency_ps: int | None = None) -> ClusterSpec:
    """So many ranks, spread evenly over the hosts, of a machine.

    Args:
        nic_latency_ps: Of a port of its NICs, if it is not 1 us.
    """
    per_host = ranks // hosts
    nic = from_plain(NicSpec, {"bandwidth": machine.nic, "latency": "1 us", "per_host": min(machine.nics, per_host)})
    if nic_latency_ps is not None:
        nic = replace(nic, latency_ps=nic_latency_ps)
    slot = DeviceSlot(device=from_plain(DeviceSpec, machine.device), count=per_host)
    tree = tuple(_level(*level) for level in machine.pcie_tree if level[0] < per_host)
    host = HostSpec(count=hosts, devices=(slot,), nic=nic, scale_up=machine.scale_up, pcie_tree=tree)
    uplink = from_plain(LinkSpec, {"bandwidth": "3200 Gbps", "latency": "1 ns"})
    return ClusterSpec(name="measured", hosts=(host,), scale_out=ScaleOutSpec(uplink=uplink, hosts_per_tor=hosts))


def _level(devices: int, bandwidth: str) -> PcieLevel:
    return PcieLevel(devices=devices, uplink=from_plain(LinkSpec, {"bandwidth": bandwidth, "latency": "0 ns"}))
