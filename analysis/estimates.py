"""How far estimates of other tools are from the simulations beside them.

python -m analysis.estimates outputs/paper_baselines
python -m analysis.estimates outputs/paper_baselines --page docs/paper_baselines.md    # and puts its table there
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from analysis.command import Parser, exits
from analysis.pages import replace_table
from analysis.screen import print_table
from xsim.errors import SpecError

__all__ = ["main", "show"]

Row = Mapping[str, Any]

COLUMNS = ("cluster", "model", "deployment", "simulated [s]", "estimate", "estimated [s]", "error")


@exits
def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep with estimate=homogeneous or hexiscale")
    parser.add_argument("--page", type=Path, help="a Markdown file whose table of these columns is replaced")
    given = parser.parse_args(argv)
    from analysis.tables import select

    rows = [row for row in select(given.folder).table.to_pylist() if row["estimate_error"] is not None]
    if not rows:
        raise SpecError("folder", str(given.folder), "no run of it has an estimate", "sweep with estimate=hexiscale")
    show(rows)
    if given.page is not None:
        out = io.StringIO()
        show(rows, file=out)
        replace_table(given.page, COLUMNS[0], out.getvalue().splitlines())
    return 0


def show(rows: Iterable[Row], file: TextIO | None = None) -> None:
    """A row per run that has an estimate: how much less or more than the simulation it says."""
    cells = [
        [
            *(str(row[name]) for name in ("cluster", "model")),
            row["deployment"] or "",
            f"{row['training_time_s']:.4f}",
            _named(row),
            f"{row['estimate_time_s']:.4f}",
            f"{row['estimate_error']:+.1%}",
        ]
        for row in rows
    ]
    print_table(COLUMNS, cells, numbers=("simulated [s]", "estimated [s]", "error"), file=file)


def _named(row: Row) -> str:
    """The estimate with the options that the sweep set."""
    parts = [part.removeprefix("estimate.") for part in row["point"].split(", ") if part.startswith("estimate.")]
    return ", ".join([row["estimate"], *parts])


if __name__ == "__main__":
    raise SystemExit(main())
