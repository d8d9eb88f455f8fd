"""Scatter plots of a validation: predicted over measured times, a figure per source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.validation import Group

__all__ = ["draw"]

FIGURES = "figures"
BAND = 0.1  # either way of equality


def draw(groups: Sequence[Group], folder: Path) -> Mapping[str, Path]:
    """A figure of each source with predictions, in ``folder``; paths from there, by source."""
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    drawn: dict[str, Path] = {}
    for group in groups:
        if group.shown:
            drawn[group.name] = Path(FIGURES) / f"{group.name}.png"
            _draw(group, folder / drawn[group.name])
    return drawn


def _draw(group: Group, path: Path) -> None:
    """Both axes logarithmic, the diagonal and a band of 10 % around it, one colour per sweep."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    times = [each for case in group.shown for each in (case.measured_s or 0.0, case.predicted_s or 0.0)]
    ends = [min(times) / 1.3, max(times) * 1.3]
    axes.fill_between(ends, [(1 - BAND) * end for end in ends], [(1 + BAND) * end for end in ends], alpha=0.15)
    axes.plot(ends, ends, linewidth=0.8, color="black")
    sweeps = list(group.sweeps)
    for name in [*sweeps, ""]:
        cases = [case for case in group.shown if (case.sweep if case.sweep in sweeps else "") == name]
        if cases:
            measured = [case.measured_s or 0.0 for case in cases]
            predicted = [case.predicted_s or 0.0 for case in cases]
            axes.scatter(measured, predicted, s=14, label=name or "others")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=group.name)
    axes.set(xlabel="measured time of a step [s]", ylabel="predicted [s]")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
    axes.tick_params(which="both", labelsize=7)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
