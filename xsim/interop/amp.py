"""Profiles of AMP: ``MODEL_DEVICE_TP.npy`` in its folder ``known_cost`` (https://github.com/DachengLi1/AMP).

An array of seconds: what the forward pass of one sample takes in each of its layers, of which the model's are all but
six (``embedding, nothing, the layers, nothing, nothing, head, nothing``), with the collectives of tensor parallelism.
It takes a backward pass for twice that. Devices are called by the instances that they are in: P3, G4.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from xsim.errors import SpecError
from xsim.interop.profiles import Row, layer_times

__all__ = ["amp_rows"]

LEAST = 7  # layers of a model of one
_FIX = "name an array of AMP's known_cost"


def amp_rows(data: bytes, device: str, tp: int, path: str) -> Iterator[Row]:
    """The rows of a table of measured times; layers of the model count as one, on average.

    Raises:
        SpecError: It is no such array; the field begins with ``path``.
    """
    try:
        found = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise SpecError(path, data[:20], f"it is no array ({type(error).__name__})", _FIX) from None
    if not isinstance(found, np.ndarray) or found.ndim != 1 or len(found) < LEAST or found.dtype.kind not in "fiu":
        raise SpecError(path, data[:20], f"it is no row of {LEAST} numbers or more", _FIX)
    seconds = found.astype(float).tolist()
    own = [seconds[0], *seconds[2:-4], seconds[-2]]
    if not all(0 < each < 1e6 for each in own):
        raise SpecError(path, own[:8], "it has what is no time", _FIX)
    for name, second in layer_times(own).items():
        for pass_, factor in (("forward", 1), ("backward", 2)):
            yield device, name, pass_, tp, 1, 0, second * factor * 1e6
