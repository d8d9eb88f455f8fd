"""Whose state a rank keeps when data-parallel ranks share it out (ZeRO, https://arxiv.org/abs/1910.02054)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from heapq import nlargest
from itertools import pairwise

from xsim.plan.gradients import bucket_elements, gradient_buckets, gradient_layout
from xsim.plan.groups import Holder
from xsim.plan.mixture import experts_of
from xsim.plan.route import Order, scheduled
from xsim.plan.shards import shard_layout
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario
from xsim.spec.shares import share_cuts

__all__ = ["Kept", "kept_states", "state_shares"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What one rank keeps.

    Attributes:
        parameters: Which it updates, and whose optimizer state it keeps: its shards, and what no other group holds.
        tp_parameters: Its part of what its group holds; without sharding it updates all of them.
        bucket: Of its largest gradient bucket, before it is cut into shards.
        needed: Of the stretch of layers that has most which are shared out: with sharded weights they are whole while a
            micro-batch passes it; of two where the next is gathered meanwhile.
    """

    parameters: int
    tp_parameters: int
    bucket: int
    needed: int


def state_shares(plan: DeploymentPlan) -> Mapping[int, Fraction]:
    """By rank what it keeps of shared states, in proportion; those that are not there keep a share of 1."""
    return {
        rank: Fraction(repr(share))
        for _, group in plan.groups()
        for rank, share in zip(group.ranks, group.state_shares, strict=False)
    }


def _at_once(stretches: Iterable[int], *, prefetch: bool) -> int:
    """The most that is whole at a time: what is in use and, with ``prefetch``, the next, maybe the same again."""
    largest = nlargest(2, stretches)
    return sum(largest if len(largest) > 1 else 2 * largest) if prefetch else max(largest, default=0)


def kept_states(scenario: Scenario, plan: DeploymentPlan, order: Order) -> Mapping[int, Kept]:
    """By rank of ``plan``, which has its ends, what it keeps if gradient buckets are cut into shards.

    Args:
        order: A schedule's order of actions: in a bidirectional one a stage holds the layers of the mirrored one too.
    """
    stages = [stage for _, _, stage, _ in scheduled(plan, order)]
    model = scenario.model
    groups = [
        (part, layers, experts_of(model.experts, stage.ep, number % stage.ep))
        for stage in stages
        for number, group in enumerate(stage.groups)
        for part in group.contexts()
        for layers in stage.layers
    ]
    holders = [Holder(group.ranks, layers, experts) for group, layers, experts in groups]
    shard = {rank: 0 for group, _, _ in groups for rank in group.ranks}
    shares = state_shares(plan)
    largest = dict(shard)
    needed: defaultdict[int, Counter[int]] = defaultdict(Counter)
    shared = {group.ranks: 0 for group, _, _ in groups}
    for bucket in gradient_buckets(model, holders, bucket_elements(plan, scenario.gradient_dtype_bytes)):
        layouts = [gradient_layout(groups[i][0], bucket) for i in bucket.members]
        for layout in layouts:
            shared[layout.ranks] += bucket.size
            for rank, span in layout.shards():
                largest[rank] = max(largest[rank], len(span))
                needed[rank].update({use.start: len(span) for use in bucket.uses})
        for rank, span in shard_layout(layouts, shares).shards():
            shard[rank] += len(span)
    found: dict[int, Kept] = {}
    for stage in stages:
        layers = [layer for part in stage.layers for layer in part]
        for number, group in ((n, part) for n, whole in enumerate(stage.groups) for part in whole.contexts()):
            held = model.held_parameters(layers, len(experts_of(model.experts, stage.ep, number % stage.ep)))
            own, alone = (
                [stop - start for start, stop in pairwise(share_cuts(size, group.tp, group.tp_shares))]
                for size in (held, held - shared[group.ranks])
            )
            for rank, whole, rest in zip(group.ranks, own, alone, strict=True):
                most = _at_once(needed[rank].values(), prefetch=plan.gather_overlap)
                found[rank] = Kept(rest + shard[rank], whole, largest[rank], most)
    return found
