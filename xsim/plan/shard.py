"""What a tensor rank has of a layer, and its operators in those terms."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xsim.plan.comm import CollectiveKind
from xsim.plan.operator import FP32_BYTES, Bound, Exchange, Product, ShardedOperator, Tensor, Work
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import DTYPE_BYTES
from xsim.spec.shares import share_cuts

__all__ = ["CAST", "MASK_BYTES", "Routing", "Shard"]

CAST = "_cast"  # how the operator is named that casts the input of a product
NARROW_BYTES = 1  # of one element in fp8
MASK_BYTES = 1  # of one element of a dropout mask (https://arxiv.org/abs/2205.05198 section 4.1)

_Pair = tuple[CollectiveKind | None, CollectiveKind | None]


@dataclass(frozen=True, slots=True)
class Routing:
    """Which experts a rank has, and how many tokens go to each.

    Attributes:
        ep: Ranks that share out the experts, each of which has those of its own tokens.
        position: Which of them it is.
        load: How many tokens go to each expert, in proportion; empty: as many to each.
        capacity: What an expert takes of a rank's tokens at most, over an equal share; 0: all.
    """

    ep: int = 1
    position: int = 0
    load: tuple[float, ...] = ()
    capacity: float = 0.0


EVEN = Routing()


@dataclass(frozen=True, slots=True)
class Shard:
    """Rank ``index`` of ``tp`` tensor ranks, which cut by ``shares``, at work on ``samples`` sequences of ``model``.

    Attributes:
        cp: Context ranks, of which it is any: they have equal parts of each sequence.
        gradient_bytes: Of one element of a weight's gradient; 0: as wide as the weight.
        routing: Where tokens go, if the model has experts.
    """

    model: ModelSpec
    samples: int
    tp: int
    index: int
    precision: str
    sequence_parallel: bool
    shares: tuple[float, ...] = ()
    gradient_bytes: int = 0
    cp: int = 1
    routing: Routing = EVEN

    @property
    def dtype_bytes(self) -> int:
        """Bytes of one element."""
        return DTYPE_BYTES[self.precision]

    @property
    def dtype(self) -> str:
        """Of all arithmetic but that of products in fp8."""
        return "bf16" if self.narrow else self.precision

    @property
    def narrow(self) -> bool:
        """Whether the products of layers are in fp8."""
        return self.precision == "fp8"

    @property
    def tokens(self) -> int:
        """Tokens of the micro-batch, of its context rank."""
        return self.samples * self.seq_len

    @property
    def seq_len(self) -> int:
        """Tokens of one sequence that its context rank has."""
        return self.model.seq_len // self.cp

    @property
    def own_tokens(self) -> int:
        """Tokens whose activations it holds between operators."""
        if not self.sequence_parallel:
            return self.tokens
        return self.samples * self.part(self.seq_len)

    @property
    def own(self) -> int:
        """Elements of the activations that it holds between operators."""
        return self.own_tokens * self.model.hidden

    def part(self, size: int) -> int:
        """Its part of ``size`` things."""
        start, stop = self.cuts(size)[self.index : self.index + 2]
        return stop - start

    def cuts(self, size: int) -> tuple[int, ...]:
        """Where the ranks cut ``size`` things."""
        return share_cuts(size, self.tp, self.shares)

    def of(self, index: int) -> Shard:
        """That of another tensor rank."""
        return replace(self, index=index)

    @property
    def heads(self) -> int:
        """Query heads that it has."""
        if self.model.kv_heads < self.tp:
            return self.part(self.model.heads)
        return self.part(self.model.kv_heads) * (self.model.heads // self.model.kv_heads)

    @property
    def kv_heads(self) -> int:
        """Key/value heads that it has; with copies if there are fewer than ranks."""
        if self.model.kv_heads >= self.tp:
            return self.part(self.model.kv_heads)
        shared = self.model.heads // self.model.kv_heads
        first, end = self.cuts(self.model.heads)[self.index : self.index + 2]
        return -(-end // shared) - first // shared

    @property
    def wide(self) -> int:
        """How many elements of the precision take the room of an fp32 number."""
        return FP32_BYTES // self.dtype_bytes

    def tensor(self, maker: str, elements: int, part: str = "", *, inner: bool = False) -> Tensor:
        """So many elements that ``maker`` has made."""
        return Tensor(maker, elements * self.dtype_bytes, part, inner)

    def cast(
        self, kind: str, name: str, inner: int, outer: int, *, reads: str, tokens: int, fused: bool = False
    ) -> tuple[ShardedOperator, ...]:
        """What product ``name`` needs in fp8: its input and, backward, the gradient of its output, both transposed too.

        One kernel reads 16 bits of an element and writes 8 twice (``cast_transpose`` of Transformer Engine,
        https://github.com/NVIDIA/TransformerEngine); ``fused`` with the norm before it, the input costs nothing more.
        Nothing at all in other precisions. Not counted: casts of weights, once an iteration.
        """
        if not self.narrow:
            return ()
        each = self.dtype_bytes + 2 * NARROW_BYTES
        return (
            ShardedOperator(
                kind=kind,
                name=name + CAST,
                bound="memory",
                dtype=self.dtype,
                forward=None if fused else Work(0, tokens * inner * each),
                input_gradient=Work(0, tokens * outer * each),
                reads=(self.tensor(reads, (self.own_tokens if fused else tokens) * inner),),
            ),
        )

    def matmul(
        self, kind: str, name: str, inner: int, outer: int, *, reads: str, enters: bool = False, narrow: bool = False
    ) -> ShardedOperator:
        """``tokens x inner`` times ``inner x outer``; keeps its input, or of a gathered input its own part.

        The gradient of its weights is added to what earlier micro-batches have left.

        Args:
            reads: Who made its input.
            enters: The input is gathered from all ranks if activations are cut over the sequence.
            narrow: Its factors are in fp8 if products of layers are; ``cast`` has made them.
        """
        kept_tokens = self.own_tokens if enters else self.tokens
        return self.product(
            kind, name, Product(1, self.tokens, outer, inner), reads=reads, kept=kept_tokens * inner, narrow=narrow
        )

    def product(
        self, kind: str, name: str, shape: Product, *, reads: str, kept: int, narrow: bool, rows: int | None = None
    ) -> ShardedOperator:
        """Products of ``shape`` in one kernel, of activations with weights, and of both gradients.

        Args:
            kept: Elements of its input that it keeps.
            rows: Of all products together, if not all have as many as ``shape`` says.
        """
        narrow &= self.narrow
        size = NARROW_BYTES if narrow else self.dtype_bytes
        count, inner, outer = shape.batch, shape.inner, shape.columns
        rows = count * shape.rows if rows is None else rows
        flops, weights = 2 * rows * inner * outer, count * inner * outer
        read, made = rows * inner, rows * outer
        added = 2 * weights * (self.gradient_bytes or self.dtype_bytes)
        tensor = Tensor(name + CAST, kept * NARROW_BYTES) if narrow else self.tensor(reads, kept)
        return ShardedOperator(
            kind=kind,
            name=name,
            bound="matmul",
            dtype=self.precision if narrow else self.dtype,
            forward=Work(flops, (read + weights) * size + made * self.dtype_bytes, product=shape),
            input_gradient=Work(
                flops,
                (made + weights) * size + read * self.dtype_bytes,
                product=Product(count, shape.rows, inner, outer),
            ),
            weight_gradient=Work(flops, (read + made) * size + added, product=Product(count, inner, outer, shape.rows)),
            reads=(tensor,),
            keeps=(tensor,),
        )

    def elementwise(
        self,
        kind: str,
        name: str,
        moved: int,
        back: int,
        *,
        reads: tuple[Tensor, ...] = (),
        keeps: tuple[Tensor, ...] = (),
        bound: Bound = "memory",
    ) -> ShardedOperator:
        """An operator that reads and writes ``moved`` elements forward and ``back`` elements for its gradients."""
        return ShardedOperator(
            kind=kind,
            name=name,
            bound=bound,
            dtype=self.dtype,
            forward=Work(0, moved * self.dtype_bytes),
            input_gradient=Work(0, back * self.dtype_bytes),
            reads=reads,
            keeps=keeps,
        )

    def enter(self, kind: str) -> tuple[Exchange, ...]:
        """Before a region that is cut over the ranks."""
        return self._exchange(kind, (None, "all_reduce"), ("all_gather", "reduce_scatter"))

    def leave(self, kind: str) -> tuple[Exchange, ...]:
        """After a region that is cut over the ranks."""
        return self._exchange(kind, ("all_reduce", None), ("reduce_scatter", "all_gather"))

    def _exchange(self, kind: str, replicated: _Pair, sequence: _Pair) -> tuple[Exchange, ...]:
        if self.tp == 1:
            return ()
        forward, backward = sequence if self.sequence_parallel else replicated
        row = self.samples * self.model.hidden
        cuts = tuple(cut * row for cut in self.cuts(self.seq_len))
        return (Exchange(kind=kind, forward=forward, backward=backward, cuts=cuts),)
