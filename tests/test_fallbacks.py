"""What stands in for figures that the hardware does not have is told."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources

import pytest

from tests.plan.toy import cluster, model
from xsim.fallbacks import fallbacks
from xsim.plan.noted import NOT_SUMMED, Taken
from xsim.spec.cluster import DeviceSpec
from xsim.spec.codec import from_plain
from xsim.spec.library import MEASURED, device_names
from xsim.spec.scenario import Scenario

IDEAL = Taken("all_reduce", 8, 1, 1000, "ring", protocol=False)
PRICED = replace(IDEAL, way="ring, ll", protocol=True)
RINGS = replace(IDEAL, way=NOT_SUMMED)


def told(device: DeviceSpec, *taken: Taken) -> tuple[str, ...]:
    scenario = Scenario(cluster=cluster(2, devices=(device,)), model=model(), batch=1)
    return fallbacks(scenario, [0, 1], taken)


@pytest.mark.parametrize(
    ("name", "taken", "texts"),
    [
        ("h100_80", (IDEAL, PRICED), ()),
        ("a100_40", (PRICED,), ("a100_40 has no measured efficiency curve",)),
        ("v100_32", (IDEAL,), ("v100_32 has no peak rate for bf16", "v100_32 has no measured efficiency curve")),
        ("ascend_910b2", (PRICED,), ("ascend_910b2 has no measured eff", "ascend_910b2 has no measured costs of prot")),
        ("h100_80", (IDEAL, RINGS), ("1 of 2 kinds of collectives go by rings",)),
    ],
)
def test_each_is_told_once(name: str, taken: tuple[Taken, ...], texts: tuple[str, ...]) -> None:
    found = told(replace(from_plain(DeviceSpec, name), scale_up=from_plain(DeviceSpec, "h100_80").scale_up), *taken)

    assert len(found) == len(texts)
    assert all(text.startswith(start) for text, start in zip(found, texts, strict=True))


def test_an_own_curve_or_rate_is_no_fallback() -> None:
    library = from_plain(DeviceSpec, "a100_40")

    assert told(replace(library, efficiency=replace(library.efficiency, matmul=0.5))) == ()
    assert told(replace(library, rate_flops_per_s=1e14)) == ()
    assert told(replace(library, name="mine")) == ()


def test_only_devices_that_are_used_count() -> None:
    devices = tuple(from_plain(DeviceSpec, name) for name in ("h100_80", "v100_32"))
    scenario = Scenario(cluster=cluster(2, 2, devices=devices), model=model(), batch=1)

    assert fallbacks(scenario, [0, 1], (IDEAL,)) == ()
    assert len(fallbacks(scenario, [1, 2, 3], (IDEAL,))) == 2


def test_measured_are_those_that_the_library_says_were_fitted() -> None:
    text = resources.files("xsim.spec").joinpath("devices.yaml").read_text(encoding="utf-8")
    entries = re.split(r"^(\w+):$", text, flags=re.MULTILINE)
    bodies = zip(entries[1::2], entries[2::2], strict=True)
    fitted = {name for name, body in bodies if re.search(r"matmul: .*# fit", body)}

    assert fitted == set(MEASURED) <= set(device_names())
