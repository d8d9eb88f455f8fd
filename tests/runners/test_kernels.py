"""The packaged efficiency curves are those that the published kernels give, and near what they leave out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from runners.calibrate import main
from runners.kernel_fit import CARRIED, Fit, errors, fit_curve, library
from runners.kernel_report import (
    CARRIED_TARGET,
    KERNEL_TARGET,
    KernelsFound,
    calibrate_kernels,
    carried_off,
    kernels_text,
    met,
)
from runners.kernels import read_kernels

MEASURED = ("a100_80", "h100_80", "h200", "b200")
ROW = {
    "m": "4096",
    "n": "4096",
    "k": "4096",
    "time_ms": "0.5",
    "op": "gemm",
    "group": "aic_gemm_a100_sxm",
    "source": "x",
}


@pytest.fixture(scope="module")
def found(reference_data: Path) -> KernelsFound:
    return calibrate_kernels(*read_kernels(reference_data / "measured" / "kernels.csv"))


@pytest.mark.parametrize("kind", ["product", "attention"])
@pytest.mark.parametrize("device", MEASURED)
def test_the_roofline_is_near_the_shapes_that_no_fit_has_seen(found: KernelsFound, device: str, kind: str) -> None:
    held = met(found, device, kind)

    assert len(held) > 200
    assert fmean(map(abs, held)) < KERNEL_TARGET


def test_the_packaged_curves_are_fitted(found: KernelsFound) -> None:
    """To three digits."""
    for fit, curve in found.fits:
        own = library(fit.device).efficiency
        assert [getattr(own, name) for name in fit.begin] == pytest.approx(
            [getattr(curve, name) for name in fit.begin], rel=0.02
        )


def test_the_shape_tells_more_than_the_flops(found: KernelsFound) -> None:
    """Attention by its FLOPs alone is as far off again as it is by its shape."""
    kernels = [kernel for kernel, _ in found.errors if kernel.group == "aic_attn_h100_sxm" and kernel.held_out]
    by_flops = replace(
        library("h100_80").efficiency, attention=0.43, attention_half_flops=1.7e10, attention_half_keys=None
    )

    assert fmean(map(abs, errors(kernels, by_flops))) > 2 * fmean(map(abs, errors(kernels)))


@pytest.mark.parametrize("kind", ["product", "attention"])
@pytest.mark.parametrize(("source", "target"), CARRIED)
def test_a_curve_carried_to_another_device_is_near_its_kernels(
    found: KernelsFound, source: str, target: str, kind: str
) -> None:
    off = carried_off(found, source, target)[kind]

    assert len(off) > 400
    assert fmean(map(abs, off)) < CARRIED_TARGET


def test_the_report_says_what_was_met(found: KernelsFound) -> None:
    report = kernels_text(found)

    assert report.count("| yes |\n") == 8 + 2 * len(CARRIED)
    assert "| aicb_a100 | 26 | whole layers, not operators |" in report


def table(folder: Path, *rows: dict[str, str]) -> Path:
    path = folder / "kernels.csv"
    path.write_text("\n".join([",".join(ROW), *(",".join(row.values()) for row in rows)]))
    return path


def test_all_measurements_of_a_shape_are_held_out_or_none(tmp_path: Path) -> None:
    twice = [ROW | {"m": str(m), "time_ms": time} for m in range(1, 65) for time in ("0.1", "0.2")]

    kernels, left_out = read_kernels(table(tmp_path, *twice))

    held = {kernel.shape for kernel in kernels if kernel.held_out}
    assert held.isdisjoint(kernel.shape for kernel in kernels if not kernel.held_out)
    assert 20 < len(held) < 44
    assert left_out == {}


def test_a_search_finds_the_fraction_that_made_the_times(tmp_path: Path) -> None:
    """Large products at 60 % of an A100's peak."""
    shapes = [(m, n) for m in (8192, 16384, 32768) for n in (8192, 16384, 32768)]
    rows = [
        ROW | {"m": str(m), "n": str(n), "k": "65536", "time_ms": str(2 * m * n * 65536 / 0.6 / 312e12 * 1e3)}
        for m, n in shapes
    ]
    kernels, _ = read_kernels(table(tmp_path, *rows))
    fit = Fit("a100_80", "product", {"matmul": 0.8}, ("aic_gemm_a100_sxm",))

    curve = fit_curve(fit, kernels, replace(library("a100_80").efficiency, processors=1, inner_ramp=0.0, edge_ramp=0.0))

    assert curve.matmul == pytest.approx(0.6, rel=0.01)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (None, "there is no measured/kernels.csv in it"),
        ([], "no row of a kernel is in it"),
        ([ROW | {"m": "wide"}], "its kernels.csv is no table of measurements (ValueError"),
        ([ROW], "is there to fit"),
    ],
)
def test_what_cannot_be_calibrated_is_one_line(
    rows: list[dict[str, str]] | None,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XSIM_REFERENCE_DATA", str(tmp_path))
    if rows is not None:
        (tmp_path / "measured").mkdir()
        table(tmp_path / "measured", *rows)

    assert main(["--kernels", str(tmp_path / "report.md")]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line
    assert not (tmp_path / "report.md").exists()
