"""Every run of the reference simulators that chance has no say in, and those of htsim's RoCE, against the kernel."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tests.oracles.reference import HEADER_BYTES, completions, read_scenario
from tests.sim.routed import routed
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.congestion.dctcp import Dctcp
from xsim.sim.congestion.hpcc import Hpcc
from xsim.sim.congestion.timely import Timely
from xsim.sim.contracts import CongestionControl
from xsim.sim.packets.replay import Outcome, replay
from xsim.sim.packets.settings import Settings

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SCRIPTED: dict[str, CongestionControl] = {"dctcp": Dctcp(), "hpcc": Hpcc(), "timely": Timely(), "dcqcn": Dcqcn()}
SIMAI = Dcqcn(raise_ns=900_000, step_mbps=50, leap_mbps=100, least_mbps=100, windowed=True)
SAME = {"single6": "single_6hop_1M"}
LARGE = ("ft432", "ft1024")  # of which htsim's runs are permutations alone
QUICK = (
    *("hpcc_nocc9000_single_2hop_1M", "sai_dcqcn9000_ft16_ring8_1M", "hpcc_dcqcn9000_ft16_ring8_4M"),
    *("hts_roce1000_single_6hop_10K", "hts_roce9000_single_6hop_1M", "hts_roce9000_star17_incast16_1M"),
    *("hts_roce9000_star3_incast2_1M", "hts_roce1000_star17_incast16_1M", "hts_roce9000_ft16_ring8_1M"),
)
DRAWN = ("hpcc_dcqcn9000_star17_incast16_1M", "sai_dcqcn9000_star17_incast16_1M")
SEEDS = 100  # of 20, the deviation itself deviates by a sixth


@dataclass(frozen=True, slots=True)
class Case:
    """``<simulator>_<setting>_<scenario>``."""

    simulator: str
    setting: str
    scenario: str

    @property
    def settings(self) -> Settings:
        """What the run was made with."""
        if self.simulator == "hts":
            return Settings(payload_bytes=int(self.setting.removeprefix("roce")), header_bytes=64, ack_bytes=64)
        if self.setting in SCRIPTED:
            return Settings(tick_ps=1000, congestion=SCRIPTED[self.setting])
        control = self.setting.rstrip("0123456789")
        plain = Settings(
            tick_ps=1000,
            payload_bytes=int(self.setting.removeprefix(control)),
            header_bytes=HEADER_BYTES[self.simulator],
        )
        if control == "nocc":
            return plain
        if control != "dcqcn":
            return replace(plain, congestion=SCRIPTED[control])
        return replace(plain, congestion=SIMAI, window="path" if self.simulator == "hpcc" else "auto")


def cases(folder: Path, quick: tuple[str, ...] = QUICK) -> Iterator[Case]:
    """Of all files that tell completion times of flows; those of the scripts have a part more in their names."""
    for file in sorted(folder.glob("*.csv")):
        simulator, setting, name = file.stem.replace("_rp_", "_").split("_", 2)
        if simulator in ("hpcc", "sai", "hts") and (SOAK or file.stem in quick):
            yield Case(simulator, setting, name)


def played(folder: Path, case: Case, seed: int = 0) -> tuple[dict[int, tuple[int, int]], Outcome]:
    """(start, completion time at the sender) of the flows by id, in ns; htsim fills up the last packet of a flow."""
    graph, flows = read_scenario(folder, SAME.get(case.scenario, case.scenario))
    settings = replace(case.settings, seed=seed)
    if case.simulator == "hts":
        full = settings.payload_bytes
        flows = replace(flows, size_bytes=-(-flows.size_bytes // full) * full)
    outcome = replay(graph, routed(graph, flows), settings)
    took_ns = (outcome.sender_end_ps - outcome.start_ps) // 1000
    times = zip((outcome.start_ps // 1000).tolist(), took_ns.tolist(), strict=True)
    return dict(zip(flows.number.tolist(), times, strict=True)), outcome


@pytest.fixture(scope="module")
def scenarios(reference_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all scenarios; the reference makes its large ones anew."""
    if not SOAK:
        return reference_data / "netref"
    folder = tmp_path_factory.mktemp("reference")
    (folder / "scenarios").mkdir()
    script = reference_data / "netref" / "scenarios" / "gen.py"
    subprocess.run([sys.executable, script, folder / "scenarios"], check=True)
    return folder


