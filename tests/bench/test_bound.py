"""The bound of a sum among 1024 devices, cut alike and unlike; and among as many others, whose shape is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.examples import load
from xsim.fabric.topology.clos import Clos
from xsim.plan.bound import Bounds, reduce_bound_ps
from xsim.plan.layout import Layout
from xsim.spec.cluster import ClusterSpec

CLUSTER = load(ClusterSpec, "gpt3_1024")
FABRIC = Clos().build(replace(CLUSTER, hosts=(replace(CLUSTER.hosts[0], count=256),)))
SIZE = 10**9


def groups(first: int, *degrees: int) -> list[Layout]:
    layouts = []
    for degree in degrees:
        layouts.append(Layout.even(tuple(range(first, first + degree)), SIZE))
        first += degree
    return layouts


@pytest.mark.parametrize("degrees", [(8,) * 128, (1,) * 1024, (500, 524)], ids=["128x8", "1024x1", "500+524"])
def test_the_bound_of_1024_ranks(benchmark: Any, degrees: tuple[int, ...]) -> None:
    layouts = groups(0, *degrees)

    assert benchmark.pedantic(reduce_bound_ps, args=(layouts, FABRIC), rounds=5, warmup_rounds=1) > 0
    assert benchmark.stats.stats.median < 0.5


def test_a_known_shape_costs_hardly_anything(benchmark: Any) -> None:
    bounds = Bounds(FABRIC, 1)
    first = bounds.reduce_ps(groups(0, *(8,) * 128))

    assert benchmark.pedantic(bounds.reduce_ps, args=(groups(1024, *(8,) * 128),), rounds=1) == first
    assert benchmark.stats.stats.median < 0.1
