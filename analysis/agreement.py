"""The same deployments on the networks flow, with and without packets of its own, and packet: how far times differ.

python -m analysis.agreement outputs/hetero_llama outputs/hetero_llama_packets
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from analysis.command import Parser, exits
from analysis.screen import print_table
from analysis.version import CONFIG
from xsim.errors import SpecError

__all__ = ["main", "show"]

CASE = ("cluster", "model", "deployment", "reshard")
SHARED, STORED, PACKET = "flow", "flow with packets", "packet"
COLUMNS = ("cluster", "model", "reshard", "flow [s]", "packet [s]", "flow is", "with packets")


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
    """A row per deployment and strategy that both networks have; flow's packets are those of ``network.payload_bytes``.

    Raises:
        SpecError: There is none.
    """
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if row["status"] == "ok":
            found.setdefault(tuple(row[name] for name in CASE), {})[_network(row)] = row["training_time_s"]
    both = {case: times for case, times in found.items() if PACKET in times and {SHARED, STORED} & set(times)}
    if not both:
        problem, fix = "flow and packet have no run in common", "name sweeps of the same deployments"
        raise SpecError("folders", [*found], problem, fix)
    cells = [
        [
            *(case[0], case[1], case[3]),
            *(f"{times[name]:.4f}" if name in times else "-" for name in (SHARED, PACKET)),
            *(f"{times[name] / times[PACKET] - 1:+.2%}" if name in times else "-" for name in (SHARED, STORED)),
        ]
        for case, times in both.items()
    ]
    print_table(COLUMNS, cells, numbers=COLUMNS[3:], file=file)


def _network(row: Mapping[str, Any]) -> str:
    """That of the run, and whether flow had packets."""
    options = json.loads(row[CONFIG])["network"]
    return STORED if row["network"] == SHARED and options.get("payload_bytes") else str(row["network"])


if __name__ == "__main__":
    raise SystemExit(main())