def expected_of(folder: Path, case: Case) -> dict[int, tuple[int, int]]:
    """The same as the reference has it; htsim's times are fractions."""
    if case.simulator == "hts":
        with (folder / f"hts_{case.setting}_{case.scenario}.csv").open() as file:
            rows = list(csv.DictReader(file))
        return {int(row["flow_id"]): (round(float(row["start_ns"])), round(float(row["fct_ns"]))) for row in rows}
    setting = (
        f"rp_{case.setting}" if (folder / f"hpcc_rp_{case.setting}_{case.scenario}.csv").is_file() else case.setting
    )
    return completions(folder, case.simulator, setting, case.scenario)


def test_every_flow_ends_when_the_reference_has_it_end(reference_data: Path, scenarios: Path) -> None:
    folder, exact, parted = reference_data / "netref", 0, dict[Case, str]()
    for case in cases(folder):
        if case.simulator == "hts":
            continue
        found, outcome = played(scenarios, case)
        expected = expected_of(folder, case)
        if outcome.links.marks.sum() and "dcqcn" in case.setting:
            continue  # drawn
        exact += 1
        wrong = sum(found[flow] != times for flow, times in expected.items())
        if wrong or not expected:
            parted[case] = f"{wrong} of {len(expected)} flows"
    assert not parted
    assert exact >= (70 if SOAK else 3)


def test_drawn_marks_leave_the_mean_within_two_standard_deviations(reference_data: Path, scenarios: Path) -> None:
    """DCQCN where queues are marked: the reference's one draw among ours."""
    folder, parted, seen = reference_data / "netref", dict[Case, str](), 0
    for case in cases(folder, DRAWN):
        if "dcqcn" not in case.setting:
            continue
        expected = expected_of(folder, case)
        means = list[float]()
        for seed in range(SEEDS):
            found, outcome = played(scenarios, case, seed)
            if not outcome.links.marks.sum():
                break
            means.append(float(np.mean([found[flow][1] for flow in expected])))
        if not means:
            continue
        seen += 1
        theirs = float(np.mean([took_ns for _, took_ns in expected.values()]))
        if abs(theirs - np.mean(means)) > 2 * np.std(means, ddof=1):
            parted[case] = f"{theirs:.0f} ns, ours {np.mean(means):.0f} +- {np.std(means, ddof=1):.0f}"
    assert not parted
    assert seen >= (13 if SOAK else 2)


def test_htsim_s_roce_agrees_where_no_path_is_drawn(reference_data: Path, scenarios: Path) -> None:
    """One flow, and incasts on a star: every flow. Rings, whose draws rarely meet: mean and makespan."""
    folder, seen = reference_data / "netref", 0
    for case in cases(folder):
        if case.simulator != "hts" or case.scenario.startswith(LARGE) or "perm" in case.scenario:
            continue
        if case.scenario.startswith("ft128_incast"):
            continue
        found, _ = played(scenarios, case)
        expected = expected_of(folder, case)
        ours, theirs = (np.array([times[flow] for flow in expected]) for times in (found, expected))
        seen += 1
        assert ours[:, 1].mean() == pytest.approx(theirs[:, 1].mean(), rel=0.02), case
        assert ours.sum(1).max() == pytest.approx(theirs.sum(1).max(), rel=0.02), case
        if not case.scenario.startswith("ft"):
            assert ours[:, 1] == pytest.approx(theirs[:, 1], rel=0.05), case
    assert seen >= (20 if SOAK else 6)
