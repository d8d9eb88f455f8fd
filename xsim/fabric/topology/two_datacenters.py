"""Two Clos networks, a long way apart, with one link between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Fabric, Route
from xsim.fabric.scale_out import ScaleOut, Trunk, ports
from xsim.fabric.wiring import wire
from xsim.spec.checks import at_least
from xsim.spec.cluster import ClusterSpec, LinkSpec
from xsim.units import parse_bandwidth, parse_time

__all__ = ["TwoDatacenters"]


@dataclass(frozen=True, slots=True)
class TwoDatacenters:
    """Each datacenter has ToRs under spines and, over the spines, a border switch; the WAN joins the border switches.

    ToRs and spines are those of ``clos``, so many in each. The link between a spine and its border switch carries all
    that the ToRs can send to the spine: what comes over the WAN meets no other narrow place.

    Attributes:
        hosts: How many of the cluster's hosts stand in the first datacenter; if absent half of them, and the odd one.
        wan_bandwidth: Of one direction, with its unit.
        wan_delay: Of one direction, with its unit; light in fibre takes about 5 us per km.
    """

    hosts: int | None = None
    wan_bandwidth: str = "1.6 Tbps"
    wan_delay: str = "1 ms"

    def __post_init__(self) -> None:
        if self.hosts is not None:
            at_least(self, "hosts", 1)
        self._wan()

    def build(self, cluster: ClusterSpec) -> Fabric:
        out = cluster.scale_out
        every = ports(cluster)
        total = 1 + every[-1].host
        here = -(-total // 2) if self.hosts is None else self.hosts
        if here >= total:
            problem = f"the cluster has {total} hosts, and one at least stands in the second datacenter"
            raise SpecError("topology.hosts", here, problem, "write fewer, or choose another topology")
        tors_here = -(-here // out.hosts_per_tor)
        tor_of_port = [
            port.host // out.hosts_per_tor if port.host < here else tors_here + (port.host - here) // out.hosts_per_tor
            for port in every
        ]
        paths = _Datacenters((tors_here, 1 + tor_of_port[-1] - tors_here), out.spines)
        return wire(cluster, ScaleOut(paths.names(), paths.trunks(out.uplink, self._wan()), tor_of_port, paths))

    def _wan(self) -> LinkSpec:
        bandwidth = _read("wan_bandwidth", self.wan_bandwidth, parse_bandwidth)
        delay_ps = _read("wan_delay", self.wan_delay, parse_time)
        try:
            return LinkSpec(bandwidth_bytes_per_s=bandwidth, latency_ps=int(delay_ps))
        except SpecError as error:
            name = "wan_delay" if error.field == "latency_ps" else "wan_bandwidth"
            raise SpecError(name, getattr(self, name), error.problem, error.fix) from None


def _read(name: str, text: str, parse: Callable[[object], float]) -> float:
    try:
        return parse(text)
    except SpecError as error:
        raise error.under(name) from None


@dataclass(frozen=True, slots=True)
class _Datacenters:
    """The switches and paths: all ToRs, the spines of either datacenter, its border switch.

    Attributes:
        tors: Of either datacenter.
        spines: Of each.
    """

    tors: tuple[int, int]
    spines: int

    def names(self) -> list[str]:
        return [
            *(f"dc{side}.tor{tor}" for side in range(2) for tor in range(self.tors[side])),
            *(f"dc{side}.spine{spine}" for side in range(2) for spine in range(self.spines)),
            *(f"dc{side}.border" for side in range(2)),
        ]

    def trunks(self, uplink: LinkSpec, wan: LinkSpec) -> list[Trunk]:
        """ToRs to spines, then spines to border switches, then the WAN."""
        tors, spines = sum(self.tors), self.spines
        border = tors + 2 * spines
        sides = [0] * self.tors[0] + [1] * self.tors[1]
        wide = [replace(uplink, bandwidth_bytes_per_s=uplink.bandwidth_bytes_per_s * count) for count in self.tors]
        return [
            *(Trunk(t, tors + side * spines + s, uplink) for t, side in enumerate(sides) for s in range(spines)),
            *(Trunk(tors + side * spines + s, border + side, wide[side]) for side in range(2) for s in range(spines)),
            Trunk(border, border + 1, wan),
        ]

    def hashed(self, start: int, end: int, src: int, dst: int) -> Route:
        return self._path(start, end, ecmp(src, dst, self.spines), ecmp(src, dst, self.spines, hop=1))

    def choices(self, start: int, end: int) -> int:
        return self.spines if self._side(start) == self._side(end) else self.spines**2

    def chosen(self, start: int, end: int, choice: int) -> Route:
        return self._path(start, end, choice % self.spines, choice // self.spines)

    def _side(self, tor: int) -> int:
        return int(tor >= self.tors[0])

    def _path(self, start: int, end: int, up: int, down: int) -> Route:
        """Up by one spine and down by the other; inside a datacenter by the first."""
        here, there = self._side(start), self._side(end)
        out = 2 * (start * self.spines + up)
        if here == there:
            return out, 2 * (end * self.spines + up) + 1
        above = 2 * sum(self.tors) * self.spines  # the first link over the spines
        wan = above + 4 * self.spines
        return (
            out,
            above + 2 * (here * self.spines + up),
            wan + here,
            above + 2 * (there * self.spines + down) + 1,
            2 * (end * self.spines + down) + 1,
        )
