"""Workloads of AICB with measured times (https://github.com/aliyun/aicb), as SimAI reads them.

The first line names ``model_parallel_NPU_group``, the tensor-parallel degree; the second counts the items. An item is
its name, -1, and for forward pass, input gradient and weight gradient nanoseconds, collective and bytes. Where the last
takes 1 ns or less, the input gradient's time is that of both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean

from xsim.errors import SpecError
from xsim.interop.profiles import Row

__all__ = ["aicb_rows"]

_BLOCKS: Mapping[str, str] = {
    "embedding_layer": "embedding",
    "attention_layer": "attention_block",
    "attention_norm": "attention_block",
    "mlp_layer": "mlp_block",
    "mlp_norm": "mlp_block",
}
_TIMES: Mapping[str, int] = {"forward": 2, "input_gradient": 5, "weight_gradient": 8}
_FIX = "name a workload that AICB wrote"


def aicb_rows(text: str, device: str, batch: int, path: str) -> Iterator[Row]:
    """The rows of a table of measured times: each block on average over its items.

    Raises:
        SpecError: It is no such file; the field begins with ``path``.
    """
    head, *lines = text.splitlines() or [""]
    degree = re.search(r"model_parallel_NPU_group: (\d+)", head)
    if not degree:
        raise SpecError(path, head[:80], "its first line names no model_parallel_NPU_group", _FIX)
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for number, line in enumerate(lines[1:], 3):
        words = line.split()
        if not words or words[0] not in _BLOCKS:
            continue
        for pass_, column in _TIMES.items():
            try:
                nanoseconds = int(words[column])
            except (IndexError, ValueError):
                problem = f"it has no whole nanoseconds in column {column + 1}"
                raise SpecError(f"{path}[line {number}]", line[:80], problem, _FIX) from None
            if nanoseconds > 1:
                found[_BLOCKS[words[0]], pass_].append(nanoseconds)
    if not found:
        raise SpecError(path, head[:80], "it has no item with a time", _FIX)
    for (name, pass_), times in found.items():
        both = pass_ == "input_gradient" and (name, "weight_gradient") not in found
        yield device, name, "backward" if both else pass_, int(degree[1]), batch, 0, fmean(times) * 1e-3
