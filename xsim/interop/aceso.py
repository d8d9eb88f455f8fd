"""Profiles of Aceso: a CSV file per model, micro-batch and ``tp`` (https://github.com/microsoft/SuperScaler).

After a head a line per operator: its name, the microseconds of its forward and its backward pass, and its sizes. They
are those of Megatron-LM's unfused attention. Where a line's backward pass holds a product, it holds one of its two.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from xsim.errors import SpecError
from xsim.interop.profiles import Row

__all__ = ["OPERATORS", "aceso_rows"]

OPERATORS: Mapping[str, str] = {
    "encoder-embedding": "embedding",
    "enc-1st-layernorm": "attention_norm",
    "enc-attention-qkv": "qkv",
    "enc-attention-score": "scores",
    "enc-attention-softmax": "softmax",
    "enc-attention-dropout": "attention_dropout",
    "enc-attention-context": "context",
    "enc-attention-dense": "out",
    "enc-post-attention-dropout": "attention_residual",
    "enc-2nd-layernorm": "mlp_norm",
    "enc-MLP-GEMM-1": "up",
    "enc-MLP-gelu": "activation",
    "enc-MLP-GEMM-2": "down",
    "enc-post-MLP-dropout": "mlp_residual",
    "final-layernorm": "final_norm",
    "gpt-post-process": "logits",
}


def aceso_rows(text: str, device: str, tp: int, batch: int, path: str) -> Iterator[Row]:
    """The rows of a table of measured times.

    Raises:
        SpecError: It is no such file; the field begins with ``path``.
    """
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise SpecError(path, "", f"it is no CSV ({error})", "name a table of Aceso's profiler") from None
    known = 0
    for line, words in enumerate(lines[1:], 2):
        if not words or words[0] not in OPERATORS:
            continue
        known += 1
        for pass_, word in zip(("forward", "backward"), words[1:3], strict=False):
            yield device, OPERATORS[words[0]], pass_, tp, batch, 0, _microseconds(word, f"{path}[line {line}].{pass_}")
    if not known:
        raise SpecError(path, text[:40], "it has no operator of a transformer layer", "name a file of Aceso's profiler")


def _microseconds(word: str, path: str) -> float:
    try:
        found = float(word)
    except ValueError:
        found = -1.0
    if not 0 < found < 1e12:
        raise SpecError(path, word, "it is no time", "name a file of Aceso's profiler")
    return found
