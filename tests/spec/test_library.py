"""The device library: complete, sourced, and in the right order of magnitude."""

from __future__ import annotations

from importlib import resources

import pytest

from xsim.spec.cluster import DeviceSpec
from xsim.spec.codec import from_plain
from xsim.spec.library import device_names

EACH = pytest.mark.parametrize("name", device_names())
NAMED = {
    *("a100_40", "a100_80", "h100_80", "h200", "b200", "gh200", "v100_16", "v100_32", "t4", "l40s"),
    *("rtx_2080", "titan_rtx", "rtx_3090", "ascend_910b2", "ascend_910b3", "ascend_910b4"),
}


def test_it_holds_what_the_users_name() -> None:
    assert set(device_names()) >= NAMED


@EACH
def test_every_device_is_plausible(name: str) -> None:
    device = from_plain(DeviceSpec, name)

    assert device.name == name
    assert device.peak("fp32") <= device.peak("bf16") <= 2250e12  # no sparse figure
    assert 200e9 < device.memory_bandwidth_bytes_per_s < 10e12
    assert 8 <= device.memory_bytes / 2**30 <= 200
    assert device.pcie.bandwidth_bytes_per_s < 64e9  # one direction, raw
    assert device.idle_power_w < device.power_w / 3
    assert device.price_usd / device.price_usd_per_hour > 1000  # hours to pay for it


@EACH
def test_peaks_double_with_each_halving_of_the_dtype(name: str) -> None:
    peaks = dict(from_plain(DeviceSpec, name).peak_flops_per_s)

    if "fp8" in peaks:
        assert peaks["fp8"] == pytest.approx(2 * peaks["bf16"], rel=0.03)
    if "tf32" in peaks:
        assert peaks["tf32"] == pytest.approx(peaks["bf16"] / 2, rel=0.03)
    if "bf16" in peaks:
        assert peaks["bf16"] == peaks["fp16"]


@pytest.mark.parametrize(
    ("name", "both_ways_gb_per_s"),
    [("v100_16", 300), ("a100_40", 600), ("a100_80", 600), ("h100_80", 900), ("h200", 900), ("b200", 1800)],
)
def test_nvlink_is_one_direction(name: str, both_ways_gb_per_s: int) -> None:
    link = from_plain(DeviceSpec, name).scale_up

    assert link is not None
    assert link.bandwidth_bytes_per_s == both_ways_gb_per_s * 1e9 / 2


@pytest.mark.parametrize("name", ["t4", "l40s", "rtx_2080", "titan_rtx", "rtx_3090"])
def test_cards_without_a_fabric(name: str) -> None:
    assert from_plain(DeviceSpec, name).scale_up is None


def test_every_figure_has_its_source_on_its_line() -> None:
    text = resources.files("xsim.spec").joinpath("devices.yaml").read_text(encoding="utf-8")
    bare = [line for line in text.splitlines() if line.strip() and not line.startswith("#") and not line.endswith(":")]

    assert [line for line in bare if len(line.partition("  # ")[2]) < 8] == []
