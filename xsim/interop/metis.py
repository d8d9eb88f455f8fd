"""Profiles of Metis: a JSON file per device, ``tp`` and micro-batch (https://github.com/SamsungLabs/Metis).

``execution_time.layer_compute_total_ms`` holds forward and backward of each layer together, the embedding first and the
head last; ``optimizer_time_ms`` is that of all layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsim.errors import SpecError
from xsim.interop.profiles import Row, layer_times, loaded, number

__all__ = ["metis_rows"]


def metis_rows(text: str, device: str, tp: int, batch: int, path: str) -> Iterator[Row]:
    """The rows of a table of measured times; the optimizer's time is shared out by the parameters of the layers.

    Raises:
        SpecError: It is no such file; the field begins with ``path``.
    """
    found = loaded(text, path)
    try:
        execution, sizes = found["execution_time"], found["model"]["parameters"]["parameters_per_layer_bytes"]
        times, update = execution["layer_compute_total_ms"], execution["optimizer_time_ms"]
    except (KeyError, TypeError) as error:
        raise SpecError(path, text[:40], f"it has no {error}", "name a file of Metis's profiler") from None
    if not (isinstance(times, list) and isinstance(sizes, list) and len(times) == len(sizes) >= 3):
        raise SpecError(path, times, "it has no times and sizes of three layers or more", "name a file of Metis's")
    if not all(number(each, path) for each in (*times, *sizes, update)):
        raise SpecError(path, text[:40], "a time or size in it is 0", "name a file of Metis's profiler")
    for name, time_ms in layer_times([number(each, f"{path}.layer_compute_total_ms") for each in times]).items():
        yield device, name, "forward_backward", tp, batch, 0, time_ms * 1e3
    bytes_ = [number(each, f"{path}.parameters_per_layer_bytes") for each in sizes]
    each_us = number(update, f"{path}.optimizer_time_ms") * 1e3 / sum(bytes_)
    for name, size in layer_times(bytes_).items():
        yield device, name, "update", tp, 0, 0, size * each_us
