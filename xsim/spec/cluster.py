"""What stands in the racks: devices, hosts, links (paper section 4.1, abstraction A2).

Ranks are numbered in host order, then in device order within the host. Link rates are per direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from xsim.errors import SpecError
from xsim.spec.checks import at_least
from xsim.spec.device import DeviceSpec, EfficiencyCurve, LinkSpec, check_link, check_rate

__all__ = [
    "ClusterSpec",
    "DeviceSlot",
    "DeviceSpec",
    "DomainSpec",
    "EfficiencyCurve",
    "HostSpec",
    "LinkSpec",
    "NicSpec",
    "PcieLevel",
    "ScaleOutSpec",
    "rank_devices",
    "rank_hosts",
    "rank_kinds",
    "rank_slots",
]

ScaleUpKind = Literal["nvswitch", "full_mesh", "pcie"]
SCALE_UP_KINDS: tuple[ScaleUpKind, ...] = ("nvswitch", "full_mesh", "pcie")
LARGEST_RANKS = 2**20  # more would only exhaust memory
LARGEST_UPLINKS = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlot:
    """``count`` equal devices of a host that share one scale-up domain.

    Attributes:
        domain: Name of the scale-up domain; slots with equal names are joined by one fabric.
        pcie: Overrides the device's own PCIe port (a Gen5 card in a Gen4 slot).
        scale_up: Overrides the device's own scale-up port.
        rate_flops_per_s: Overrides the device's own explicit rate.
    """

    device: DeviceSpec
    count: int
    domain: str = "0"
    pcie: LinkSpec | None = None
    scale_up: LinkSpec | None = None
    rate_flops_per_s: float | None = None

    def __post_init__(self) -> None:
        at_least(self, "count", 1)
        check_rate(self)

    @property
    def rated_device(self) -> DeviceSpec:
        """The device, with the explicit rate that counts: it is that under load, whatever the clock."""
        if self.rate_flops_per_s is None:
            return self.device
        return replace(self.device, rate_flops_per_s=self.rate_flops_per_s, speed=1.0)

    @property
    def pcie_link(self) -> LinkSpec:
        """The PCIe port that counts."""
        return self.pcie or self.device.pcie

    @property
    def scale_up_link(self) -> LinkSpec | None:
        """The scale-up port that counts."""
        return self.scale_up or self.device.scale_up


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSpec:
    """The network interfaces of a host, all alike.

    Attributes:
        per_host: How many the host has; its devices share them in contiguous blocks. Absent: one per device.
    """

    bandwidth_bytes_per_s: float
    latency_ps: int
    per_host: int | None = None

    def __post_init__(self) -> None:
        check_link(self)
        if self.per_host is not None:
            at_least(self, "per_host", 1)

    @property
    def link(self) -> LinkSpec:
        """One direction of the port."""
        return LinkSpec(bandwidth_bytes_per_s=self.bandwidth_bytes_per_s, latency_ps=self.latency_ps)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSpec:
    """The fabric of one scale-up domain, where it differs from that of the host's others."""

    name: str
    scale_up: ScaleUpKind

    def __post_init__(self) -> None:
        _check_kind(self.scale_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLevel:
    """One level of a host's PCIe tree: a switch, or a socket, for each block of so many devices, in device order.

    Attributes:
        uplink: What the devices of a block share towards the level above, one direction.
    """

    devices: int
    uplink: LinkSpec

    def __post_init__(self) -> None:
        at_least(self, "devices", 2)


def _check_kind(kind: str) -> None:
    if kind not in SCALE_UP_KINDS:
        raise SpecError("scale_up", kind, "this fabric is unknown", f"choose one of {', '.join(SCALE_UP_KINDS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """``count`` equal hosts; one host may hold unlike devices.

    Attributes:
        scale_up: Fabric of each domain: ``nvswitch`` (any pair at full port rate), ``full_mesh`` (a port's rate is
            split evenly over its peers), ``pcie`` (no scale-up fabric: through the PCIe tree).
        domains: Those that have another fabric.
        pcie_tree: The levels of its PCIe tree, from the devices up; above the last is one ideal root. Empty: there are
            none, and every device is at the root.
    """

    devices: tuple[DeviceSlot, ...]
    nic: NicSpec
    scale_up: ScaleUpKind = "nvswitch"
    count: int = 1
    domains: tuple[DomainSpec, ...] = ()
    pcie_tree: tuple[PcieLevel, ...] = ()

    def __post_init__(self) -> None:
        at_least(self, "count", 1)
        if not self.devices:
            raise SpecError("devices", [], "a host needs a device", "write devices: [{device: h100_80, count: 8}]")
        _check_kind(self.scale_up)
        if self.nic.per_host is not None and self.nic.per_host > self.size:
            raise SpecError(
                "nic.per_host", self.nic.per_host, f"more than the host's {self.size} devices", "leave it out"
            )
        self._check_domains()
        self._check_tree()
        for index, slot in enumerate(self.devices):
            needs_port = self.scale_up_of(slot.domain) != "pcie" and self.domain_size(slot.domain) > 1
            if needs_port and slot.scale_up_link is None:
                problem = f"{slot.device.name} has no scale-up port"
                fix = "write scale_up: pcie for the host or for this domain, or a link"
                raise SpecError(f"devices[{index}].scale_up", None, problem, fix)

    def _check_domains(self) -> None:
        known = sorted({slot.domain for slot in self.devices})
        for index, domain in enumerate(self.domains):
            if domain.name not in known:
                problem = "no device of the host is in it"
                raise SpecError(f"domains[{index}].name", domain.name, problem, f"choose one of {', '.join(known)}")
            if domain.name in [other.name for other in self.domains[:index]]:
                raise SpecError(f"domains[{index}].name", domain.name, "it is listed twice", "list each domain once")

    def _check_tree(self) -> None:
        inner = 1
        for index, level in enumerate(self.pcie_tree):
            if not _fits(level.devices, inner, self.size):
                holds = "it must divide" if inner == 1 else f"it must be whole blocks of {inner} and divide"
                fitting = [str(count) for count in range(2, self.size) if _fits(count, inner, self.size)]
                fix = f"choose one of {', '.join(fitting)}" if fitting else "leave the level out"
                problem = f"{holds} the host's {self.size} devices into two blocks or more"
                raise SpecError(f"pcie_tree[{index}].devices", level.devices, problem, fix)
            inner = level.devices

    def scale_up_of(self, domain: str) -> ScaleUpKind:
        """The fabric of one of its domains."""
        return next((own.scale_up for own in self.domains if own.name == domain), self.scale_up)

    @property
    def size(self) -> int:
        """Devices in one such host."""
        return sum(slot.count for slot in self.devices)

    def domain_size(self, domain: str) -> int:
        """Devices in one scale-up domain."""
        return sum(slot.count for slot in self.devices if slot.domain == domain)


def _fits(devices: int, inner: int, size: int) -> bool:
    """Whether blocks of ``devices`` are several blocks of ``inner``, and several of them make ``size``."""
    return inner < devices < size and devices % inner == 0 and size % devices == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOutSpec:
    """What joins the hosts.

    Attributes:
        uplink: One link from a ToR (or rail) switch to one spine switch, one direction.
        hosts_per_tor: Hosts under one ToR.
        spines: Spine switches; every ToR has one uplink to each.
    """

    uplink: LinkSpec
    hosts_per_tor: int = 1
    spines: int = 1

    def __post_init__(self) -> None:
        at_least(self, "hosts_per_tor", 1)
        at_least(self, "spines", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """Hosts and what joins them."""

    name: str
    hosts: tuple[HostSpec, ...]
    scale_out: ScaleOutSpec

    def __post_init__(self) -> None:
        if not self.hosts:
            raise SpecError("hosts", [], "a cluster needs a host", "list one under hosts")
        if self.ranks > LARGEST_RANKS:
            raise SpecError("hosts", self.ranks, f"more than {LARGEST_RANKS} ranks", "lower the counts")
        tors = -(-sum(host.count for host in self.hosts) // self.scale_out.hosts_per_tor)
        if tors * self.scale_out.spines > LARGEST_UPLINKS:
            problem = f"with {tors} ToRs that is more than {LARGEST_UPLINKS} uplinks"
            raise SpecError("scale_out.spines", self.scale_out.spines, problem, "lower it, or raise hosts_per_tor")

    @property
    def ranks(self) -> int:
        """How many devices there are."""
        return sum(host.count * host.size for host in self.hosts)

    def each_host(self) -> Iterator[HostSpec]:
        """Every host once, in rank order."""
        for host in self.hosts:
            for _ in range(host.count):
                yield host


@lru_cache(maxsize=16)
def rank_slots(cluster: ClusterSpec) -> tuple[DeviceSlot, ...]:
    """The slot of each rank."""
    return tuple(slot for host in cluster.each_host() for slot in host.devices for _ in range(slot.count))


@lru_cache(maxsize=16)
def rank_devices(cluster: ClusterSpec) -> tuple[DeviceSpec, ...]:
    """The device of each rank."""
    rated = {slot: slot.rated_device for host in cluster.hosts for slot in host.devices}
    return tuple(rated[slot] for slot in rank_slots(cluster))


@lru_cache(maxsize=16)
def rank_kinds(cluster: ClusterSpec) -> tuple[str, ...]:
    """The kind of device of each rank: its name, and of unlike ones of a name, but for the fastest, the speed too.

    Unlike ones of one speed are told apart by numbers.
    """
    kinds: dict[DeviceSpec, str] = {}
    for device in sorted(dict.fromkeys(rank_devices(cluster)), key=lambda device: -device.speed):
        taken = set(kinds.values())
        other = f"{device.name}@{device.speed:g}"
        numbered = (f"{other}#{number}" for number in range(2, len(taken) + 3))
        kinds[device] = next(name for name in (device.name, other, *numbered) if name not in taken)
    return tuple(kinds[device] for device in rank_devices(cluster))


@lru_cache(maxsize=16)
def rank_hosts(cluster: ClusterSpec) -> tuple[int, ...]:
    """The host of each rank, hosts numbered from 0."""
    return tuple(index for index, host in enumerate(cluster.each_host()) for _ in range(host.size))
