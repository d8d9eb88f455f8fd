"""The report of a validation: a page in Markdown, and the tables of it on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from analysis.screen import counted, print_table
from analysis.validation import CAUSES, Bound, Case, Group, factors, rank_correlation

__all__ = ["Report"]

TREND = 0.95  # rank correlation that is asked for within a sweep
SUMMARY = ("source", "rows", "left out", "error", "bound", "bias", "memory", "bound of memory", "peers", "verdict")
TRENDS = ("source", "sweep", "rows", "correlation", "verdict")
LARGEST_OPERATORS = 3
FITTED = """\
No training run has been seen by a fit. Efficiency curves of devices are fitted to single kernels (docs/kernels.md),
costs of protocols to collectives (docs/collectives.md): both say what was fitted on what. Speeds under load and the
differences among devices are published figures, each with its source where it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a validation found.

    Attributes:
        missed: Names of sources whose bounds may be passed, with a word on why.
        about: Of a source, what it is.
        sections: Further ones, each a heading and lines of Markdown: of collectives, say.
    """

    groups: Sequence[Group]
    bounds: Sequence[Bound]
    missed: Mapping[str, str]
    about: Mapping[str, str]
    sections: Sequence[tuple[str, Sequence[str]]] = ()

    def bound(self, group: Group) -> Bound | None:
        """What is asked for of ``group``."""
        return next((bound for bound in self.bounds if fnmatchcase(group.name, bound.name)), None)

    def verdict(self, group: Group) -> str:
        """``ok``, ``passed`` or ``missed``; empty where nothing is asked for or nothing is there."""
        bound = self.bound(group)
        if bound is None or group.mape is None:
            return ""
        over = bound.time is not None and group.mape > bound.time
        over |= bound.memory is not None and group.memory_mape is not None and group.memory_mape > bound.memory
        return "ok" if not over else "missed" if group.name in self.missed or bound.name in self.missed else "passed"

    @property
    def failed(self) -> list[str]:
        """Sources whose bound is passed though nobody said that it may be."""
        return [group.name for group in self.groups if self.verdict(group) == "passed"]

    def show(self) -> None:
        """Print the tables."""
        numbers = ("rows", "left out", "error", "bound", "bias", "memory", "bound of memory")
        print_table(SUMMARY, self._summary(), numbers=numbers)
        print()
        trends = list(self._trends())
        if trends:
            print(f"Rank correlation of predicted and measured times within sweeps; asked for: above {TREND}")
            print_table(TRENDS, trends, numbers=("rows", "correlation"))

    def markdown(self, figures: Mapping[str, Path]) -> str:
        """The page; ``figures`` by source, as paths from it."""
        parts = ["# Predictions against measured runs", "", *_table(SUMMARY, self._summary()), "", FITTED, ""]
        trends = list(self._trends())
        if trends:
            parts += ["## Trends within sweeps", "", f"Asked for: above {TREND}.", ""]
            parts += [*_table(TRENDS, trends), ""]
        for group in self.groups:
            parts += self._section(group, figures.get(group.name))
        for heading, lines in self.sections:
            parts += [f"## {heading}", "", *lines, ""]
        left_out = self._left_out()
        parts += ["## What is left out", ""]
        parts += [*(_table(("source", "rows", "why"), left_out) if left_out else ["Nothing."]), ""]
        return "\n".join(parts)

    def _summary(self) -> list[list[str]]:
        return [self._line(group) for group in self.groups if group.shown]

    def _line(self, group: Group) -> list[str]:
        bound = self.bound(group)
        peers = "" if bound is None else ", ".join(f"{name} {error:.1%}" for name, error in bound.peers.items())
        return [
            *(group.name, str(len(group.shown)), str(len(group.cases) - len(group.shown))),
            *(_percent(group.mape), _percent(bound.time if bound else None), _percent(group.bias, "+")),
            *(_percent(group.memory_mape), _percent(bound.memory if bound else None), peers, self.verdict(group)),
        ]

    def _trends(self) -> Iterator[list[str]]:
        for group in self.groups:
            for name, cases in group.sweeps.items():
                found = rank_correlation(cases)
                shown = "-" if found is None else f"{found:.3f}"
                yield [group.name, name, str(len(cases)), shown, "ok" if found and found > TREND else "below"]

    def _section(self, group: Group, figure: Path | None) -> list[str]:
        if not group.shown:
            return []
        found = factors(group.shown)
        lines = [f"## {group.name}", "", f"{self.about.get(group.name, '')}.", ""]
        if why := self.missed.get(group.name):
            lines += [f"Its bound is missed: {why}", ""]
        if figure is not None:
            lines += [f"![{group.name}: predicted over measured]({figure})", ""]
        if found:
            shown = ", ".join(f"{cause} x{factor:.2f}" for cause, factor in found.items())
            lines += [f"The measured times would be met best with {shown} (a diagnosis; nothing is fitted).", ""]
        lines += ["The worst rows:", "", *(f"- {explained(case)}" for case in group.worst), ""]
        head = ("row", "deployed", "measured [s]", "predicted [s]", "error", *CAUSES, "memory", "simulated in [s]")
        return [*lines, *_table(head, map(_case_line, group.shown)), ""]

    def _left_out(self) -> list[list[str]]:
        return [[group.name, str(count), why] for group in self.groups for why, count in group.left_out.items()]


def explained(case: Case) -> str:
    """A row in words: how far off, and where its time went."""
    total_s = case.predicted_s or 0.0
    shares = sorted(case.account.items(), key=lambda each: -each[1])
    causes = ", ".join(f"{cause} {seconds / total_s:.0%}" for cause, seconds in shares if seconds > 0.005 * total_s)
    largest = list(case.operators.items())[:LARGEST_OPERATORS]
    operators = ", ".join(f"{kind} {seconds / total_s:.0%}" for kind, seconds in largest)
    off = f"{total_s:.4g} s for {case.measured_s:.4g} s ({case.error:+.1%})"
    return f"{case.name} ({case.deployed}): {off}; {causes}; of operators {operators}"


def _case_line(case: Case) -> list[str]:
    memory = "" if case.memory_error is None else f"{case.memory_error:+.1%}"
    total_s = case.predicted_s or 1.0
    return [
        *(case.name, case.deployed, f"{case.measured_s:.4g}", f"{case.predicted_s:.4g}", f"{case.error:+.1%}"),
        *(f"{seconds / total_s:.1%}" for seconds in case.account.values()),
        *(memory, f"{case.wall_s:.1f}"),
    ]


def _percent(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.1%}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"


def counts(groups: Iterable[Group]) -> str:
    """How many rows were compared, and how many were not."""
    cases = [case for group in groups for case in group.cases]
    shown = sum(case.error is not None for case in cases)
    return f"{counted(shown, 'row')} compared, {len(cases) - shown} left out"
