"""What every picture of a folder of tables begins and ends with."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.command import Parser
from xsim.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

__all__ = ["asked", "empty_figure", "saved", "table_in"]


def asked(argv: Sequence[str], about: str | None, folder: str, counted: tuple[str, int, str]) -> tuple[Path, int]:
    """The folder, and how many are to be drawn.

    Args:
        folder: What it is.
        counted: The option that says how many, how many if it does not, and of what.

    Raises:
        SpecError: None would be drawn.
    """
    option, usual, what = counted
    parser = Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help=folder)
    parser.add_argument(option, type=int, default=usual, help=f"how many, {what} first; default: {usual}", dest="count")
    given = parser.parse_args(argv)
    if given.count < 1:
        raise SpecError(option, given.count, "nothing would be drawn", "write at least 1")
    return given.folder, given.count


def table_in(folder: Path, name: str, fix: str) -> pa.Table:
    """The table of that name in ``folder``.

    Raises:
        SpecError: There is none; ``fix`` says how to get one.
    """
    import pyarrow.parquet as pq

    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise SpecError("folder", str(folder), f"it holds no {path.name}", fix)
    return pq.read_table(path)


def empty_figure(width: float, height: float) -> Figure:
    """Of so many inches, drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def saved(figure: Figure, folder: Path, name: str) -> Path:
    """The file under ``folder`` that it was written to; lines at top and right do not frame any of its parts."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    path = folder / "figures" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
