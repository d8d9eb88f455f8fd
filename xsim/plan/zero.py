"""Whose state a rank keeps when data-parallel ranks share it out (ZeRO, https://arxiv.org/abs/1910.02054)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xsim.plan.gradients import bucket_elements, gradient_buckets, gradient_holders
from xsim.plan.layout import Layout
from xsim.plan.shards import shard_layout
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = ["Kept", "kept_states"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What one rank keeps.

    Attributes:
        parameters: Which it updates, and whose optimizer state it keeps: its shards, and what no other group holds.
        held: Which its group gave to it; without sharding it updates all of them.
        bucket: Of its largest gradient bucket, before it is cut into shards.
    """

    parameters: int
    held: int
    bucket: int


def kept_states(scenario: Scenario, plan: DeploymentPlan) -> Mapping[int, Kept]:
    """By rank of ``plan``, which has its ends, what it keeps if gradient buckets are cut into shards."""
    model = scenario.model
    holders = gradient_holders(plan)
    shard = dict.fromkeys((rank for _, group in plan.groups() for rank in group.ranks), 0)
    largest = dict(shard)
    shared = dict.fromkeys((holder.ranks for holder in holders), 0)
    for bucket in gradient_buckets(model, holders, bucket_elements(plan, scenario.dtype_bytes)):
        layouts = [Layout.even(holders[i].ranks, bucket.size) for i in bucket.members]
        for layout in layouts:
            shared[layout.ranks] += bucket.size
            for rank, span in layout.shards():
                largest[rank] = max(largest[rank], len(span))
        for rank, span in shard_layout(layouts).shards():
            shard[rank] += len(span)
    found: dict[int, Kept] = {}
    for replica in plan.replicas:
        for stage in replica.stages:
            held = model.held_parameters(layer for part in stage.layers for layer in part)
            for group in stage.groups:
                whole = Layout.even(group.ranks, held)
                alone = Layout.even(group.ranks, held - shared[group.ranks])
                for (rank, span), (_, own) in zip(whole.shards(), alone.shards(), strict=True):
                    found[rank] = Kept(len(own) + shard[rank], len(span), largest[rank])
    return found
