"""What importers of measured times share: the names that others give devices, and means over layers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from xsim.errors import SpecError

__all__ = ["Row", "device_name", "layer_times", "loaded", "number"]

Row = tuple[
    str, str, str, int, int, int, float
]  # device, operator, pass, tp, micro-batch, length (0: any), microseconds

_DEVICES: Mapping[str, str] = {  # as Sailor, Metis, AMP, Aceso and AICB call them, and as the device library does
    "A100": "a100_80",
    "A100-40": "a100_40",
    "A100-80": "a100_80",
    "G4": "t4",
    "GH-96": "gh200",
    "H100": "h100_80",
    "P3": "v100_16",
    "RTX-2080": "rtx_2080",
    "RTX-3090": "rtx_3090",
    "T4": "t4",
    "Titan-RTX": "titan_rtx",
    "V100": "v100_32",
    "V100-16": "v100_16",
}


def device_name(foreign: str) -> str:
    """The device library's name of a device; that of a stranger stays."""
    return _DEVICES.get(foreign, foreign)


def loaded(text: str, path: str) -> Any:
    """The JSON in a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(path, text[:40], f"it is no JSON: {error}", "name a file that the profiler wrote") from None


def number(value: object, path: str) -> float:
    """A number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise SpecError(path, value, "it is no time", "name a file that the profiler wrote")
    return float(value)


def layer_times(times: Sequence[float]) -> dict[str, float]:
    """Of the embedding, a transformer layer on average, and the head, of the times of all layers in order."""
    first, *middle, last = times
    return {"embedding": first, "transformer": fmean(middle), "head": last}
