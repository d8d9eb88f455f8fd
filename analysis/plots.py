"""Figures of a comparison; matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.cases import Comparison, Figures

if TYPE_CHECKING:
    from matplotlib.artist import Artist
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
MISFIT = "does not fit into memory"
MISFIT_HATCH, MISFIT_MARKER = "////", "x"
STATUS_SIZE = 7  # points, of the word where there is no bar
BARS_SHARE = 0.8  # of the room of a case
MANY = 60  # cases from which on bars are points, and cases have no names
MANY_WIDTH = 14.0  # inches


def save_bars(found: Comparison, path: Path) -> Path:
    """Grouped bars per case, one colour per option, one panel per measure; written to ``path``.

    Bars of runs that do not fit are hatched. Where a run has no figures its status stands instead of the bar.
    """
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
    handles, labels = panels[0].get_legend_handles_labels()
    if any(not entry.fits for case in found.cases.values() for entry in case.values()):
        handles, labels = [*handles, _misfit_mark(many=many)], [*labels, MISFIT]
    entry_width = LEGEND_MARK_WIDTH + LETTER_WIDTH * max(map(len, labels))
    entries = max(1, min(len(labels), int(width / entry_width)))
    panels[0].legend(handles, labels, ncols=entries, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
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
        bars = axes.bar([x + offset for x in range(len(heights))], heights, width, label=_label(found, option))
        for x, (bar, (name, case)) in enumerate(zip(bars, found.cases.items(), strict=True)):
            if option not in case:
                status = found.without.get(name, {}).get(option, "")
                axes.text(x + offset, 0, f" {status}", rotation=90, ha="center", va="bottom", fontsize=STATUS_SIZE)
            elif not case[option].fits:
                bar.set(hatch=MISFIT_HATCH, edgecolor="white")
    axes.set_xlim(-0.6, len(found.cases) - 0.4)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_points(axes: Axes, found: Comparison, measure: Callable[[Case, str], float]) -> None:
    for number, option in enumerate(found.options):
        colour, label = f"C{number}", _label(found, option)
        for fits, marker in ((True, "."), (False, MISFIT_MARKER)):
            cases = [(x, case) for x, case in enumerate(found.cases.values()) if option in case]
            points = [(x, measure(case, option)) for x, case in cases if case[option].fits == fits]
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axes.plot(
                xs, ys, color=colour, linestyle="none", marker=marker, markersize=3, label=label if fits else None
            )
    axes.set_xlim(-0.6, len(found.cases) - 0.4)
    axes.spines[["top", "right"]].set_visible(False)


def _misfit_mark(*, many: bool) -> Artist:
    """For the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if many:
        return Line2D([], [], color="gray", linestyle="none", marker=MISFIT_MARKER, markersize=3)
    return Patch(facecolor="gray", edgecolor="white", hatch=MISFIT_HATCH)


def _label(found: Comparison, option: str) -> str:
    label = found.label(option)
    return f"{found.by}={option}" if label == option else label
