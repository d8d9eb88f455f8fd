"""Published times of kernels: which rows count, and the operator that each is of."""

from __future__ import annotations

import csv
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from xsim.plan.attention import core
from xsim.plan.operator import Pass, Product, ShardedOperator, Work
from xsim.plan.operators import shard_operators
from xsim.plan.shard import Shard
from xsim.spec.model import ModelSpec

__all__ = ["KINDS", "Kernel", "Kind", "read_kernels"]

Kind = Literal["product", "attention", "element-wise", "norm"]

KINDS: tuple[Kind, ...] = ("product", "attention", "element-wise", "norm")
FORWARD: tuple[Pass, ...] = ("forward",)
BACKWARD: tuple[Pass, ...] = ("input_gradient", "weight_gradient")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One measurement.

    Attributes:
        group, source: Where it is from.
        device: In the device library.
        shape: What decides whether it is held out: all measurements of a shape are, or none.
        operator, passes: What was timed.
        fitted: Whether a fit may see it; if not, it is reported.
    """

    group: str
    source: str
    device: str
    kind: Kind
    name: str
    shape: str
    operator: ShardedOperator
    passes: tuple[Pass, ...]
    time_s: float
    fitted: bool = True

    @property
    def held_out(self) -> bool:
        """Every second shape, by a checksum of it."""
        return zlib.crc32(self.shape.encode()) % 2 == 1


def read_kernels(path: Path) -> tuple[tuple[Kernel, ...], Mapping[str, tuple[int, str]]]:
    """The rows that count, and of each group the others: how many, and why they do not."""
    kept: list[Kernel] = []
    left: defaultdict[str, list[str]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for raw in csv.DictReader(file):
            read = _READERS.get(raw["group"].rsplit("_", 1)[0] if "sxm" not in raw["group"] else raw["group"][:8])
            device = _DEVICES.get(raw["group"])
            found = read(raw, device) if read and device else "whole layers, not operators"
            if isinstance(found, Kernel):
                kept.append(found)
            else:
                left[raw["group"]].append(found)
    if not kept:
        raise ValueError("no row of a kernel is in it")
    return tuple(kept), {group: (len(why), "; ".join(sorted(set(why)))) for group, why in sorted(left.items())}


_DEVICES: Mapping[str, str] = {
    "aic_gemm_a100_sxm": "a100_80",
    "aic_attn_a100_sxm": "a100_80",
    "vidur_mlp_a100": "a100_80",
    "aceso_ops_A100-40": "a100_40",
    "aic_gemm_h100_sxm": "h100_80",
    "aic_attn_h100_sxm": "h100_80",
    "vidur_mlp_h100": "h100_80",
    "aceso_ops_GH-96": "gh200",
    "aic_gemm_h200_sxm": "h200",
    "aic_attn_h200_sxm": "h200",
    "aic_gemm_b200_sxm": "b200",
    "aic_attn_b200_sxm": "b200",
}


def _product(raw: Mapping[str, str], device: str) -> Kernel:
    m, n, k = (int(raw[name]) for name in "mnk")
    work = Work(2 * m * n * k, 2 * (m * k + k * n + m * n), product=Product(1, m, n, k))
    operator = ShardedOperator(kind="mlp", name="product", bound="matmul", dtype="bf16", forward=work)
    return _kernel(raw, device, "product", operator, f"{m} x {n} x {k}")


def _attention(raw: Mapping[str, str], device: str) -> Kernel:
    batch, seq, heads, kv_heads, width = (int(raw[name]) for name in ("batch", "seq", "heads", "kv_heads", "head_dim"))
    model = _model("prefill", hidden=heads * width, heads=heads, kv_heads=kv_heads, seq_len=seq)
    (operator,) = core(Shard(model, batch, 1, 0, "bf16", sequence_parallel=False), "flash")
    return _kernel(raw, device, "attention", operator, f"{batch} x {seq} x {heads} x {kv_heads}")


def _kernel(
    raw: Mapping[str, str],
    device: str,
    kind: Kind,
    operator: ShardedOperator,
    shape: str,
    passes: tuple[Pass, ...] = FORWARD,
    *,
    fitted: bool = True,
) -> Kernel:
    return Kernel(
        group=raw["group"],
        source=raw["source"],
        device=device,
        kind=kind,
        name=raw["op"],
        shape=shape,
        operator=operator,
        passes=tuple(each for each in passes if operator.work(each).kernels),
        time_s=float(raw["time_ms"]) * 1e-3,
        fitted=fitted,
    )


# hidden, heads, kv_heads, ffn: https://huggingface.co, config.json of each
_LLAMAS: Mapping[str, tuple[int, int, int, int]] = {
    "meta-llama/Llama-2-7b-hf": (4096, 32, 32, 11008),
    "meta-llama/Llama-2-70b-hf": (8192, 64, 8, 28672),
    "meta-llama/Meta-Llama-3-8B": (4096, 32, 8, 14336),
    "meta-llama/Meta-Llama-3-70B": (8192, 64, 8, 28672),
}
_INFERENCE: Mapping[str, str] = {
    "input_layernorm": "attention_norm",
    "attn_pre_proj": "qkv",
    "attn_rope": "rotary",
    "attn_post_proj": "out",
    "post_attention_layernorm": "mlp_norm",
    "mlp_up_proj": "up",
    "mlp_act": "activation",
    "mlp_down_proj": "down",
    "add": "mlp_residual",
}
_OWN_TO_INFERENCE = ("attn_rope", "mlp_act")  # kernels that move an element at a time; training has fused ones


def _inference(raw: Mapping[str, str], device: str) -> Kernel | str:
    """An operator of vLLM's layers, of so many tokens."""
    if raw["op"] not in _INFERENCE:
        return "lookups, of which the simulator knows no more than their bytes"
    hidden, heads, kv_heads, ffn = _LLAMAS[raw["model"]]
    model = _model(
        raw["model"], hidden=hidden, heads=heads, kv_heads=kv_heads, ffn=ffn, seq_len=int(raw["tokens"]), gated=True
    )
    operator = _operators(model, 1, int(raw["tp"]))[_INFERENCE[raw["op"]]]
    return _of_layer(raw, device, operator, FORWARD, raw["op"] not in _OWN_TO_INFERENCE)


