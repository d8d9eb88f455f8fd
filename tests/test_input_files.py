"""docs/input_files.md has every key of every input file, once, and which may be left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    DeviceSpec,
    DomainSpec,
    EfficiencyCurve,
    HostSpec,
    LinkSpec,
    NicSpec,
    PcieLevel,
    ScaleOutSpec,
)
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.naming import text_fields

PAGE = (Path(__file__).parent.parent / "docs" / "input_files.md").read_text(encoding="utf-8")
TABLES = dict(
    re.findall(r"^\| key of (.*?) \| default \| meaning \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
)
CLASSES: dict[str, Any] = {
    "a deployment": DeploymentPlan,
    "a replica": Replica,
    "a stage": Stage,
    "a device group": DeviceGroup,
    "a recomputation": Recompute,
    "a cluster": ClusterSpec,
    "a kind of host": HostSpec,
    "the devices of a host": DeviceSlot,
    "a domain": DomainSpec,
    "a level of the PCIe tree": PcieLevel,
    "a NIC": NicSpec,
    "the scale-out network": ScaleOutSpec,
    "a link": LinkSpec,
    "a device": DeviceSpec,
    "an efficiency curve": EfficiencyCurve,
    "a model": ModelSpec,
}
SHORTHANDS = {("a device", "library"), ("a device", "name"), ("a device group", "samples")}


def rows(title: str) -> dict[str, str]:
    """The default of each key, as the page has it."""
    cells = [line.strip("|").split("|") for line in TABLES[title].splitlines()]
    return {key: default.strip() for keys, default, _ in cells for key in re.findall(r"`(\w+)`", keys)}


def test_every_table_is_of_a_class() -> None:
    assert sorted(TABLES) == sorted(CLASSES)


@pytest.mark.parametrize("title", sorted(CLASSES))
def test_every_key_is_there_with_its_default_if_it_has_one(title: str) -> None:
    fields, found = text_fields(CLASSES[title]), rows(title)

    assert sorted(key for key in found if key != "library") == sorted(fields)
    for name, field in fields.items():
        assert bool(found[name]) is not field.required or (title, name) in SHORTHANDS, name
