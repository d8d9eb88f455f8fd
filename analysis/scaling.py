"""How time and the time that simulating takes grow with the number of ranks, per network.

python -m analysis.scaling outputs/packet_vs_flow

The runs are those of a grid such as packet_vs_flow: of each network, and of each choice that is no size of the cluster,
one for each number of ranks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.command import Parser, exits
from analysis.screen import print_table
from xsim.errors import SpecError

__all__ = ["Lines", "draw", "lines_of", "main", "show"]

MEASURES: Mapping[str, tuple[str, str]] = {
    "training_time_s": ("training time [us]", "{:.2f}"),
    "wall_s": ("wall time [s]", "{:.2f}"),
}
FACTORS = {"training_time_s": 1e6, "wall_s": 1.0}
LEAST_WALL_S = 1e-3  # drawn for what takes less
GROWTH = ("cluster.", "batch")  # keys of the point that go with the number of ranks
FIX = "name the folder of a grid with one run for each network and number of ranks, such as packet_vs_flow"

Lines = dict[str, dict[int, dict[str, float]]]  # by name, by number of ranks, by measure


@exits
def main(argv: Sequence[str]) -> int:
    """Print the table and draw the figure of a sweep's folder."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep: outputs/<grid>")
    given = parser.parse_args(argv)
    from analysis.tables import select

    lines = lines_of(select(given.folder).table.to_pylist(), given.folder)
    if not lines:
        raise SpecError("folder", str(given.folder), "no run of it is ok", "see analysis.compare for the reasons")
    show(lines)
    print(f"\nFigure: {draw(lines, given.folder / 'figures' / 'scaling.png')}")
    return 0


def lines_of(rows: Iterable[Mapping[str, Any]], folder: Path = Path()) -> Lines:
    """The runs that are ok: a line per network and what else varies beside the number of ranks.

    Args:
        folder: Where they lie, for an error.

    Raises:
        SpecError: Two runs stand at one place of a line.
    """
    found = [row for row in rows if row["status"] == "ok"]
    parts = [[part for part in row["point"].split(", ") if part and not part.startswith(GROWTH)] for row in found]
    constant: dict[str, set[str]] = {}  # by network
    for row, own in zip(found, parts, strict=True):
        constant[row["network"]] = constant.get(row["network"], set(own)) & set(own)
    lines: Lines = {}
    for row, own in zip(found, parts, strict=True):
        name = ", ".join([row["network"], *(part for part in own if part not in constant[row["network"]])])
        line = lines.setdefault(name, {})
        if row["ranks"] in line:
            point = f" ({row['point']})" if row["point"] else ""
            problem = f"{name} has two runs with {row['ranks']} ranks{point}"
            raise SpecError("folder", str(folder), problem, FIX)
        line[row["ranks"]] = {measure: row[measure] * FACTORS[measure] for measure in MEASURES}
    return {name: dict(sorted(line.items())) for name, line in sorted(lines.items())}


def show(lines: Lines) -> None:
    """A table per measure: a row per number of ranks, a column per line."""
    ranks = sorted({count for line in lines.values() for count in line})
    for measure, (label, shape) in MEASURES.items():
        cells = [[_cell(line.get(count), measure, shape) for line in lines.values()] for count in ranks]
        print(label)
        columns = ["ranks", *lines]
        print_table(columns, [[str(count), *row] for count, row in zip(ranks, cells, strict=True)], numbers=columns)


def _cell(figures: Mapping[str, float] | None, measure: str, shape: str) -> str:
    return "-" if figures is None else shape.format(figures[measure])


def draw(lines: Lines, path: Path) -> Path:
    """A panel per measure over the number of ranks, both axes logarithmic."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(MEASURES))
    for axes, (measure, (label, _)) in zip(panels, MEASURES.items(), strict=True):
        for name, line in lines.items():
            values = [max(figures[measure], LEAST_WALL_S) for figures in line.values()]
            axes.loglog(list(line), values, marker="o", markersize=4, linewidth=1.0, label=name, base=10)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("ranks")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    raise SystemExit(main())
