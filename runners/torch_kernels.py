"""The operators of a layer in PyTorch, of the shapes that one tensor rank has.

PyTorch is no dependency: who measures has it, and hands the module in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xsim.plan.operator import ShardedOperator
from xsim.plan.shard import Shard

__all__ = ["Kernel", "Maker"]

DROPPED = 0.1  # part of the elements that dropout zeroes; its time does not depend on it


@dataclass(frozen=True, slots=True)
class Kernel:
    """What runs an operator.

    Attributes:
        forward: Gives the output.
        inputs, weights: Tensors whose gradients a backward pass gives.
    """

    forward: Callable[[], Any]
    inputs: tuple[Any, ...] = ()
    weights: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes kernels.

    Attributes:
        torch: The module.
        place: ``cuda`` or ``cpu``.
        dtype: As PyTorch has it.
        shard: Whose shapes they have.
    """

    torch: Any
    place: str
    dtype: Any
    shard: Shard

    def make(self, operator: ShardedOperator) -> Kernel | None:
        """A kernel for an operator; none if it is unknown here."""
        product = operator.forward.product if operator.forward else None
        if operator.bound == "matmul" and operator.weight_gradient and product and product.batch == 1:
            x, w = self._random(product.rows, product.inner), self._random(product.columns, product.inner)
            return Kernel(lambda: self.torch.nn.functional.linear(x, w), (x,), (w,))
        if operator.bound == "norm":
            return self._norm()
        made: Mapping[str, Callable[[], Kernel]] = {
            "core": self._core,
            "scores": self._scores,
            "softmax": self._softmax,
            "attention_dropout": lambda: self._dropout(*self._score_shape),
            "context": self._context,
            "rotary": self._rotary,
            "activation": self._activation,
            "attention_residual": self._residual,
            "mlp_residual": self._residual,
            "lookup": self._lookup,
            "positions": self._positions,
            "embedding_dropout": lambda: self._dropout(self.shard.own_tokens, self.shard.model.hidden),
            "loss": self._loss,
        }
        return made[operator.name]() if operator.name in made else None

    def _random(self, *shape: int) -> Any:
        return self.torch.randn(*shape, device=self.place, dtype=self.dtype, requires_grad=True)

    @property
    def _score_shape(self) -> tuple[int, int, int, int]:
        shard = self.shard
        return shard.samples, shard.heads, shard.model.seq_len, shard.model.seq_len

    def _heads(self, heads: int) -> Any:
        return self._random(self.shard.samples, heads, self.shard.model.seq_len, self.shard.model.head_dim)

    def _norm(self) -> Kernel:
        x, w, functional = self._random(*self._own), self._random(self.shard.model.hidden), self.torch.nn.functional
        shape = (self.shard.model.hidden,)
        if self.shard.model.norm == "layernorm":
            b = self._random(self.shard.model.hidden)
            return Kernel(lambda: functional.layer_norm(x, shape, w, b), (x, w, b))
        if hasattr(functional, "rms_norm"):
            return Kernel(lambda: functional.rms_norm(x, shape, w), (x, w))
        return Kernel(lambda: x * self.torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, (x, w))

    @property
    def _own(self) -> tuple[int, int]:
        return self.shard.own_tokens, self.shard.model.hidden

    def _core(self) -> Kernel:
        q, k, v = self._heads(self.shard.heads), *(self._heads(self.shard.kv_heads) for _ in range(2))
        shared, attend = self.shard.heads // self.shard.kv_heads, self.torch.nn.functional.scaled_dot_product_attention

        def forward() -> Any:
            keys, values = (each.repeat_interleave(shared, dim=1) if shared > 1 else each for each in (k, v))
            return attend(q, keys, values, is_causal=True)

        return Kernel(forward, (q, k, v))

    def _scores(self) -> Kernel:
        q, k = self._heads(self.shard.heads), self._heads(self.shard.heads)
        return Kernel(lambda: q @ k.transpose(-2, -1), (q, k))

    def _softmax(self) -> Kernel:
        x = self._random(*self._score_shape)
        return Kernel(lambda: self.torch.softmax(x, dim=-1), (x,))

    def _context(self) -> Kernel:
        scores, v = self._random(*self._score_shape), self._heads(self.shard.heads)
        return Kernel(lambda: scores @ v, (scores, v))

    def _dropout(self, *shape: int) -> Kernel:
        x = self._random(*shape)
        return Kernel(lambda: self.torch.nn.functional.dropout(x, DROPPED), (x,))

    def _rotary(self) -> Kernel:
        x = self._heads(self.shard.heads + self.shard.kv_heads)
        cos, sin = (self._random(self.shard.model.seq_len, self.shard.model.head_dim).detach() for _ in range(2))

        def forward() -> Any:
            a, b = x.chunk(2, dim=-1)
            return x * cos + self.torch.cat((-b, a), dim=-1) * sin

        return Kernel(forward, (x,))

    def _activation(self) -> Kernel:
        shard, functional = self.shard, self.torch.nn.functional
        x = self._random(shard.tokens, shard.part(shard.model.ffn))
        if not shard.model.gated:
            return Kernel(lambda: functional.gelu(x, approximate="tanh"), (x,))
        gate = self._random(shard.tokens, shard.part(shard.model.ffn))
        return Kernel(lambda: functional.silu(gate) * x, (x, gate))

    def _residual(self) -> Kernel:
        x, y = self._random(*self._own), self._random(*self._own)
        if not self.shard.model.dropout:
            return Kernel(lambda: x + y, (x, y))
        return Kernel(lambda: self.torch.nn.functional.dropout(x, DROPPED) + y, (x, y))

    def _lookup(self) -> Kernel:
        shard = self.shard
        table = self._random(shard.part(shard.model.vocab), shard.model.hidden)
        tokens = self.torch.randint(len(table), (shard.tokens,), device=self.place)
        return Kernel(lambda: self.torch.nn.functional.embedding(tokens, table), (), (table,))

    def _positions(self) -> Kernel:
        x = self._random(self.shard.samples, self.shard.model.seq_len, self.shard.model.hidden)
        table = self._random(self.shard.model.seq_len, self.shard.model.hidden)
        return Kernel(lambda: x + table, (), (x, table))

    def _loss(self) -> Kernel:
        vocab = self.shard.part(self.shard.model.vocab)
        x = self._random(self.shard.tokens, vocab)
        targets = self.torch.randint(vocab, (self.shard.tokens,), device=self.place)
        return Kernel(lambda: self.torch.nn.functional.cross_entropy(x.float(), targets), (x,))
