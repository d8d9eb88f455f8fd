"""The device library: ``devices.yaml`` beside this file, each figure with its source on its line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from xsim.errors import SpecError
from xsim.spec.naming import nearest
from xsim.spec.yaml_text import load

__all__ = ["MEASURED", "device_names", "entry"]

MEASURED = ("a100_80", "b200", "h100_80", "h200")  # whose matrix products and attention were fitted to measurements


def device_names() -> tuple[str, ...]:
    """Every device of the library."""
    return tuple(_devices())


def entry(name: object) -> Mapping[str, object]:
    """The full form of one device, as plain data.

    Raises:
        SpecError: There is no such device.
    """
    if not isinstance(name, str) or name not in _devices():
        raise SpecError("", name, "there is no such device", nearest(name, device_names()))
    return {"name": name, **_devices()[name]}


@cache
def _devices() -> Mapping[str, Mapping[str, object]]:
    text = resources.files("xsim.spec").joinpath("devices.yaml").read_text(encoding="utf-8")
    devices: Mapping[str, Mapping[str, object]] = load(text)
    return devices
