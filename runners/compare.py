"""Two sweeps side by side: the same points, the ratio of a figure, and what changed between them.

python -m runners.compare outputs/hetero_llama before/hetero_llama
python -m runners.compare outputs/a outputs/b --metric energy_j --all

Points are the same if they have the same options; an option that every point of the one sweep has, and every point of
the other has otherwise, is what is compared and tells no points apart.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.command import Parser, alone, exits
from analysis.screen import counted, print_table
from xsim.errors import SpecError

if TYPE_CHECKING:
    from analysis.pairs import Pair, Pairs

__all__ = ["main"]

SHOWN = 30
FIGURE = "training_time_s"


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0, or 2 if a folder holds no sweep."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("one", type=Path, metavar="A", help="folder of a sweep: outputs/<grid>")
    parser.add_argument("other", type=Path, metavar="B", help="of another, or a copy of the same from another day")
    parser.add_argument("--metric", default=FIGURE, help=f"column of the results; default: {FIGURE}")
    parser.add_argument("--all", action="store_true", help=f"every point, not only the {SHOWN} that differ most")
    given = parser.parse_args(argv)
    from analysis.pairs import paired
    from analysis.tables import select

    folders = [alone(path, "runners.compare") for path in (given.one, given.other)]
    selections = [select(folder) for folder in folders]
    one, other = (selection.table for selection in selections)
    _check_metric(given.metric, one.schema.names, other.schema.names)
    found = paired(one, other, given.metric)
    if not found.pairs:
        fix = "choose sweeps that share points"
        raise SpecError("B", str(given.other), f"no point of {given.one} is in it", fix)
    for where, folder, selection in zip("AB", folders, selections, strict=True):
        left = f"; {counted(selection.unasked, 'row')} of earlier sweeps not compared" if selection.unasked else ""
        print(f"{where}: {folder}{left}")
    _print_pairs(found, given.metric, None if given.all else SHOWN)
    _print_summary(found)
    return 0


def _check_metric(metric: str, *columns: Sequence[str]) -> None:
    from analysis.pairs import NUMBERS

    for names in columns:
        if metric not in names or metric not in NUMBERS:
            known = ", ".join(name for name in names if name in NUMBERS)
            raise SpecError("--metric", metric, "there is no such figure", f"choose one of {known}")


def _print_pairs(found: Pairs, metric: str, most: int | None) -> None:
    """The pairs that differ most first; of equal ones only how many there are."""
    unlike = sorted((pair for pair in found.pairs if pair.changed), key=_distance, reverse=True)
    rows = [[pair.name, _shown(pair.one), _shown(pair.other), _ratio(pair), ", ".join(pair.changed)] for pair in unlike]
    if rows:
        print(f"{metric} of A and B, and B over A")
        print_table(["point", "A", "B", "ratio", "changed"], rows[:most], numbers=["A", "B", "ratio"])
    if most is not None and len(rows) > most:
        print(f"and {counted(len(rows) - most, 'point')} more that differ less; --all shows them")


def _print_summary(found: Pairs) -> None:
    equal = sum(pair.equal for pair in found.pairs)
    inputs = sum(pair.equal and bool(pair.changed) for pair in found.pairs)
    text = f"{counted(len(found.pairs), 'point')} in both, {equal} of them equal in every figure"
    print(f"{text}, {inputs} of those though an input differs" if inputs else text)
    ratios = [pair.ratio for pair in found.pairs if pair.ratio is not None and pair.ratio > 0]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"B over A: {min(ratios):.4g} to {max(ratios):.4g}, {mean:.4g} in the geometric mean")
    for text in found.between:
        print(f"in every point: {text}")
    for where, count in (("A", found.only_one), ("B", found.only_other)):
        if count:
            print(f"{counted(count, 'point')} only in {where}")


def _distance(pair: Pair) -> float:
    if pair.ratio is None or pair.ratio <= 0:
        return math.inf
    return abs(math.log(pair.ratio))


def _shown(figure: float | str) -> str:
    return figure if isinstance(figure, str) else f"{figure:.6g}"


def _ratio(pair: Pair) -> str:
    return "-" if pair.ratio is None else f"{pair.ratio:.4f}x"


if __name__ == "__main__":
    raise SystemExit(main())
