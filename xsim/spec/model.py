"""The transformer: its shape, and what follows from it (parameters, per layer and part).

Layer 0 is the embedding, 1..L the transformer layers, L + 1 the head (final norm and output projection).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from xsim.errors import SpecError
from xsim.spec.checks import at_least, at_most

__all__ = ["ModelSpec"]

NORMS = ("layernorm", "rmsnorm")
MOST_LAYERS = 1000  # as the deepest that was trained has (https://arxiv.org/abs/2203.00555)
MOST_EXPERTS = 10_000  # those with most have 2,048 (https://arxiv.org/abs/2101.03961)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A decoder-only transformer, with ``experts`` a mixture of them in every layer.

    Attributes:
        kv_heads: Heads of keys and values (grouped-query attention); equal to ``heads`` without it.
        vocab: Entries of the token table; 0: the layers stand alone, without embedding and head.
        gated: The MLP has three matrices (SwiGLU) instead of two.
        bias: Linear layers have biases.
        learned_positions: A table of ``seq_len x hidden`` is added to the embedding.
        tied: The output projection is the embedding table; its two copies synchronise.
        dropout: Training drops out embeddings, what each block adds, and scores of attention.
        experts: MLPs of which a router chooses some for each token, in place of the one MLP; 0: none.
        experts_per_token: How many it chooses.
        expert_ffn: Inner width of each expert; 0: ``ffn``.
        shared_ffn: Inner width of all experts together that every token goes to; 0: none.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq_len: int
    gated: bool
    norm: Literal["layernorm", "rmsnorm"]
    bias: bool
    learned_positions: bool
    tied: bool
    dropout: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "seq_len"):
            at_least(self, name, 1)
        at_most(self, "layers", MOST_LAYERS)
        at_least(self, "vocab", 0)
        for name in ("learned_positions", "tied"):
            if getattr(self, name) and not self.vocab:
                raise SpecError(name, True, "without tokens there is no table for it", "write false, or a vocab")
        if self.hidden % self.heads:
            raise SpecError("heads", self.heads, f"it does not divide hidden = {self.hidden}", "choose a divisor")
        if self.heads % self.kv_heads:
            raise SpecError("kv_heads", self.kv_heads, f"it does not divide heads = {self.heads}", "choose a divisor")
        if self.norm not in NORMS:
            raise SpecError("norm", self.norm, "it is unknown", f"choose one of {', '.join(NORMS)}")
        self._check_experts()

    def _check_experts(self) -> None:
        for name in ("experts", "experts_per_token", "expert_ffn", "shared_ffn"):
            at_least(self, name, 0)
        at_most(self, "experts", MOST_EXPERTS)
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            problem = f"a token goes to 1 to {self.experts} of its experts"
            raise SpecError("experts_per_token", self.experts_per_token, problem, "write such as 2")
        for name in ("experts_per_token", "expert_ffn", "shared_ffn"):
            if getattr(self, name) and not self.experts:
                problem = "the model has no experts"
                raise SpecError(name, getattr(self, name), problem, "leave it out, or write experts: 8, say")
        if self.experts and self.bias:
            raise SpecError("bias", True, "experts with biases are not simulated", "write bias: false")

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    @property
    def kv_width(self) -> int:
        """Width of the keys, and of the values."""
        return self.kv_heads * self.head_dim

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm."""
        return self.hidden * (2 if self.norm == "layernorm" else 1)

    @property
    def attention_parameters(self) -> int:
        """Query, key, value and output projections of one layer."""
        weights = 2 * self.hidden * self.hidden + 2 * self.hidden * self.kv_width
        return weights + (2 * self.hidden + 2 * self.kv_width if self.bias else 0)

    @property
    def mlp_parameters(self) -> int:
        """Matrices of one layer's MLP; with experts of the shared ones and the router."""
        up = 2 if self.gated else 1
        if self.experts:
            return (up + 1) * self.hidden * self.shared_ffn + self.hidden * self.experts
        return (up + 1) * self.hidden * self.ffn + (up * self.ffn + self.hidden if self.bias else 0)

    @property
    def expert_width(self) -> int:
        """Inner width of one expert."""
        return self.expert_ffn or self.ffn

    @property
    def expert_parameters(self) -> int:
        """Of one expert of one layer; 0 without experts."""
        return (3 if self.gated else 2) * self.hidden * self.expert_width if self.experts else 0

    @property
    def embedding_parameters(self) -> int:
        """Token table and, if learned, position table."""
        return (self.vocab + (self.seq_len if self.learned_positions else 0)) * self.hidden

    @property
    def parameters(self) -> int:
        """Of the whole model; a tied table counts once."""
        own_head = 0 if self.tied else self.vocab * self.hidden
        per_layer = self.layer_parameters(1)
        norm = self.norm_parameters if self.vocab else 0
        return self.embedding_parameters + self.layers * per_layer + norm + own_head

    def layer_parameters(self, layer: int) -> int:
        """Parameters whose gradients a holder of ``layer`` has; a tied head holds a copy of the token table.

        With experts all of them; a holder of some has ``expert_parameters`` less for each that it lacks.
        """
        if layer == 0:
            return self.embedding_parameters
        if layer == self.layers + 1:
            return self.norm_parameters + self.vocab * self.hidden if self.vocab else 0
        dense = self.attention_parameters + self.mlp_parameters + 2 * self.norm_parameters
        return dense + self.experts * self.expert_parameters

    def held_parameters(self, layers: Iterable[int], experts: int | None = None) -> int:
        """Parameters of a holder of all of ``layers``, with so many of the experts of each; it needs a tied table once.

        Args:
            experts: Absent: all of them.
        """
        held = set(layers)
        twice = self.tied and {0, self.layers + 1} <= held
        lacking = 0 if experts is None else self.experts - experts
        inner = sum(0 < layer <= self.layers for layer in held)
        whole = sum(self.layer_parameters(layer) for layer in held) - (self.vocab * self.hidden if twice else 0)
        return whole - lacking * self.expert_parameters * inner

    @property
    def flops_per_sample(self) -> int:
        """Model FLOPs of one sequence, forward and backward: what MFU divides by the peak.

        As in appendix B of PaLM (https://arxiv.org/abs/2204.02311): per token 6 for each weight of a matrix product,
        and ``12 layers hidden seq_len`` for attention, whose scores count in full, though a causal kernel skips half.
        Of experts those count that a token goes to.
        """
        up = 2 if self.gated else 1
        width = self.experts_per_token * self.expert_width + self.shared_ffn if self.experts else self.ffn
        layer = 2 * self.hidden * (self.hidden + self.kv_width) + (up + 1) * self.hidden * width
        layer += self.hidden * self.experts  # the router
        weights = self.layers * layer + self.vocab * self.hidden
        return self.seq_len * (6 * weights + 12 * self.layers * self.hidden * self.seq_len)
