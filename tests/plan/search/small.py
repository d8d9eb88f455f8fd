"""Small unlike clusters, and tables of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.plan.toy import cluster, device, model
from tests.strategies import WiredSite
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.collective.ring import Ring
from xsim.plan.compute.roofline import Roofline
from xsim.plan.contracts import CollectiveAlgorithm, ComputeModel, Reshard, Schedule
from xsim.plan.reshard.lcm import Lcm
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.search.tables import ModelTables, tables
from xsim.spec.scenario import Scenario

__all__ = ["PlanningSite", "question", "tables_of"]

KINDS = {"fast": (100.0, 16.0), "slow": (50.0, 4.0), "wide": (25.0, 32.0)}  # TFLOPS, GB


@dataclass(frozen=True, slots=True)
class PlanningSite(WiredSite):
    """A site for planners that are not to simulate."""

    compute: ComputeModel = field(default_factory=Roofline)
    algorithm: CollectiveAlgorithm = field(default_factory=Ring)
    strategy: Reshard = field(default_factory=Lcm)
    schedule: Schedule = field(default_factory=OneFOneB)


def question(
    *hosts: tuple[str, int], layers: int = 6, batch: int = 16, memory: float = 1.0, hidden: int = 1024
) -> Scenario:
    """A host for each (kind, devices), whose memory is scaled."""
    kinds = tuple(device(name, KINDS[name][0], KINDS[name][1] * memory) for name, _ in hosts)
    spec = model(layers=layers, hidden=hidden, heads=16, ffn=4 * hidden, vocab=32000, seq_len=512)
    return Scenario(cluster=cluster(*(count for _, count in hosts), devices=kinds), model=spec, batch=batch)


def tables_of(scenario: Scenario, schedule: Schedule | None = None) -> ModelTables:
    """By rooflines, LCM rings and one switch."""
    fabric = OneSwitch().build(scenario.cluster)
    return tables(scenario, PlanningSite(fabric, scenario.dtype_bytes, schedule=schedule or OneFOneB()))
