"""Inputs for property tests, and small stand-ins for what a member is given besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
from hypothesis import strategies as st

from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.transfers import TransferGraph
from xsim.families import Members
from xsim.plan.collective.ring import Ring
from xsim.plan.comm import Collective, CollectiveKind, CommPlan, in_bytes, lower_plan
from xsim.plan.contracts import Estimate
from xsim.plan.layout import Layout
from xsim.sim.network.flow import Flow
from xsim.spec.cluster import DeviceSpec
from xsim.spec.codec import from_plain
from xsim.spec.deployment import DeploymentPlan

__all__ = [
    "FABRIC",
    "SITE",
    "WiredSite",
    "collectives",
    "disjoint_layouts",
    "layouts_on",
    "overlapping_layouts",
    "rank_tuples",
    "with_rings",
]

DEVICES_PER_HOST = 4
RANKS = 40

FABRIC = Fabric(
    bandwidth_bytes_per_s=np.ones(1),
    latency_ps=np.zeros(1, dtype=np.int64),
    links=(Link("wire", "scale_up"),),
    hosts=tuple(rank // DEVICES_PER_HOST for rank in range(RANKS)),
    router=lambda _src, _dst: (0,),
    switches=tuple(rank // DEVICES_PER_HOST for rank in range(RANKS)),
)

DEVICE = from_plain(DeviceSpec, "h100_80")


@dataclass(frozen=True, slots=True)
class StandInSite(Members):
    """A site with wires and no opinions."""

    fabric: Fabric = FABRIC
    element_bytes: int = 1

    def device(self, rank: int) -> DeviceSpec:
        return DEVICE

    def price(self, plan: CommPlan, element_bytes: int = 1) -> int:
        return 0

    def fair_ps(self, graph: TransferGraph) -> int:
        return Flow().open(self.fabric, 0).solo(in_bytes(graph, self.element_bytes))

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        return Estimate(training_time_ps=0, fits=True)


@dataclass(frozen=True, slots=True)
class WiredSite(StandInSite):
    """A site that prices plans with rings, on links that flows share fairly."""

    def price(self, plan: CommPlan, element_bytes: int = 1) -> int:
        def expand(step: Collective) -> TransferGraph:
            return Ring().expand(step, self)

        graph = lower_plan(plan, (plan.participants(),), expand, element_bytes)
        return Flow().open(self.fabric, 0).solo(graph)


SITE = StandInSite()


def with_rings(plan: CommPlan, element_bytes: int = 1) -> TransferGraph:
    """``plan`` lowered with rings, all ranks in one party."""
    return lower_plan(plan, (range(RANKS),), lambda step: Ring().expand(step, SITE), element_bytes)


def rank_tuples(most: int, below: int = RANKS) -> st.SearchStrategy[tuple[int, ...]]:
    """1 to ``most`` distinct ranks in any order."""
    return st.lists(st.integers(0, below - 1), min_size=1, max_size=most, unique=True).map(tuple)


@st.composite
def layouts_on(draw: st.DrawFn, ranks: tuple[int, ...], size: int) -> Layout:
    """A layout of ``size`` elements on ``ranks``: even three times in four, replicated one time in three."""
    replicated = draw(st.sampled_from([False, False, True]))
    if draw(st.sampled_from([True, True, True, False])):
        return Layout.even(ranks, size, replicated=replicated)
    inner = draw(st.lists(st.integers(0, size), min_size=len(ranks) - 1, max_size=len(ranks) - 1))
    return Layout(ranks, (0, *sorted(inner), size), replicated)


@st.composite
def disjoint_layouts(draw: st.DrawFn, least: int = 2, most: int = 4) -> tuple[Layout, ...]:
    """Layouts of one tensor of any size, each on 1 to 8 shuffled ranks that no other has."""
    size = draw(st.integers(1, 60))
    degrees = draw(st.lists(st.integers(1, 8), min_size=least, max_size=most))
    pool = iter(draw(st.permutations(range(RANKS))))
    return tuple(draw(layouts_on(tuple(next(pool) for _ in range(degree)), size)) for degree in degrees)


@st.composite
def overlapping_layouts(draw: st.DrawFn) -> tuple[Layout, Layout]:
    """Two layouts of one tensor, on ranks of which some hold a part in both."""
    size = draw(st.integers(1, 60))
    source, target = (draw(layouts_on(draw(rank_tuples(8, below=10)), size)) for _ in range(2))
    return source, target


@st.composite
def collectives(draw: st.DrawFn) -> Collective:
    """Any kind, on 1 to 17 ranks in any order, on a span of any size and place, evenly cut or not."""
    ranks, start, size = draw(rank_tuples(17)), draw(st.integers(0, 5)), draw(st.integers(0, 60))
    kind: CollectiveKind = draw(st.sampled_from(get_args(CollectiveKind)))
    root = draw(st.integers(0, len(ranks) - 1)) if kind in {"broadcast", "reduce"} else None
    span, cuts = range(start, start + size), None
    if draw(st.booleans()):
        inner = st.lists(st.integers(start, start + size), min_size=len(ranks) - 1, max_size=len(ranks) - 1)
        cuts = (start, *sorted(draw(inner)), start + size)
    shares: tuple[int, ...] = ()
    if kind == "all_to_all" and draw(st.booleans()):
        shares = tuple(draw(st.lists(st.integers(0, 9), min_size=len(ranks), max_size=len(ranks))))
    return Collective(kind, ranks, span, root=root, cuts=cuts, shares=shares)
