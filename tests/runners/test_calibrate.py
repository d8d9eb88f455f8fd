"""The packaged costs are those that the published measurements give, and auto is near what they leave out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.calibrate import calibrate
from runners.calibration_report import HOST_TARGET, NETWORK_TARGET, Found, held_out_parts, mean_error, text
from runners.measured import read
from xsim.spec.protocols import PROTOCOLS, generations

FITTED = {"ampere": "scale_up", "hopper": "scale_up", "blackwell": "scale_up", "ada": "pcie"}
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


@pytest.fixture(scope="module")
def found(reference_data: Path) -> Found:
    """Of one host and of several with up to 16 ranks; in a soak run of all."""
    rows, left_out = read(reference_data / "measured" / "collectives.csv")
    return calibrate([row for row in rows if SOAK or row.hosts == 1 or row.ranks <= 16], left_out)


def near(expected: float) -> object:
    return pytest.approx(expected, rel=0.03, abs=0.02)


@pytest.mark.parametrize(("name", "link"), FITTED.items())
def test_the_packaged_costs_are_fitted(found: Found, name: str, link: str) -> None:
    own, fitted = generations()[name], found.costs[name]
    costs = [own.cost(link, protocol) for protocol in PROTOCOLS]  # type: ignore[arg-type]

    assert own.base_ps * 1e-6 == near(fitted.base_us)
    assert [cost.delay_ps * 1e-6 for cost in costs] == [near(delay) for delay in fitted.delays_us]
    assert [cost.share for cost in costs] == [near(share) for share in fitted.shares]
    if own.in_switch is not None and fitted.in_switch is not None:
        assert (own.in_switch.delay_ps * 1e-6, own.in_switch.share) == tuple(map(near, fitted.in_switch))
    if own.pairs is not None and fitted.pairs is not None:
        pairs = [(cost.delay_ps * 1e-6, cost.share) for cost in (own.pairs.ll, own.pairs.simple)]
        assert pairs == [tuple(map(near, pair)) for pair in fitted.pairs]


@pytest.mark.parametrize("name", ["ampere", "hopper", "blackwell"])
def test_on_one_host_auto_is_near_the_sizes_that_no_fit_has_seen(found: Found, name: str) -> None:
    own = [row for row in found.errors if row.hosts == 1 and row.machine.device in generations()[name].devices]
    held = held_out_parts(own)["sizes between"]

    assert len(held) >= 80
    assert mean_error(found, held) < HOST_TARGET


def test_over_hosts_auto_is_near_the_sizes_that_no_fit_has_seen(found: Found) -> None:
    held = [row for row in found.errors if row.hosts > 1 and row.held_out_by_size]

    assert len(held) >= 20
    assert mean_error(found, held) < NETWORK_TARGET


def test_the_report_says_what_was_met(found: Found) -> None:
    report = text(found)

    assert "| hopper | sizes between | all | 189 |" in report
    assert "| ada | sizes between | all |" in report
    assert "flagged as not to be trusted" in report
