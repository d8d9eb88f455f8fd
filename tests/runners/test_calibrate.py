"""The packaged costs are those that the published measurements give, and auto is near what they leave out."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from runners.calibrate import calibrate, main
from runners.calibration import Costs, errors
from runners.calibration_report import HOST_TARGET, NETWORK_TARGET, Fit, Found, held_out_parts, mean_error, text
from runners.measured import cluster, read
from xsim.spec.protocols import PROTOCOLS, generations

FITTED = {"ampere": "scale_up", "hopper": "scale_up", "blackwell": "scale_up", "ada": "pcie"}
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


@pytest.fixture(scope="module")
def found(reference_data: Path) -> Found:
    """Of one host and of several with up to 16 ranks; in a soak run of all."""
    rows, left_out = read(reference_data / "measured" / "collectives.csv")
    return calibrate([row for row in rows if SOAK or row.hosts == 1 or row.ranks <= 16], left_out)


def packaged(name: str, fit: Fit) -> Costs:
    """Of a generation, as a fit finds them."""
    own, link = generations()[name], FITTED[name]
    modes = [own.cost(link, mode) for mode in (*PROTOCOLS, "pairs_ll", "pairs_simple")]  # type: ignore[arg-type]
    if own.in_switch is not None:
        modes.append(own.in_switch)
    (ll, ll128, simple, pairs_ll, pairs_simple, *in_switch) = [(mode.delay_ps * 1e-6, mode.share) for mode in modes]
    return Costs(
        base_us=own.base_ps * 1e-6,
        delays_us=(ll[0], ll128[0], simple[0]),
        shares=(ll[1], ll128[1], simple[1]),
        in_switch=in_switch[0] if in_switch and fit.costs.in_switch else None,
        pairs=(pairs_ll, pairs_simple) if fit.costs.pairs else None,
        uplinks=fit.costs.uplinks,
    )


@pytest.mark.parametrize("name", FITTED)
def test_the_packaged_costs_are_fitted(found: Found, name: str) -> None:
    """They meet the rows as well as what a fit finds here: what the rows leave open, a machine's rounding decides."""
    fit = found.fits[name]

    def misfit(costs: Costs) -> float:
        return fmean(map(abs, errors(fit.fitted, costs, fit.wires, fit.in_switch_ranks).values()))

    assert misfit(packaged(name, fit)) == pytest.approx(misfit(fit.costs), abs=0.0015)
    assert misfit(replace(packaged(name, fit), base_us=packaged(name, fit).base_us + 1)) > misfit(fit.costs) + 0.0015


def test_the_uplinks_of_the_l40s_host_are_fitted(found: Found) -> None:
    """Pairs and fours: 2 ranks use none, 4 ranks those of pairs, 8 both."""
    (machine,) = {row.machine for row in found.errors if row.machine.device == "l40s"}
    hosts = {ranks: cluster(machine, ranks, 1).hosts[0] for ranks in (2, 4, 8)}
    levels = [(level.devices, level.uplink.bandwidth_bytes_per_s) for level in hosts[8].pcie_tree]
    fitted = found.fits["ada"].costs.uplinks

    assert {ranks: len(host.pcie_tree) for ranks, host in hosts.items()} == {2: 0, 4: 1, 8: 2}
    assert [devices for devices, _ in levels] == [devices for devices, _ in fitted]
    assert [rate for _, rate in levels] == pytest.approx([rate for _, rate in fitted], rel=0.03)


@pytest.mark.parametrize(("name", "least"), [("ampere", 80), ("hopper", 80), ("blackwell", 80), ("ada", 60)])
def test_on_one_host_auto_is_near_the_sizes_that_no_fit_has_seen(found: Found, name: str, least: int) -> None:
    own = [row for row in found.errors if row.hosts == 1 and row.machine.device in generations()[name].devices]
    held = held_out_parts(own)["sizes between"]

    assert len(held) >= least
    assert mean_error(found, held) < HOST_TARGET


def test_sources_without_a_version_are_met_by_costs_of_their_own(found: Found) -> None:
    held = [abs(error) for fit in found.own_fits.values() for error in fit.held_out]

    assert set(found.own_fits) >= {"nccl_superbench_a100", "stas_a100", "vtrain_nccl_a100"}
    assert len(held) >= 50
    assert fmean(held) < HOST_TARGET


def test_over_hosts_auto_is_near_the_sizes_that_no_fit_has_seen(found: Found) -> None:
    held = [row for row in found.errors if row.hosts > 1 and row.held_out_by_size]

    assert len(held) >= 20
    assert mean_error(found, held) < NETWORK_TARGET


def test_the_report_says_what_was_met(found: Found) -> None:
    report = text(found)

    assert "| hopper | sizes between | all | 189 |" in report
    assert "| ada | sizes between | all |" in report
    assert "flagged as not to be trusted" in report


@pytest.mark.parametrize(
    ("table", "report", "problem"),
    [
        (None, "report.md", "there is no measured/collectives.csv in it"),
        ("a,b\n1,2\n", "report.md", "its collectives.csv is no table of measurements"),
        ("", "report.md", "no row of these devices is there to fit"),
        ("", "nowhere/report.md", "its folder does not exist"),
    ],
)
def test_what_cannot_be_calibrated_is_one_line(
    table: str | None,
    report: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XSIM_REFERENCE_DATA", str(tmp_path))
    if table is not None:
        (tmp_path / "measured").mkdir()
        (tmp_path / "measured" / "collectives.csv").write_text(table)

    assert main([str(tmp_path / report)]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line
    assert not (tmp_path / report).exists()
