"""Profiles of Sailor: one ``profile.json`` per model and device (https://github.com/eth-easl/sailor).

``{micro_batch: {tp: {layer: [forward_s, backward_s, update_s]}}}``; layer 0 is the embedding, the last one the head.
The times hold the collectives of tensor parallelism. A time of 0 was not measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsim.errors import SpecError
from xsim.interop.profiles import Row, layer_times, loaded, number

__all__ = ["sailor_rows"]

PASSES = ("forward", "backward", "update")


def sailor_rows(text: str, device: str, path: str) -> Iterator[Row]:
    """The rows of a table of measured times; layers between the first and the last count as one, on average.

    Raises:
        SpecError: It is no such file; the field begins with ``path``.
    """
    found = loaded(text, path)
    if not found:
        raise SpecError(path, found, "it is empty", _FIX)
    for batch, at_batch in _items(found, path):
        for tp, layers in _items(at_batch, f"{path}.{batch}"):
            at = f"{path}.{batch}.{tp}"
            times = [each for _, each in sorted(_items(layers, at)) if isinstance(each, list)]
            if len(times) < 3 or any(len(each) != len(PASSES) for each in times):
                raise SpecError(at, layers, "it has not three times for each of three layers or more", _FIX)
            for position, pass_ in enumerate(PASSES):
                seconds = [number(each[position], f"{at}.{layer}") for layer, each in enumerate(times)]
                for name, second in layer_times(seconds).items():
                    if second:
                        yield device, name, pass_, tp, 0 if pass_ == "update" else batch, 0, second * 1e6


_FIX = "name a profile.json of Sailor's"


def _items(found: object, path: str) -> list[tuple[int, object]]:
    if not isinstance(found, dict) or not all(str(key).isdecimal() for key in found):
        raise SpecError(path, found, "it is no mapping by numbers", _FIX)
    return [(int(key), value) for key, value in found.items()]
