"""Fast forward against packet by packet, on the scenarios that the reference runs were made of."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.oracles.reference import read_scenario
from tests.sim.routed import routed
from tests.sim.test_packets import CONTROLS, HEADER_BYTES
from tests.sim.test_packets_skip import be_eager, both, close
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.packets.replay import Outcome
from xsim.sim.packets.settings import Settings

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
HEADERS = {**HEADER_BYTES, "hts": 64}
SIMAI_DCQCN = Dcqcn(raise_ns=900_000, step_mbps=50, leap_mbps=100, least_mbps=100, windowed=True)
LONE = tuple(f"single_{case}" for case in ("2hop_1M", "4hop_1M", "6hop_10K", "6hop_1M", "6hop_10M"))
NAMES = (
    *LONE,
    *("star3_incast2_1M", "star17_incast16_1M", "star9_ring8_1M", "star9_ring8_4M"),
    *(f"ft16_{case}" for case in ("perm_1M", "ring8_1M", "ring8_4M", "ring16_1M", "ring16_4M")),
    *("ft128_incast16_1M", "ft128_perm_1M"),
)
LARGE = (
    *(f"ft128_ring{hosts}_{size}" for hosts in (64, 128) for size in ("1M", "4M")),
    *("ft432_perm_1M", "ft1024_perm_1M"),
)
SETTINGS = (
    *("hpcc_nocc1000", "hpcc_nocc9000", "sai_nocc1000", "sai_nocc9000", "hts_roce1000", "hts_roce9000"),
    *("hpcc_dcqcn1000", "hpcc_dcqcn9000", "sai_dcqcn1000", "sai_dcqcn9000"),
    *(f"hpcc_rp_{control}" for control in CONTROLS),
)
CASES = [(setting, name) for setting in SETTINGS for name in NAMES]
SKIPPED = [
    *((setting, name) for setting in ("hpcc_nocc1000", "sai_dcqcn9000", "hts_roce9000") for name in LONE[::2]),
    *(("hpcc_nocc1000", "ft16_ring8_4M"), ("hpcc_dcqcn1000", "star3_incast2_1M"), ("hpcc_rp_dcqcn", LONE[-1])),
]


@pytest.mark.parametrize(("setting", "name"), CASES if SOAK else random.Random(0).sample(CASES, 8))
def test_fast_forward_is_close_on_the_scenarios_of_the_reference(reference_data: Path, setting: str, name: str) -> None:
    assert close(*played(reference_data / "netref", setting, name))


@pytest.mark.parametrize(("setting", "name"), SKIPPED)
def test_where_streams_repeat_themselves_packets_are_skipped(reference_data: Path, setting: str, name: str) -> None:
    exact, fast = played(reference_data / "netref", setting, name)

    assert close(exact, fast)
    assert fast.events < exact.events or name == "single_6hop_10K", "ten packets are too few"


@pytest.mark.skipif(not SOAK, reason="tens of millions of events")
@pytest.mark.parametrize("name", LARGE)
def test_fast_forward_is_close_on_the_large_scenarios(reference_data: Path, tmp_path: Path, name: str) -> None:
    """Which are not stored, but made."""
    (tmp_path / "scenarios").mkdir()
    script = reference_data / "netref" / "scenarios" / "gen.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "scenarios")], check=True)

    for setting in ("hpcc_nocc9000", "sai_dcqcn9000", "hts_roce9000"):
        assert close(*played(tmp_path, setting, name)), setting


def played(folder: Path, setting: str, name: str) -> tuple[Outcome, Outcome]:
    """Packet by packet, and with skips wherever they can be, however short."""
    graph, listed = read_scenario(folder, name)
    with pytest.MonkeyPatch.context() as patch:
        be_eager(patch)
        return both(graph, routed(graph, listed), settings_of(setting))


def settings_of(setting: str) -> Settings:
    """What the files ``<setting>_<scenario>.csv`` were made with, but for the seed."""
    program, _, kind = setting.partition("_")
    settings = Settings(tick_ps=1000, header_bytes=HEADERS[program])
    if kind.startswith("rp_"):
        return replace(settings, congestion=CONTROLS[kind.removeprefix("rp_")])
    payload_bytes = int(kind.lstrip("abcdefghijklmnopqrstuvwxyz"))
    settings = replace(settings, payload_bytes=payload_bytes)
    return replace(settings, congestion=SIMAI_DCQCN) if kind.startswith("dcqcn") else settings
