"""The same deployments on the networks flow and packet: how far their training times differ.

python -m analysis.agreement outputs/hetero_llama outputs/hetero_llama_packets
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from analysis.command import Parser, exits
from analysis.screen import print_table
from xsim.errors import SpecError

__all__ = ["main", "show"]

CASE = ("cluster", "model", "deployment", "reshard")
COLUMNS = ("cluster", "model", "reshard", "flow [s]", "packet [s]", "flow is")


@exits
def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="of sweeps that have flow and packet between them")
    given = parser.parse_args(argv)
    from analysis.tables import select

    rows = [row for folder in given.folders for row in select(folder).table.to_pylist()]
    show(rows)
    return 0


def show(rows: Iterable[Mapping[str, Any]], file: TextIO | None = None) -> None:
    """A row per deployment and strategy that both networks have.

    Raises:
        SpecError: There is none.
    """
    found: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["status"] == "ok":
            found.setdefault(tuple(row[name] for name in CASE), {})[row["network"]] = row
    both = [(case, runs["flow"], runs["packet"]) for case, runs in found.items() if {"flow", "packet"} <= set(runs)]
    if not both:
        problem, fix = "flow and packet have no run in common", "name sweeps of the same deployments"
        raise SpecError("folders", [*found], problem, fix)
    cells = [
        [
            *(case[0], case[1], case[3]),
            *(f"{run['training_time_s']:.4f}" for run in (flow, packet)),
            f"{flow['training_time_s'] / packet['training_time_s'] - 1:+.2%}",
        ]
        for case, flow, packet in both
    ]
    print_table(COLUMNS, cells, numbers=COLUMNS[3:], file=file)


if __name__ == "__main__":
    raise SystemExit(main())
