"""Scatter plots of a validation: predicted over measured times, a figure per source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.validation import Group

__all__ = ["draw", "scatter"]

Points = Sequence[tuple[float, float]]  # (measured, predicted), s

FIGURES = "figures"
NO_WORD = r"[^\w.-]+"  # what a link to a file should not hold
BAND = 0.1  # either way of equality


def draw(groups: Sequence[Group], folder: Path) -> Mapping[str, Path]:
    """A figure of each source with predictions, in ``folder``; paths from there, by source."""
    drawn: dict[str, Path] = {}
    for group in groups:
        if group.shown:
            drawn[group.name] = scatter(group.name, _series(group), "of a step", folder)
    return drawn


def _series(group: Group) -> dict[str, Points]:
    """By sweep; rows of none are the last."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in [*group.sweeps, "others"]}
    for case in group.shown:
        name = case.sweep if case.sweep in found else "others"
        found[name].append((case.measured_s or 0.0, case.predicted_s or 0.0))
    return {name: points for name, points in found.items() if points}


def scatter(name: str, series: Mapping[str, Points], of: str, folder: Path) -> Path:
    """A figure in ``folder``: both axes logarithmic, the diagonal and a band of 10 % around it, a colour per series.

    Args:
        of: What is timed, as in "time of a step".

    Returns:
        Its path from ``folder``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(FIGURES) / f"{re.sub(NO_WORD, '_', name)}.png"
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(5.5, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    times = [each for points in series.values() for point in points for each in point]
    ends = [min(times) / 1.3, max(times) * 1.3]
    axes.fill_between(ends, [(1 - BAND) * end for end in ends], [(1 + BAND) * end for end in ends], alpha=0.15)
    axes.plot(ends, ends, linewidth=0.8, color="black")
    for label, points in series.items():
        measured, predicted = zip(*points, strict=True)
        axes.scatter(measured, predicted, s=14, label=label)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=name)
    axes.set(xlabel=f"measured time {of} [s]", ylabel="predicted [s]")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}" if ends[1] < 100 * ends[0] else "")
    axes.tick_params(which="both", labelsize=7)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / path, dpi=150)
    return path
