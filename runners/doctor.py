"""Say what would go wrong tonight: versions, memory, disk, stores, ports, Ray. Changes nothing.

python -m runners.doctor              # for results under outputs/
python -m runners.doctor FOLDER --quick
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.command import Parser, alone, exits
from analysis.screen import counted, print_table

if TYPE_CHECKING:
    from runners.checks import Finding

__all__ = ["main"]


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0, or 1 if there is a problem."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("outputs"), help="folder of all results")
    parser.add_argument("--uri", help="tracking URI, if tracking.uri= is to be set; environment: as tracking=server")
    parser.add_argument("--port", type=int, default=5000, help="on which the UI is to listen")
    parser.add_argument("--quick", action="store_true", help="do not start Ray, which takes some seconds")
    given = parser.parse_args(argv)
    out = alone(given.folder, "runners.doctor").resolve()
    found = list(_findings(out, given.uri, given.port, quick=given.quick))
    print_table(["what", "state", "found", "what to do"], [(f.what, f.state, f.found, f.fix) for f in found])
    counts = {state: sum(finding.state == state for finding in found) for state in ("problem", "warning")}
    print("\n" + ", ".join(counted(count, state) for state, count in counts.items()))
    return int(counts["problem"] > 0)


def _findings(out: Path, uri: str | None, port: int, *, quick: bool) -> Iterator[Finding]:
    from runners import checks, result_checks
    from runners.settings import tracking_uri

    yield from checks.software()
    yield from checks.machine()
    yield from result_checks.places(out)
    yield from result_checks.sweeps(out)
    store = tracking_uri(uri, out)
    if store is not None:
        yield from result_checks.mlflow_store(store)
    yield from checks.network(port)
    yield from checks.environment()
    if not quick:
        yield from checks.ray_starts()


if __name__ == "__main__":
    raise SystemExit(main())
