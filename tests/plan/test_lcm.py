"""LCM chunks whose rings take turns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import cluster
from tests.strategies import SITE, WiredSite, disjoint_layouts, with_rings
from xsim.errors import SpecError
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.judge import verify_gather, verify_reduce, verify_reduce_scatter
from xsim.plan.layout import Layout
from xsim.plan.reshard.lcm import Lcm
from xsim.plan.shards import shard_layout


@given(many=disjoint_layouts(2, 4), most=st.integers(1, 5))
def test_rings_in_turn_do_what_rings_do(many: tuple[Layout, ...], most: int) -> None:
    lcm = Lcm(max_concurrent_rings=most)

    plan = lcm.reduce(many, SITE)
    verify_reduce(plan, many)
    verify_reduce(with_rings(plan), many)
    assert [step.span for step in plan.steps] == [step.span for step in Lcm().reduce(many, SITE).steps]
    whole = tuple(replace(layout, replicated=False) for layout in many)
    shards = shard_layout(whole)
    verify_reduce_scatter(with_rings(lcm.reduce_scatter(whole, shards, SITE)), whole, shards)
    verify_gather(with_rings(lcm.gather(shards, whole, SITE)), shards, whole)


def test_fewer_rings_at_a_time_take_longer_where_each_has_ports_of_its_own() -> None:
    """Four ranks and four: four rings of a pair each, side by side or one after another."""
    hosts = cluster(*[1] * 8)
    site = WiredSite(OneSwitch().build(hosts))
    layouts = (Layout.even(tuple(range(4)), 4_000_000), Layout.even(tuple(range(4, 8)), 4_000_000))

    times = {most: site.price(Lcm(max_concurrent_rings=most).reduce(layouts, site)) for most in (1, 2, 4, None)}

    assert times[4] == times[None]
    assert times[2] == pytest.approx(2 * times[4], rel=0.01)
    assert times[1] == pytest.approx(4 * times[4], rel=0.01)
    with pytest.raises(SpecError, match="max_concurrent_rings = 0: it must be 1 or more"):
        Lcm(max_concurrent_rings=0)
