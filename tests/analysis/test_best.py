from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import best
from analysis.best import COST, METRICS, TIME, Group, front, groups, leaders

NAN, INF = float("nan"), float("inf")


def row(reshard: str = "lcm", time_s: float = 2.0, usd: float | None = 1.0, **more: Any) -> dict[str, Any]:
    plain = {"status": "ok", "fits": True, "cluster": "fig4", "model": "llama", "seed": 0, "batch": 8, "point": ""}
    figures = {TIME: time_s, COST: usd, "tokens_per_s": 100.0 / time_s, "mfu": 1 / time_s, "bubble_time_s": 0.5}
    return plain | {"network": "flow", "reshard": reshard} | figures | {"peak_memory_bytes": 7} | more


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def test_the_best_point_of_every_figure_that_differs() -> None:
    (group,) = groups(table([row("lcm", 2.0, 1.0), row("star", 1.0, 3.0), row("ntp", 1.0, 2.0)]))

    found = {one.metric: (one.row["reshard"], one.value, one.alike) for one in leaders(group)}

    assert found == {
        "training_time_s": ("star", 1.0, 1),
        "tokens_per_s": ("star", 100.0, 1),
        "mfu": ("star", 1.0, 1),
        "usd_per_iteration": ("lcm", 1.0, 0),
    }
    assert [(each["reshard"], alike) for each, alike in front(group)] == [("ntp", 0), ("lcm", 0)]


@pytest.mark.parametrize("figure", [NAN, INF, -INF, None])
def test_mlflow_25640_what_is_no_number_is_never_best(figure: float | None) -> None:
    (group,) = groups(table([row("lcm"), row("odd", 1.5, figure, mfu=figure, bubble_time_s=figure), row("star", 3.0)]))

    by_figure = {one.metric: one.row["reshard"] for one in leaders(group)}

    assert by_figure["training_time_s"] == "odd"
    assert by_figure["mfu"] == "lcm"
    assert all(each["reshard"] != "odd" for each, _ in front(group))
    (alone,) = groups(table([row("odd", math.nan), row("lcm")]))
    assert [each["reshard"] for each in alone.rows] == ["lcm"]


def test_only_what_trains_the_same_is_compared() -> None:
    rows = [row(), row("star"), row(model="gpt", reshard="ntp"), row(reshard="best", tokens_per_s=100.0)]
    others = [row(fits=False, time_s=0.1), row(status="failed", time_s=0.1)]

    found = groups(table([*rows, *others]))

    assert [(group.model, group.tokens, len(group.rows)) for group in found] == [
        ("llama", 100, 2),
        ("gpt", 100, 1),
        ("llama", 200, 1),
    ]
    assert [found[0].name(each) for each in found[0].rows] == ["lcm", "star"]


points = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12)


@given(points)
def test_the_front_is_what_nothing_beats(figures: list[tuple[int, int]]) -> None:
    rows = tuple(row(str(number), float(time_s), float(usd)) for number, (time_s, usd) in enumerate(figures))

    found = [(each[TIME], each[COST]) for each, _ in front(Group("llama", 1, "", rows, ("reshard",)))]

    def beaten(one: tuple[int, int]) -> bool:
        return any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in figures)

    assert found == sorted({one for one in figures if not beaten(one)})


def test_figures_that_print_alike_are_alike() -> None:
    """Half a microsecond of three seconds makes no strategy the best one."""
    rows = [row("lcm", 3.2103005, 1.0), row("hetauto", 3.235, 1.0), row("alpacomm", 3.21030049, 1.0000001)]
    (group,) = groups(table(rows))

    found = {one.metric: (one.row["reshard"], one.alike) for one in leaders(group)}

    assert found == dict.fromkeys(("training_time_s", "tokens_per_s", "mfu"), ("lcm", 1))
    assert [(each["reshard"], alike) for each, alike in front(group)] == [("lcm", 1)]


def test_points_that_do_not_fit_are_counted() -> None:
    misfits = [row("star", 1.0, fits=False), row("ntp", 1.0, status="does_not_fit", fits=None)]
    out, none = io.StringIO(), io.StringIO()

    best.show(table([row(), row("hetauto", 3.0), *misfits]), out)
    best.show(table([row(), row("hetauto", 3.0)]), none)

    assert "best of 2 points" in out.getvalue()
    assert out.getvalue().endswith("none of the best: 2 points left out that do not fit into memory\n")
    assert "left out" not in none.getvalue()


def test_ownership_is_no_figure_to_choose_by() -> None:
    assert not any("tco" in metric for metric in METRICS)


def test_the_report_names_points_by_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()

    assert best.show(table([row("lcm", 2.0, 1.0), row("star", 1.0, 3.0), row("ntp", 1.0, 3.0)]), out)

    shown = out.getvalue()
    assert "best of 3 points: llama, 100 tokens an iteration" in shown
    assert "| training_time_s   |     1 | star (and 1 more) |" in shown
    assert "|        2 |                1 | lcm               |" in shown
    assert not best.show(table([row()]), out)


def test_many_groups_are_cut_in_a_report_alone(tmp_path: Path) -> None:
    rows = [row(name, model=f"m{number}") for number in range(8) for name in ("lcm", "star")]
    out = io.StringIO()

    best.show(table(rows), out)
    assert out.getvalue().count("best of 2 points") == 6
    assert "and 2 groups more: analysis.best shows them" in out.getvalue()


def test_a_model_of_one_name_with_other_layers_is_another() -> None:
    """As is another precision; each network is a table of its own."""
    rows = [
        row(
            reshard, network=network, config_json=f'{{"model": {{"layers": {layers}}}}}', point=f"model.layers={layers}"
        )
        for layers in (1, 4)
        for network in ("flow", "analytic")
        for reshard in ("lcm", "star")
    ]

    found = groups(table(rows))

    assert [len(group.rows) for group in found] == [2, 2, 2, 2]
    assert [group.title for group in found][:2] == [
        "llama, 100 tokens an iteration (model.layers=1, network=flow)",
        "llama, 100 tokens an iteration (model.layers=1, network=analytic)",
    ]
