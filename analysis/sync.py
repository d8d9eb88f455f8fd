"""Synchronisation overhead: how much of it one option of a comparison has against each of the others.

The overhead of a run is the communication that a rank waits for because tensors change hands: at pipeline boundaries
the part of the bubble in which all that its next action needs has been sent and is under way
(``reshard_comm_time_s``), in gradient syncs the time with nothing left to hide them and every member there
(``dp_comm_time_s``); the mean over ranks. Waiting for a rank that is late is no communication, and not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from analysis.cases import Comparison
from analysis.screen import fits, print_table

__all__ = ["print_sync", "saved"]

LEGEND = """\
sync overhead: hand-overs and gradient syncs under way that nothing hides, mean
of ranks"""
PAPER = "; the Xsim paper (section 1) reports up to 21% less for its strategy"  # of resharding


def saved(of_s: float | None, against_s: float | None) -> str:
    """How much less ``of_s`` is than ``against_s``; negative if it is more, a dash if there is nothing to save.

    >>> saved(0.75, 1.0), saved(1.5, 1.0), saved(1.00001, 1.0), saved(0.0, 0.0)
    ('25.0%', '-50.0%', '0.0%', '-')
    """
    return "-" if of_s is None or not against_s else f"{1 - of_s / against_s:z.1%}"


def print_sync(found: Comparison, baseline: str, out: TextIO) -> None:
    """A row per case where there is room for it, else one per case and option; nothing if ``baseline`` did not run."""
    others = [option for option in found.options if option != baseline]
    if baseline not in found.options or not others:
        return
    rows = list(_rows(found, baseline, others))
    own = found.label(baseline)
    columns = [*found.columns, f"{own} [s]", *(f"against {found.label(other)}" for other in others)]
    print(f"\nsync overhead of {own}: how much less than each of the others", file=out)
    if fits(columns, rows, out):
        print_table(columns, rows, numbers=columns[len(found.columns) :], file=out)
    else:
        numbers = ["sync [s]", f"{own} has less by"]
        print_table([*found.columns, found.by, *numbers], _long(found, baseline), numbers=numbers, file=out)
    print(LEGEND + (PAPER if found.by == "reshard" else ""), file=out)


def _rows(found: Comparison, baseline: str, others: Sequence[str]) -> Iterator[list[str]]:
    for case in found.cases:
        own_s = _overhead_s(found, case, baseline)
        yield [*case, _shown(own_s), *(saved(own_s, _overhead_s(found, case, other)) for other in others)]


def _long(found: Comparison, baseline: str) -> Iterator[list[str]]:
    """A row per case and option; a case is named once."""
    for case in found.cases:
        name: Sequence[str] = case
        own_s = _overhead_s(found, case, baseline)
        for option in found.options:
            overhead_s = _overhead_s(found, case, option)
            yield [*name, option, _shown(overhead_s), "" if option == baseline else saved(own_s, overhead_s)]
            name = [""] * len(case)


def _overhead_s(found: Comparison, case: tuple[str, ...], option: str) -> float | None:
    run = found.cases[case].get(option)
    return None if run is None else run.sync_time_s


def _shown(overhead_s: float | None) -> str:
    return "-" if overhead_s is None else f"{overhead_s:.6f}"