# hidden, heads: training_config_gpt_neo27.json of the source, and https://huggingface.co/facebook/opt-30b, config.json
_MEGATRON: Mapping[str, tuple[int, int]] = {"GPT-Neo-2.7": (2560, 32), "OPT-30": (7168, 56)}
_TRAINING: Mapping[str, str] = {
    "enc-1st-layernorm": "attention_norm",
    "enc-attention-qkv": "qkv",
    "enc-attention-score": "scores",
    "enc-attention-softmax": "softmax",
    "enc-attention-dropout": "attention_dropout",
    "enc-attention-context": "context",
    "enc-attention-dense": "out",
    "enc-2nd-layernorm": "mlp_norm",
    "enc-MLP-GEMM-1": "up",
    "enc-MLP-gelu": "activation",
    "enc-MLP-GEMM-2": "down",
}
_OF_WEIGHTS = ("enc-attention-qkv", "enc-attention-dense", "enc-MLP-GEMM-1", "enc-MLP-GEMM-2")
_HOLDS_COLLECTIVE = ("enc-attention-dense", "enc-MLP-GEMM-2")


def _training(raw: Mapping[str, str], device: str) -> Kernel | str:
    """An operator of Megatron-LM's layers, as Aceso's profiler runs them."""
    if raw["op"] not in _TRAINING:
        return "not of a transformer layer, or bias, dropout and residual in kernels apart"
    tp, backward = int(raw["tp"]), raw["time_kind"] == "backward"
    if tp > 1 and raw["op"] in _HOLDS_COLLECTIVE and not backward:
        return "the time holds a collective"
    if raw["op"] in _OF_WEIGHTS and backward:
        return "a backward pass in the time of one product, where there are two"
    if raw["model"] == "OPT-30" and tp == 4 and raw["batch"] == "1" and raw["op"] == "enc-attention-softmax":
        return "it took six times as long as twice the batch"
    hidden, heads = _MEGATRON[raw["model"]]
    model = _model(raw["model"], hidden=hidden, heads=heads, kv_heads=heads, seq_len=int(raw["seq"]), dropout=True)
    operator = _operators(model, int(raw["batch"]), tp)[_TRAINING[raw["op"]]]
    return _of_layer(raw, device, operator, BACKWARD if backward else FORWARD, fitted=True)


def _of_layer(
    raw: Mapping[str, str], device: str, operator: ShardedOperator, passes: tuple[Pass, ...], fitted: bool
) -> Kernel:
    kind: Kind = {"matmul": "product", "norm": "norm"}.get(operator.bound, "element-wise")  # type: ignore[assignment]
    work = operator.work(passes[0])
    shape = f"{work.product or (operator.name, work.moved_bytes)}"
    return _kernel(raw, device, kind, operator, shape, passes, fitted=fitted)


@cache
def _operators(model: ModelSpec, samples: int, tp: int) -> Mapping[str, ShardedOperator]:
    """Of a layer, cut over ``tp`` ranks, by name."""

    def found() -> Iterator[ShardedOperator]:
        shard = Shard(model, samples, tp, 0, "fp16", sequence_parallel=False)
        for part in shard_operators(shard, 1, "unfused"):
            if isinstance(part, ShardedOperator):
                yield part

    return {operator.name: operator for operator in found()}


def _model(
    name: str,
    *,
    hidden: int,
    heads: int,
    kv_heads: int,
    seq_len: int,
    ffn: int = 0,
    gated: bool = False,
    dropout: bool = False,
) -> ModelSpec:
    return ModelSpec(
        name=name,
        layers=1,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn or 4 * hidden,
        vocab=0,
        seq_len=seq_len,
        gated=gated,
        norm="rmsnorm" if gated else "layernorm",
        bias=not gated,
        learned_positions=False,
        tied=False,
        dropout=dropout,
    )


_READERS: Mapping[str, Callable[[Mapping[str, str], str], Kernel | str]] = {
    "aic_gemm": _product,
    "aic_attn": _attention,
    "vidur_mlp": _inference,
    "aceso_ops": _training,
}
