"""Strategies side by side, case by case: training time and bubble, as in Figure 12 of the Xsim paper; optimality.

python -m analysis.compare outputs/hetero_llama
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from analysis.cases import Case, Comparison, Figures, compare, failures, offered, varying
from analysis.command import Parser, exits, tell
from analysis.screen import counted, decimals, fits, print_table
from analysis.sync import print_sync
from xsim.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["draw", "main", "show"]

LEGEND = """\
fastest: all options whose times print alike; "-": only one ran
slowest: how many times as long as the fastest the slowest option takes"""
OPTIMALITY = """\
least possible time over time alone [%], hand-overs / gradient syncs
(100: no plan is faster; above 100: a network without contention lets flows overlap)"""
BASELINE = "lcm"  # whose sync overhead is set against that of the others
MISFIT = "*: does not fit the memory of its devices"


@exits
def main(argv: Sequence[str]) -> int:
    """Print the table and draw the figure of a sweep's folder."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of a sweep: outputs/<grid>")
    parser.add_argument("--by", help="a group, or a key such as planner.tp; default: the first group that varies")
    parser.add_argument("--baseline", help=f"whose sync overhead is compared; default: {BASELINE}, if it is there")
    parser.add_argument("--all", action="store_true", help="also runs that only earlier sweeps of the folder asked for")
    given = parser.parse_args(argv)
    from analysis.tables import select

    found = select(given.folder, everything=given.all)
    known = offered(found.table)
    if given.by is not None and given.by not in known:
        fix = f"choose one of {', '.join(known)}; a key that a sweep varies, such as planner.tp, is one where it does"
        raise SpecError("--by", given.by, "the runs have no such choice", fix)
    options = compare(found.table, given.by).options
    if given.baseline is not None and given.baseline not in options:
        fix = f"choose one of {', '.join(options)}"
        raise SpecError("--baseline", given.baseline, "nothing that is compared has that name", fix)
    show(found.table, given.by, given.baseline or BASELINE)
    for note in found.notes():
        print(note)
    path = draw(found.table, given.folder, given.by)
    if path is not None:
        print(f"\nFigure: {path}")
    return 0


def draw(table: pa.Table, folder: Path, by: str | None = None) -> Path | None:
    """The figure of the comparison, written under ``folder``; None if there is nothing to show, or no way to write."""
    comparison = compare(table, by)
    if not comparison.cases or (by and len(comparison.options) == 1):
        return None
    from analysis.plots import save_bars

    try:
        return save_bars(comparison, folder / "figures" / f"by_{comparison.by}.png")
    except OSError as error:  # the tables may be another's, or lie on a disk that is full
        tell(f"no figure: {folder} cannot be written: {error.strerror}")
        return None


def show(table: pa.Table, by: str | None = None, baseline: str = BASELINE, file: TextIO | None = None) -> None:
    """Print the comparison, the sync overhead of the option ``baseline`` against the others, and what went wrong."""
    out = file or sys.stdout
    found = compare(table, by)
    if by and len(found.options) == 1:
        others = ", ".join(varying(table)) or "nothing else either"
        print(
            f"every run has {by}={found.options[0]}: there is nothing to compare by it; what varies: {others}", file=out
        )
    elif found.cases:
        _print_cases(found, out)
        print_sync(found, baseline, out)
        if found.left_out:
            print(f"not shown: {counted(found.left_out, 'case')} of which no point has a time", file=out)
    for failure in failures(table):
        print(f"{failure.count} x {failure.status}: {failure.reason} (first: {failure.example})", file=out)


def _print_cases(found: Comparison, out: TextIO) -> None:
    """A row per case where there is room for it, else a row per case and option."""
    places = decimals(min(entry.training_time_s for runs in found.cases.values() for entry in runs.values()))
    times, bubbles = list(_times(found, places)), list(_bubbles(found, places))
    options = [found.label(option) for option in found.options]
    several = len(options) > 1
    time_columns = [*found.columns, *options, *(("fastest", "slowest") if several else ())]
    if fits(time_columns, times, out):
        print("training time [s]", file=out)
        print_table(time_columns, times, numbers=[*options, "slowest"], file=out)
        print("\nbubble [s], mean of ranks", file=out)
        print_table([*found.columns, *options], bubbles, numbers=options, file=out)
        if any(entry.move_optimality is not None for runs in found.cases.values() for entry in runs.values()):
            print(f"\n{OPTIMALITY}", file=out)
            print_table([*found.columns, *options], _optimalities(found), numbers=options, file=out)
        if several:
            print(f"\n{LEGEND}", file=out)
    else:
        numbers = ["time [s]", "bubble [s]", "behind"]
        print_table([*found.columns, found.by, *numbers], _long(found, places), numbers=numbers, file=out)
        print("behind: how much longer than the fastest option", file=out)
    if any(not entry.fits for runs in found.cases.values() for entry in runs.values()):
        print(MISFIT, file=out)
    if found.along:
        print(f"not the same for every {found.by}: {', '.join(found.along)}", file=out)


def _times(found: Comparison, places: int) -> Iterator[list[str]]:
    for case, runs in found.cases.items():
        cells = [_time(found, case, option, places) for option in found.options]
        yield [*case, *cells, *(_fastest(found, runs, places) if len(found.options) > 1 else ())]


def _bubbles(found: Comparison, places: int) -> Iterator[list[str]]:
    for case in found.cases:
        yield [*case, *(_bubble(found, case, option, places) for option in found.options)]


def _optimalities(found: Comparison) -> Iterator[list[str]]:
    for case, runs in found.cases.items():
        yield [*case, *(_optimality(runs.get(option)) for option in found.options)]


def _optimality(entry: Figures | None) -> str:
    if entry is None or entry.move_optimality is None or entry.sync_optimality is None:
        return "-"
    return f"{100 * entry.move_optimality:.1f} / {100 * entry.sync_optimality:.1f}"


def _long(found: Comparison, places: int) -> Iterator[list[str]]:
    """A row per case and option; a case is named once."""
    for case, runs in found.cases.items():
        name: Sequence[str] = case
        best = min(entry.training_time_s for entry in runs.values())
        for option in found.options:
            entry = runs.get(option)
            behind = "" if entry is None else f"{entry.training_time_s / best - 1:.2%}"
            cells = (_time(found, case, option, places), _bubble(found, case, option, places), behind)
            yield [*name, option, *cells]
            name = [""] * len(case)


def _time(found: Comparison, case: Case, option: str, places: int) -> str:
    """The training time, marked if its memory does not suffice; why there is none; ``-`` if it was not asked for."""
    entry = found.cases[case].get(option)
    if entry is None:
        return found.without.get(case, {}).get(option, "-")
    return f"{entry.training_time_s:.{places}f}{'' if entry.fits else '*'}"


def _bubble(found: Comparison, case: Case, option: str, places: int) -> str:
    entry = found.cases[case].get(option)
    return "-" if entry is None else f"{entry.bubble_time_s:.{places}f}"


def _fastest(found: Comparison, runs: Mapping[str, Figures], places: int) -> tuple[str, str]:
    """Who is fastest, and the slowest's time over theirs; dashes where there is nothing to compare."""
    if len(runs) == 1:
        return "-", "-"
    times = {option: entry.training_time_s for option, entry in runs.items()}
    best = min(times.values())
    first = [found.label(option) for option, time_s in times.items() if f"{time_s:.{places}f}" == f"{best:.{places}f}"]
    return "all equal" if len(first) == len(times) else ", ".join(first), f"{max(times.values()) / best:.3f}x"


if __name__ == "__main__":
    raise SystemExit(main())
