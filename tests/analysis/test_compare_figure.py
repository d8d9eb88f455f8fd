"""The figure of a comparison."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.cases import compare
from analysis.plots import save_bars
from tests.analysis.compared import GRID, table


def test_the_figure_is_a_picture(tmp_path: Path) -> None:
    path = save_bars(compare(GRID), tmp_path / "figures" / "by_reshard.png")

    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_figure_marks_what_does_not_fit_and_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing bar would look like a zero, and one of a plan that cannot be like any other."""
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    many = table(*({"cluster": f"c{number}", "fits": number > 0} for number in range(100)))

    save_bars(compare(GRID), tmp_path / "few.png")
    save_bars(compare(many), tmp_path / "many.png")

    few, points = drawn
    for axes in few.axes:
        assert [patch.get_hatch() for patch in axes.patches] == [None, "////", None, None]
        assert [text.get_text().strip() for text in axes.texts] == ["invalid"]
    assert [(np.size(line.get_xdata()), line.get_marker()) for line in points.axes[0].lines] == [
        (99, "."),
        (1, "x"),
    ]
    for figure in drawn:
        legend = figure.axes[0].get_legend()
        assert legend is not None
        assert legend.get_texts()[-1].get_text() == "does not fit into memory"


@pytest.mark.filterwarnings("error")
def test_many_options_have_room_in_the_figure(tmp_path: Path) -> None:
    rows = [{"reshard": f"a_long_name_of_option_{number}"} for number in range(12)]

    save_bars(compare(table(*rows)), tmp_path / "by_reshard.png")


def test_a_figure_of_many_cases_is_points(tmp_path: Path) -> None:
    """Bars of 2,500 cases would be an image that no library can draw."""
    many = table(*({"cluster": f"c{number // 2}", "reshard": ("lcm", "hetauto")[number % 2]} for number in range(1400)))

    path = save_bars(compare(many), tmp_path / "x.png")

    assert path.read_bytes().startswith(b"\x89PNG")
