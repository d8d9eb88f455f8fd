"""How long one measured collective takes when it is simulated: ``auto`` on the wires that it was measured on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from runners.measured import Machine, Row, cluster
from xsim.errors import PlanError
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.fabric.transfers import TransferGraph
from xsim.families import Members
from xsim.plan.collective.auto import Auto
from xsim.plan.comm import Collective, CommPlan, in_bytes
from xsim.plan.contracts import Estimate
from xsim.plan.forecast import Forecast
from xsim.plan.wires import lower_comm
from xsim.sim.network.flow import Flow
from xsim.spec.cluster import ClusterSpec, DeviceSpec, rank_devices
from xsim.spec.deployment import DeploymentPlan

__all__ = ["forecast_us", "graph_of_row", "simulated_us"]


def simulated_us(row: Row, nic_latency_ps: int | None) -> float:
    """Microseconds of the row's collective by ``auto``, all ranks starting together, by the network ``flow``."""
    fabric, graph = _graph(row, nic_latency_ps)
    return Flow().open(fabric, 0).solo(graph) * 1e-6


def forecast_us(row: Row, nic_latency_ps: int | None) -> float:
    """The same without simulating it."""
    fabric, graph = _graph(row, nic_latency_ps)
    return Forecast.of(graph, fabric).time_ps(graph.delay_ps, graph.wire_ppm) * 1e-6


def graph_of_row(row: Row) -> tuple[Fabric, TransferGraph]:
    """The wires of a row of one host, and its collective by ``auto``."""
    return _graph(row, None)


def _graph(row: Row, nic_latency_ps: int | None) -> tuple[Fabric, TransferGraph]:
    site = _site(row.machine, row.ranks, row.hosts, nic_latency_ps)
    span_bytes = row.size_bytes * (row.ranks if row.kind == "all_to_all" else 1)  # it counts what one rank sends
    collective = Collective(row.kind, tuple(range(row.ranks)), range(span_bytes))
    return site.fabric, Auto().expand(collective, site)


@cache
def _site(machine: Machine, ranks: int, hosts: int, nic_latency_ps: int | None) -> _Bench:
    spec = cluster(machine, ranks, hosts, nic_latency_ps)
    return _Bench(spec, OneSwitch().build(spec))


@dataclass(frozen=True, slots=True)
class _Bench(Members):
    """A site without a scenario: wires, devices, and the members that need no more."""

    cluster: ClusterSpec
    fabric: Fabric
    element_bytes: int = 1

    def device(self, rank: int) -> DeviceSpec:
        return rank_devices(self.cluster)[rank]

    def price(self, plan: CommPlan, element_bytes: int = 1) -> int:
        site = replace(self, element_bytes=element_bytes)
        graph = lower_comm(plan, [plan.participants()], collective=Auto(), site=site)
        return Flow().open(self.fabric, 0).solo(graph)

    def fair_ps(self, graph: TransferGraph) -> int:
        return Flow().open(self.fabric, 0).solo(in_bytes(graph, self.element_bytes))

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        raise PlanError(f"a collective alone simulates no deployment, such as {deployment}")
