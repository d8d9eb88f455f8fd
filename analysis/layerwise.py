"""Time per kind of operator and kind of device, of the runs of a sweep that keep their tables of ranks and operators.

python -m analysis.layerwise outputs/layerwise
python -m analysis.layerwise outputs/layerwise --page docs/layerwise.md    # puts its table there
"""

from __future__ import annotations

import argparse
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from analysis.command import Parser, exits
from analysis.pages import replace_table
from analysis.screen import print_table
from analysis.stored import DETAIL
from xsim.errors import SpecError

__all__ = ["Times", "draw", "main", "show", "times_of"]

Times = dict[tuple[str, str], dict[str, float]]  # by (run, device), by operator, in seconds

PS_PER_S = 10**12


@exits
def main(argv: Sequence[str]) -> int:
    """Print the table, and draw it."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep with detail=[ranks,operators]")
    parser.add_argument("--page", type=Path, help="a Markdown file whose table of operators is replaced")
    given = parser.parse_args(argv)
    from analysis.tables import select

    times: Times = {}
    for row in select(given.folder).table.to_pylist():
        if row["status"] == "ok":
            times |= times_of(row, given.folder)
    if not times:
        raise SpecError("folder", str(given.folder), "no run of it is ok", "sweep +grid=layerwise")
    out = io.StringIO()
    show(times, out)
    print(out.getvalue(), end="")
    if given.page is not None:
        replace_table(given.page, "operator", out.getvalue().splitlines())
    print(f"\nFigure: {draw(times, given.folder / 'figures' / 'layerwise.png')}")
    return 0


def times_of(row: Mapping[str, Any], folder: Path) -> Times:
    """What a rank of each kind of device spends on each kind of operator in the iteration, on average.

    Raises:
        SpecError: The run kept no such tables.
    """
    tables = [folder / DETAIL / row["key"] / f"{name}.parquet" for name in ("ranks", "operators")]
    if not all(path.is_file() for path in tables):
        problem = "a run of it has no tables of ranks and operators"
        raise SpecError("folder", str(folder), problem, "sweep again with detail=[ranks,operators]")
    ranks, operators = (pq.read_table(path).to_pylist() for path in tables)
    device = {each["rank"]: each["device"] for each in ranks}
    count: dict[str, int] = defaultdict(int)
    for name in device.values():
        count[name] += 1
    run = f"{row['deployment'] or row['cluster']}, {row['network']}"
    found: Times = {(run, name): defaultdict(float) for name in sorted(count)}
    for each in operators:
        name = device[each["rank"]]
        found[run, name][each["operator"]] += each["time_ps"] / PS_PER_S / count[name]
    return found


def show(times: Times, file: io.StringIO) -> None:
    """A row per operator and device, a column per run."""
    runs = list(dict.fromkeys(run for run, _ in times))
    operators = list(dict.fromkeys(name for own in times.values() for name in own))
    devices = sorted({device for _, device in times})
    lines = []
    for operator in operators:
        for device in devices:
            found = [times.get((run, device), {}).get(operator) for run in runs]
            if any(found):
                lines.append([operator, device, *("-" if each is None else f"{each * 1e3:.3f}" for each in found)])
    print_table(["operator", "device", *(f"{run} [ms]" for run in runs)], lines, [f"{run} [ms]" for run in runs], file)


def draw(times: Times, path: Path) -> Path:
    """A group of bars per operator, a bar per run and device, on a logarithmic axis."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = colormaps["tab20"]
    operators = list(dict.fromkeys(name for own in times.values() for name in own))
    figure = Figure(figsize=(12.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    width = 0.8 / len(times)
    for number, ((run, device), own) in enumerate(times.items()):
        places = [place + (number - (len(times) - 1) / 2) * width for place in range(len(operators))]
        heights = [1e3 * own.get(name, 0.0) for name in operators]
        axes.bar(places, heights, width, label=f"{run}: {device}", color=colours(number % colours.N))
    axes.set_yscale("log")
    axes.set_ylabel("time of a rank [ms]")
    axes.set_xticks(range(len(operators)), operators, rotation=30, ha="right")
    axes.legend(fontsize=7, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    raise SystemExit(main())
