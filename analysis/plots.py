"""Figures of a comparison; matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.cases import Comparison, Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["save_bars"]

Case = Mapping[str, Figures]


def _behind(case: Case, option: str) -> float:
    """How much more training time than the fastest option takes, in per cent."""
    return 100 * (case[option].training_time_s / min(other.training_time_s for other in case.values()) - 1)


MEASURES: Mapping[str, Callable[[Case, str], float]] = {
    "training time [s]": lambda case, option: case[option].training_time_s,
    "bubble [s], mean of ranks": lambda case, option: case[option].bubble_time_s,
    "behind the fastest [%]": _behind,
}
WIDTH_PER_BAR = 0.28  # inches
LABEL_WIDTH = 1.0  # inches
LEGEND_MARK_WIDTH = 0.6  # inches
LETTER_WIDTH = 0.09  # inches, of matplotlib's default font at 10 points, on average
BARS_SHARE = 0.8  # of the room of a case
MANY = 60  # cases from which on bars are points, and cases have no names
MANY_WIDTH = 14.0  # inches


def save_bars(found: Comparison, path: Path) -> Path:
    """Grouped bars per case, one colour per option, one panel per measure; written to ``path``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path.parent.mkdir(parents=True, exist_ok=True)  # nothing is drawn in vain
    room = max(LABEL_WIDTH, WIDTH_PER_BAR * (len(found.options) + 1))
    many = len(found.cases) > MANY
    width = MANY_WIDTH if many else max(6.0, room * len(found.cases) + 1.0)
    figure = Figure(figsize=(width, 8.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(MEASURES), 1, sharex=True)
    for axes, (label, measure) in zip(panels, MEASURES.items(), strict=True):
        (_draw_points if many else _draw)(axes, found, measure)
        axes.set_ylabel(label)
    entry_width = LEGEND_MARK_WIDTH + LETTER_WIDTH * max(len(_label(found, option)) for option in found.options)
    entries = max(1, min(len(found.options), int(width / entry_width)))
    panels[0].legend(ncols=entries, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    if many:
        panels[-1].set_xlabel("cases, in the order of the table")
    else:
        panels[-1].set_xticks(range(len(found.cases)), ["\n".join(case) for case in found.cases], fontsize=7)
    figure.savefig(path, dpi=150)
    return path


def _draw(axes: Axes, found: Comparison, measure: Callable[[Case, str], float]) -> None:
    width = BARS_SHARE / len(found.options)
    for number, option in enumerate(found.options):
        heights = [measure(case, option) if option in case else 0.0 for case in found.cases.values()]
        offset = (number - (len(found.options) - 1) / 2) * width
        axes.bar([x + offset for x in range(len(heights))], heights, width, label=_label(found, option))
    axes.set_xlim(-0.6, len(found.cases) - 0.4)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_points(axes: Axes, found: Comparison, measure: Callable[[Case, str], float]) -> None:
    for option in found.options:
        points = [(x, measure(case, option)) for x, case in enumerate(found.cases.values()) if option in case]
        axes.plot(*zip(*points, strict=True), linestyle="none", marker=".", markersize=3, label=_label(found, option))
    axes.set_xlim(-0.6, len(found.cases) - 0.4)
    axes.spines[["top", "right"]].set_visible(False)


def _label(found: Comparison, option: str) -> str:
    return f"{found.by}={option}"
