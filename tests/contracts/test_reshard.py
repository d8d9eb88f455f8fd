"""What every resharding strategy must do, whoever wrote it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import cluster, with_trees
from tests.strategies import RANKS, SITE, WiredSite, disjoint_layouts, overlapping_layouts, with_rings
from tests.topologies import TOPOLOGIES
from xsim.fabric.fabric import Fabric
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.families import members
from xsim.plan.bound import move_bound_ps, reduce_bound_ps
from xsim.plan.comm import CommPlan, Transfer, ranks_of
from xsim.plan.contracts import Reshard
from xsim.plan.judge import verify_gather, verify_move, verify_reduce, verify_reduce_scatter
from xsim.plan.layout import Layout, pieces
from xsim.plan.shards import shard_layout

EACH = pytest.mark.parametrize("strategy", [pytest.param(cls(), id=name) for name, cls in members("reshard")])

HOSTS = (4, 1, 8, 2, 1, 8, 3, 5, 8)
FABRICS: dict[str, Fabric] = {name: each.build(cluster(*HOSTS)) for name, each in TOPOLOGIES.items()}
FABRICS["trees"] = OneSwitch().build(with_trees(cluster(*HOSTS)))
assert sum(HOSTS) == RANKS


@EACH
@given(pair=disjoint_layouts(2, 2), element_bytes=st.integers(1, 4))
def test_move_delivers(strategy: Reshard, pair: tuple[Layout, Layout], element_bytes: int) -> None:
    plan = strategy.move(*pair, SITE)

    verify_move(plan, *pair)
    verify_move(with_rings(plan, element_bytes), *pair, element_bytes)


@EACH
@given(pair=overlapping_layouts())
def test_move_delivers_where_a_rank_is_in_both(strategy: Reshard, pair: tuple[Layout, Layout]) -> None:
    plan = strategy.move(*pair, SITE)

    verify_move(plan, *pair)
    verify_move(with_rings(plan), *pair)


@EACH
@given(many=disjoint_layouts(2, 5), element_bytes=st.integers(1, 4))
def test_reduce_counts_every_group_once(strategy: Reshard, many: tuple[Layout, ...], element_bytes: int) -> None:
    plan = strategy.reduce(many, SITE)

    verify_reduce(plan, many)
    verify_reduce(with_rings(plan, element_bytes), many, element_bytes)


@EACH
@given(many=disjoint_layouts(2, 5), element_bytes=st.integers(1, 4))
def test_the_halves_of_a_sum_are_a_sum(strategy: Reshard, many: tuple[Layout, ...], element_bytes: int) -> None:
    many = cut(many)
    shards = shard_layout(many)
    scatter, gather = strategy.reduce_scatter(many, shards, SITE), strategy.gather(shards, many, SITE)

    verify_reduce_scatter(scatter, many, shards)
    verify_reduce_scatter(with_rings(scatter, element_bytes), many, shards, element_bytes)
    verify_gather(gather, shards, many)
    verify_gather(with_rings(gather, element_bytes), shards, many, element_bytes)
    verify_reduce(one_after(scatter, gather), many)


@EACH
@pytest.mark.parametrize("degree", range(1, 17))
def test_any_two_degrees(strategy: Reshard, degree: int) -> None:
    """A size that few of them divide."""
    for other in range(1, 17):
        source, target = Layout.even(tuple(range(degree)), 53), Layout.even(tuple(range(20, 20 + other)), 53)
        pair, shards = (source, target), shard_layout((source, target))
        verify_move(strategy.move(source, target, SITE), source, target)
        verify_reduce(strategy.reduce(pair, SITE), pair)
        verify_reduce_scatter(strategy.reduce_scatter(pair, shards, SITE), pair, shards)
        verify_gather(strategy.gather(shards, pair, SITE), shards, pair)


@EACH
@given(pair=disjoint_layouts(2, 2))
def test_move_sends_at_least_what_is_missing(strategy: Reshard, pair: tuple[Layout, Layout]) -> None:
    source, target = pair
    sent = int(with_rings(strategy.move(source, target, SITE)).sent_bytes().sum())

    assert sent >= sum(len(target.held(i)) for i in range(len(target.ranks)))


@EACH
@given(many=disjoint_layouts(2, 4))
def test_reduce_sends_at_least_what_a_sum_needs(strategy: Reshard, many: tuple[Layout, ...]) -> None:
    """Per element, all groups but one send to be summed and all but one receive; copies of a replica only receive."""
    sent = int(with_rings(strategy.reduce(many, SITE)).sent_bytes().sum())
    copies = sum((len(layout.ranks) - 1) * layout.size for layout in many if layout.replicated)

    assert sent >= 2 * (len(many) - 1) * many[0].size + copies


@EACH
@given(
    many=disjoint_layouts(2, 4), topology=st.sampled_from(sorted(FABRICS)), element_bytes=st.sampled_from((1, 10**6))
)
def test_nothing_is_faster_than_the_bound(
    strategy: Reshard, many: tuple[Layout, ...], topology: str, element_bytes: int
) -> None:
    """But for half a picosecond that each transfer may be rounded down."""
    site = WiredSite(FABRICS[topology])
    move, reduce = strategy.move(many[0], many[1], site), strategy.reduce(many, site)

    verify_move(move, many[0], many[1])
    verify_reduce(reduce, many)
    bound_ps = move_bound_ps(many[0], many[1], site.fabric, element_bytes)
    assert site.price(move, element_bytes) >= bound_ps - _rounded_ps(move)
    bound_ps = reduce_bound_ps(many, site.fabric, element_bytes)
    assert site.price(reduce, element_bytes) >= bound_ps - _rounded_ps(reduce)


def _rounded_ps(plan: CommPlan) -> int:
    return int(with_rings(plan).rounds.sum())


@EACH
@given(many=disjoint_layouts(2, 3))
def test_steps_are_real_and_repeatable(strategy: Reshard, many: tuple[Layout, ...]) -> None:
    halved = cut(many)
    shards = shard_layout(halved)
    halves = strategy.reduce_scatter(halved, shards, SITE), strategy.gather(shards, halved, SITE)
    for plan in (strategy.move(many[0], many[1], SITE), strategy.reduce(many, SITE), *halves):
        assert all(step.span and len(set(ranks_of(step))) > 1 for step in plan.steps)
    assert strategy.reduce(many, SITE) == strategy.reduce(many, SITE)


@EACH
def test_equal_shards_move_one_to_one(strategy: Reshard) -> None:
    source, target = Layout.even((0, 1, 2), 12), Layout.even((5, 4, 3), 12)

    moved = by_pair(strategy.move(source, target, SITE))

    assert moved == {(0, 5): range(4), (1, 4): range(4, 8), (2, 3): range(8, 12)}


@EACH
@given(many=disjoint_layouts(2, 4))
def test_a_half_sends_half_of_what_a_sum_needs(strategy: Reshard, many: tuple[Layout, ...]) -> None:
    """ZeRO, https://arxiv.org/abs/1910.02054 section 7.2.1: both halves together what an all-reduce sends, at least."""
    many = cut(many)
    shards = shard_layout(many)
    for plan in (strategy.reduce_scatter(many, shards, SITE), strategy.gather(shards, many, SITE)):
        assert int(with_rings(plan).sent_bytes().sum()) >= (len(many) - 1) * many[0].size


def cut(many: tuple[Layout, ...]) -> tuple[Layout, ...]:
    """The same without copies: gradients are cut."""
    return tuple(replace(layout, replicated=False) for layout in many)


def one_after(first: CommPlan, second: CommPlan) -> CommPlan:
    """The steps of ``second`` after all of ``first``."""
    before = tuple(range(len(first.steps)))
    moved = (replace(step, after=(*before, *(len(before) + i for i in step.after))) for step in second.steps)
    return CommPlan((*first.steps, *moved), zeros=first.zeros)


def by_pair(plan: CommPlan) -> dict[tuple[int, int], range]:
    """What goes from rank to rank; the spans of a pair follow one another."""
    spans: dict[tuple[int, int], range] = {}
    for step in plan.steps:
        assert isinstance(step, Transfer)
        earlier = spans.get((step.src, step.dst), step.span)
        (joined,) = pieces((earlier.start, step.span.stop))
        spans[step.src, step.dst] = joined
    return spans
