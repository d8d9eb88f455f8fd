"""Which gradients are summed together, and by whom: the sweep line per parameter class, cut into buckets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xsim.plan.groups import Holder, dp_groups
from xsim.plan.layout import Layout, pieces
from xsim.spec.deployment import DeploymentPlan, DeviceGroup
from xsim.spec.model import ModelSpec
from xsim.spec.shares import share_cuts

__all__ = ["Bucket", "backward_order", "bucket_elements", "gradient_buckets", "gradient_layout"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that are synchronised at once.

    Attributes:
        kind: Parameter class: ``dense``, ``expert``, ``embedding``, ``head``.
        layers: Whose gradients.
        size: Elements of one whole copy.
        members: Positions of the holders in the input; two or more.
        after: Of each member, the layer whose backward pass completes its part.
        uses: Stretches of layers that need its parameters; a tied token table has two.
    """

    kind: str
    layers: range
    size: int
    members: tuple[int, ...]
    after: tuple[int, ...]
    uses: tuple[range, ...]


def gradient_layout(group: DeviceGroup, bucket: Bucket) -> Layout:
    """How ``group`` cuts the gradients of ``bucket`` among its ranks."""
    layers = len(bucket.layers) if bucket.kind in {"dense", "expert"} else 0
    return Layout(group.ranks, share_cuts(bucket.size, group.tp, group.tp_shares), layers=layers)


def bucket_elements(plan: DeploymentPlan, dtype_bytes: int) -> int | None:
    """Elements of the largest bucket of more than one layer; None for one bucket per segment."""
    return None if plan.bucket_bytes is None else plan.bucket_bytes // dtype_bytes


def gradient_buckets(model: ModelSpec, holders: Sequence[Holder], most: int | None) -> tuple[Bucket, ...]:
    """All gradient syncs of a deployment, class by class.

    Args:
        holders: Every contiguous range of layers that a device group holds; one group may have several.
        most: Elements of the largest bucket of more than one layer; None for one bucket per segment.
    """
    return (*_dense(model, holders, most), *_experts(model, holders, most), *_ends(model, holders))


def backward_order(buckets: Iterable[Bucket]) -> tuple[Bucket, ...]:
    """``buckets`` in the one order in which all ranks sync when they do one after another: the last layers first.

    That is about the order in which a backward pass completes them (https://arxiv.org/abs/2006.15704 section 3.2.3).
    """
    return tuple(sorted(buckets, key=lambda bucket: bucket.layers.start, reverse=True))


def _dense(model: ModelSpec, holders: Sequence[Holder], most: int | None) -> Iterator[Bucket]:
    """The transformer layers, without experts: a group per segment of the sweep line."""
    per_layer = model.layer_parameters(1) - model.experts * model.expert_parameters
    for layers, members in _segments(model, holders, range(len(holders))):
        yield from _buckets("dense", layers, members, per_layer, most)


def _experts(model: ModelSpec, holders: Sequence[Holder], most: int | None) -> Iterator[Bucket]:
    """Their experts: a group per segment of those that hold the same of them."""
    held = [range(model.experts) if holder.experts is None else holder.experts for holder in holders]
    for piece in pieces([end for own in held if own for end in (own.start, own.stop)]):
        having = [i for i, own in enumerate(held) if own.start <= piece.start and piece.stop <= own.stop]
        for layers, members in _segments(model, holders, having):
            yield from _buckets("expert", layers, members, len(piece) * model.expert_parameters, most)


def _segments(
    model: ModelSpec, holders: Sequence[Holder], among: Sequence[int]
) -> Iterator[tuple[range, tuple[int, ...]]]:
    """(transformer layers, those ``among`` all holders that hold them), where two or more do."""
    inner = {i: range(max(holders[i].layers.start, 1), min(holders[i].layers.stop, model.layers + 1)) for i in among}
    present = [i for i, layers in inner.items() if layers]
    for group in dp_groups(Holder(holders[i].ranks, inner[i]) for i in present):
        if len(group.members) > 1:
            yield group.layers, tuple(present[i] for i in group.members)


def _buckets(kind: str, segment: range, members: tuple[int, ...], per_layer: int, most: int | None) -> Iterator[Bucket]:
    """One for each ``most`` elements of ``segment``; gradients come last layer first."""
    fit = len(segment) if most is None else max(1, most // per_layer)
    for stop in range(segment.stop, segment.start, -fit):
        layers = range(max(segment.start, stop - fit), stop)
        yield Bucket(kind, layers, len(layers) * per_layer, members, (layers.start,) * len(members), (layers,))


def _ends(model: ModelSpec, holders: Sequence[Holder]) -> Iterator[Bucket]:
    """Embedding and head; the two copies of a tied token table are summed as one, the rest of each end apart."""
    table, head = model.vocab * model.hidden, model.layers + 1
    if model.tied:
        parts = [
            ("embedding", (0, head), table),
            ("embedding", (0,), model.layer_parameters(0) - table),
            ("head", (head,), model.layer_parameters(head) - table),
        ]
    else:
        parts = [("embedding", (0,), model.layer_parameters(0)), ("head", (head,), model.layer_parameters(head))]
    for kind, layers, size in parts:
        found: dict[tuple[int, ...], tuple[int, int]] = {}
        for layer in layers:  # a group with both copies of the table has one, complete when the embedding is: last
            for i, holder in enumerate(holders):
                if layer in holder.layers:
                    found.setdefault(holder.ranks, (i, layer))
        if size and len(found) > 1:
            members, after = zip(*sorted(found.values()), strict=True)
            uses = tuple(range(layer, layer + 1) for layer in layers)
            yield Bucket(kind, uses[0], size, members, after, uses)
