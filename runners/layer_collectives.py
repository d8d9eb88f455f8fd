"""What a layer's collectives and gradient syncs take, of a sweep of the grid paper_collectives.

python -m runners.layer_collectives outputs/paper_collectives
python -m runners.layer_collectives outputs/paper_collectives --page docs/paper_collectives.md   # puts its tables there

All-reduces that were measured on 8 x H200 are simulated beside it: those of measured/collectives.csv in the folder that
the environment variable XSIM_REFERENCE_DATA names.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from analysis.command import Parser, exits
from analysis.pages import replace_table
from analysis.screen import print_table
from xsim.errors import SpecError

__all__ = ["main", "measured", "syncs", "within_hosts"]

Row = Mapping[str, Any]
Table = tuple[tuple[str, ...], list[list[str]]]

MEASURED = "aic_nccl_h200_sxm"
RANKS = 8


@exits
def main(argv: Sequence[str]) -> int:
    """Print the tables."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep of the grid paper_collectives")
    parser.add_argument("--page", type=Path, help="a Markdown file whose tables of these columns are replaced")
    given = parser.parse_args(argv)
    from analysis.tables import select

    rows = [row for row in select(given.folder).table.to_pylist() if row["status"] == "ok"]
    if not rows:
        raise SpecError("folder", str(given.folder), "no run of it is ok", "sweep +grid=paper_collectives")
    for columns, lines in (within_hosts(rows), syncs(rows), *measured(os.environ.get("XSIM_REFERENCE_DATA"))):
        out = io.StringIO()
        print_table(columns, lines, numbers=columns[3:], file=out)
        print(out.getvalue())
        if given.page is not None:
            replace_table(given.page, columns[0], out.getvalue().splitlines())
    return 0


def within_hosts(rows: Sequence[Row]) -> Table:
    """Tensor-parallel collectives of one layer, all passes: two all-reduces, or all-gathers and reduce-scatters."""
    columns = ("model", "network", "sequence parallel", "attention [us]", "mlp [us]")
    own = [row for row in rows if row["cluster"] == "h200x8"]
    return columns, [
        [
            *(row["model"], row["network"], "yes" if "sequence_parallel=true" in row["point"] else "no"),
            *(f"{row[f'{kind}_comm_time_s'] * 1e6:.1f}" for kind in ("attention", "mlp")),
        ]
        for row in own
    ]


def syncs(rows: Sequence[Row]) -> Table:
    """The halves of the gradient sync of one layer."""
    columns = ("cluster", "model", "network", "rings at a time", "grad_gather [ms]", "grad_param_comm [ms]")
    own = [row for row in rows if row["deployment"] is not None]
    return columns, [
        [
            *(row["cluster"], row["model"], row["network"], row["point"].rpartition("=")[2]),
            *(f"{row[f'{kind}_time_s'] * 1e3:.3f}" for kind in ("grad_gather", "grad_param_comm")),
        ]
        for row in own
    ]


def measured(folder: str | None) -> Iterator[Table]:
    """All-reduces on 8 x H200 against what was measured; nothing without the measurements."""
    from runners.bench import graph_of_row
    from runners.measured import read
    from xsim.families import build

    table = Path(folder or "", "measured", "collectives.csv")
    if not folder or not table.is_file():
        return
    networks = {
        "flow": build("network", {"name": "flow"}),
        "packet": build("network", {"name": "packet", "scale_up_header_bytes": 1}),
    }
    own = [row for row in read(table)[0] if (row.group, row.kind, row.ranks) == (MEASURED, "all_reduce", RANKS)]
    lines, errors = [], dict[str, list[float]]()
    for row in sorted(own, key=lambda row: row.size_bytes):
        cells = [str(row.size_bytes), "all_reduce", f"{RANKS} x H200", f"{row.time_us:.2f}"]
        fabric, graph = graph_of_row(row)
        for name, network in networks.items():
            time_us = network.open(fabric, 0).solo(graph) * 1e-6
            error = time_us / row.time_us - 1
            errors.setdefault(name, []).append(abs(error))
            cells += [f"{time_us:.2f}", f"{error:+.1%}"]
        lines.append(cells)
    means = [cell for name in networks for cell in ("", f"{mean(errors[name]):.1%}")]
    lines.append(["mean of all", "", "", "", *means])
    figures = (column for name in networks for column in (f"{name} [us]", f"{name} error"))
    yield ("bytes", "collective", "devices", "measured [us]", *figures), lines


if __name__ == "__main__":
    raise SystemExit(main())
