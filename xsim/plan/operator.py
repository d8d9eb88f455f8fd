"""What one rank executes: an operator, the work of each of its passes, and the tensors that it keeps for the gradients.

A pass is ``forward``, ``input_gradient`` (of what the operator read), ``weight_gradient`` or ``update``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from xsim.plan.comm import CollectiveKind

__all__ = [
    "FP32_BYTES",
    "INPUT",
    "PASSES",
    "Bound",
    "Exchange",
    "Pass",
    "Place",
    "Product",
    "ShardedOperator",
    "Tensor",
    "Work",
    "placed",
]

FP32_BYTES = 4
INPUT = "input"  # the tensor that a layer begins with

Pass = Literal["forward", "input_gradient", "weight_gradient", "update"]
Bound = Literal["matmul", "attention", "memory", "norm"]

PASSES: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient", "update")


@dataclass(frozen=True, slots=True)
class Tensor:
    """What an operator has made, on one rank.

    Attributes:
        maker: The operator, or ``INPUT``.
        size_bytes: Of what the rank has of it.
        part: Which part of what the operator has made, if others need other parts.
        inner: No other operator reads it: a mask, or sums for the gradients of its own.
    """

    maker: str
    size_bytes: int
    part: str = ""
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """``batch`` matrix products of ``rows x inner`` by ``inner x columns``.

    Of fused attention rows and columns are the tokens of a sequence, ``inner`` the width of a head, and there is one
    for each query head of each sample.
    """

    batch: int
    rows: int
    columns: int
    inner: int


@dataclass(frozen=True, slots=True)
class Work:
    """What one pass of an operator has to do.

    Attributes:
        flops: Of all kernels together.
        moved_bytes: To and from memory, of all kernels together.
        kernels: How many like ones it takes; each pays the launch.
        product: The shape of one of them, if it is a matrix product or attention.
    """

    flops: int
    moved_bytes: int
    kernels: int = 1
    product: Product | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedOperator:
    """One operator as one rank sees it, for one micro-batch.

    Attributes:
        kind: What the time counts as: ``attention mlp router experts layernorm embedding head optimizer``.
        name: Which operator of its layer: ``qkv core out up activation down`` ...
        bound: ``matmul`` and ``attention`` compute, ``memory`` only moves bytes, and so does ``norm``, which sums up
            the row that it changes.
        dtype: Of the arithmetic.
        forward, input_gradient, weight_gradient, update: The work of each pass; absent if it has none.
        reads: What it needs to run forward, by who made it.
        keeps: What its gradients need of that, and of what it made itself. What two operators keep is one tensor.
        beside: What begins with each of its passes and goes on side by side with it.
        place: Where it stands in a model; no part of what it is.
    """

    kind: str
    name: str
    bound: Bound
    dtype: str
    forward: Work | None = None
    input_gradient: Work | None = None
    weight_gradient: Work | None = None
    update: Work | None = None
    reads: tuple[Tensor, ...] = ()
    keeps: tuple[Tensor, ...] = ()
    beside: Exchange | None = None
    place: Place | None = field(default=None, compare=False, repr=False)

    def work(self, pass_: Pass) -> Work:
        """Of a pass; none at all if it has no such pass."""
        found: Work | None = getattr(self, pass_)
        return found or NOTHING

    @property
    def flops(self) -> int:
        """Of the forward pass."""
        return self.work("forward").flops

    @property
    def kept_bytes(self) -> int:
        """Of all that it keeps from the forward pass for the backward pass."""
        return sum(tensor.size_bytes for tensor in self.keeps)


NOTHING = Work(0, 0, kernels=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A place where ranks of a group exchange activations.

    Entering a cut region is free forward and sums input gradients backward, leaving it the reverse (Megatron's f and
    g); with sequence parallelism entering gathers and leaving scatters. Among tensor ranks the collectives are the
    same for all; among context ranks those of each tensor rank are its own.

    Attributes:
        kind: Operator kind that it belongs to.
        forward, backward: The collective of each pass; None if that pass needs none.
        cuts: Boundaries in elements of what rank i holds when cut over the sequence; the last is the size.
        back_cuts: The same of the backward pass, if it differs.
        shares, back_shares: Of an all-to-all, what each rank gets of every piece, in proportion; empty: all alike.
        over: Which ranks: those that cut the same tokens, the same sequences, or the experts.
    """

    kind: str
    forward: CollectiveKind | None
    backward: CollectiveKind | None
    cuts: tuple[int, ...]
    back_cuts: tuple[int, ...] = ()
    shares: tuple[int, ...] = ()
    back_shares: tuple[int, ...] = ()
    over: Literal["tensor", "context", "expert"] = "tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where operators stand in a model: what tables of measured times are asked by.

    Attributes:
        layers: Of each layer that they are of, ``embedding``, ``transformer`` or ``head``; an update is of several.
        samples: Of the micro-batch; 0 of an update.
        tp: Ranks that cut the layers.
        share: What the rank has of them, over what it had if the ranks were alike.
        whole: All operators of these layers on this rank.
    """

    layers: tuple[str, ...]
    samples: int
    tp: int
    seq_len: int
    share: float
    whole: tuple[ShardedOperator, ...]


def placed(
    parts: Sequence[ShardedOperator | Exchange],
    *,
    layers: tuple[str, ...],
    samples: int,
    tp: int,
    seq_len: int,
    share: float,
) -> tuple[ShardedOperator | Exchange, ...]:
    """``parts``, all that a rank does in ``layers``, each operator with its place."""
    place = Place(
        layers=layers,
        samples=samples,
        tp=tp,
        seq_len=seq_len,
        share=share,
        whole=tuple(part for part in parts if isinstance(part, ShardedOperator)),
    )
    return tuple(replace(part, place=place) if isinstance(part, ShardedOperator) else part for part in parts)
