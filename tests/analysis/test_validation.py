"""Errors by source and sweep, bounds that may be missed, and what the time account says of errors."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.validation import CAUSES, Bound, Case, Group, factors, rank_correlation
from analysis.validation_report import Report, explained


def case(number: int, *, measured_s: float, compute_s: float, bubble_s: float = 0.0, group: str = "noisy") -> Case:
    times: dict[str, Any] = dict.fromkeys((f"{cause}_time_s" for cause in CAUSES), 0.0)
    times |= {"compute_time_s": compute_s, "bubble_time_s": bubble_s, "mlp_time_s": compute_s, "peak_memory_bytes": 8.0}
    return Case(
        name=f"row {number}",
        group=group,
        source="",
        sweep="model on cluster",
        deployed="tp8",
        measured_s=measured_s,
        measured_bytes=10,
        predicted_s=compute_s + bubble_s,
        figures=times,
    )


def test_trends_are_told_only_of_sweeps() -> None:
    cases = [case(n, measured_s=n, compute_s=n * n) for n in range(1, 8)]

    assert [*Group("noisy", tuple(cases[:5])).sweeps] == []
    (sweep,) = Group("noisy", tuple(cases)).sweeps.values()
    assert rank_correlation(sweep) == pytest.approx(1)
    assert rank_correlation([case(n, measured_s=1, compute_s=n) for n in range(1, 8)]) is None


def test_a_trend_is_judged() -> None:
    rising = Group("noisy", tuple(case(n, measured_s=n, compute_s=n) for n in range(1, 8)))
    falling = Group("other", tuple(case(n, measured_s=n, compute_s=10 - n) for n in range(1, 8)))

    page = Report(groups=[rising, falling], bounds=[], missed={}, about={}).markdown({})

    assert "| noisy | model on cluster | 7 | 1.000 | ok |" in page
    assert "| other | model on cluster | 7 | -1.000 | below |" in page


def test_factors_find_the_cause_that_is_too_short() -> None:
    cases = [case(n, measured_s=n * 1.3 + 2, compute_s=n, bubble_s=2) for n in range(1, 8)]

    assert factors(cases) == pytest.approx({"compute": 1.3, "bubble": 1.0})
    assert factors(cases[:2]) == {}


def test_a_bound_is_passed_unless_it_is_known_to_be_missed() -> None:
    groups = [Group(name, (case(1, measured_s=1.0, compute_s=0.9, group=name),)) for name in ("noisy", "fine", "free")]
    bounds = [Bound(name="noisy", time=0.05, peers={}), Bound(name="f*e", time=0.2, peers={"Tool": 0.3})]

    report = Report(groups=groups, bounds=bounds, missed={"noisy": "one iteration each"}, about={})

    assert [report.verdict(group) for group in groups] == ["missed", "ok", "ok"]
    assert report.failed == []
    assert Report(groups=groups, bounds=bounds, missed={}, about={}).failed == ["noisy"]
    page = report.markdown({})
    assert "| noisy | 1 | 0 | 10.0% | 5.0% | -10.0% | 20.0% |  |  | missed |" in page
    assert "Its bound is missed: one iteration each" in page
    assert "Tool 30.0%" in page


def test_memory_has_a_bound_of_its_own() -> None:
    group = Group("noisy", (case(1, measured_s=1.0, compute_s=1.0),))

    report = Report(groups=[group], bounds=[Bound(name="noisy", memory=0.1, peers={})], missed={}, about={})

    assert report.failed == ["noisy"]


def test_a_row_is_explained_by_its_account() -> None:
    text = explained(case(1, measured_s=4.0, compute_s=2.0, bubble_s=1.0))

    assert text == "row 1 (tp8): 3 s for 4 s (-25.0%); compute 67%, bubble 33%; of operators mlp 67%"
