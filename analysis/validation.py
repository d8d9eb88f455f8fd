"""How far simulated steps are off measured ones: by source, by sweep, and by what the time account says of the worst.

Errors are those of the time of a step, predicted over measured, less 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

__all__ = ["CAUSES", "Bound", "Case", "Group", "factors", "grouped", "rank_correlation"]

CAUSES = ("compute", "optimizer", "tp_comm", "dp_comm", "bubble", "idle")
SWEEP = 6  # rows of one model and cluster that are a sweep
WORST = 5
LEAST_SHARE = 0.02  # of a step: what a cause has to take of some row to be worth a factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What is asked for of a source: mean absolute errors, and those that others have published.

    Attributes:
        time, memory: Of the step and of the memory that the fullest device needs; absent: nothing is asked for.
        peers: By the name of another tool, its mean absolute error on rows of this source.
    """

    name: str
    time: float | None = None
    memory: float | None = None
    peers: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measured run and its simulation.

    Attributes:
        sweep: Its model and cluster: rows with one sweep differ in how they are deployed.
        deployed: How, in short.
        predicted_s: Absent if it was left out or failed.
        reason: Why there is no prediction; empty if there is one.
        figures: Of the simulation, by column of the results.
        wall_s: What the simulations of the row took.
    """

    name: str
    group: str
    source: str
    sweep: str
    deployed: str
    measured_s: float | None = None
    measured_bytes: int | None = None
    predicted_s: float | None = None
    reason: str = ""
    figures: Mapping[str, float]
    wall_s: float = 0.0

    @property
    def error(self) -> float | None:
        """Of the step's time."""
        if self.measured_s is None or self.predicted_s is None:
            return None
        return self.predicted_s / self.measured_s - 1

    @property
    def memory_error(self) -> float | None:
        """Of the bytes of the fullest device."""
        if self.measured_bytes is None or self.predicted_s is None:
            return None
        return self.figures["peak_memory_bytes"] / self.measured_bytes - 1

    @property
    def account(self) -> Mapping[str, float]:
        """Seconds by cause, mean over ranks."""
        return {cause: self.figures[f"{cause}_time_s"] for cause in CAUSES}

    @property
    def operators(self) -> Mapping[str, float]:
        """Seconds by operator kind, the longest first."""
        known = {f"{cause}_time_s" for cause in CAUSES} | {"training_time_s"}
        found = {
            key.removesuffix("_time_s"): value
            for key, value in self.figures.items()
            if key.endswith("_time_s") and key not in known and value > 0
        }
        return dict(sorted(found.items(), key=lambda each: -each[1]))


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one source."""

    name: str
    cases: tuple[Case, ...]

    @property
    def shown(self) -> tuple[Case, ...]:
        """Those with a prediction."""
        return tuple(case for case in self.cases if case.error is not None)

    @property
    def errors(self) -> list[float]:
        """Of those, in order."""
        return [case.error for case in self.cases if case.error is not None]

    @property
    def memory_errors(self) -> list[float]:
        """Of rows that state memory."""
        return [case.memory_error for case in self.cases if case.memory_error is not None]

    @property
    def mape(self) -> float | None:
        """Mean absolute error of the time of a step."""
        return fmean(map(abs, self.errors)) if self.errors else None

    @property
    def bias(self) -> float | None:
        """Mean error: below 0, predictions are too short."""
        return fmean(self.errors) if self.errors else None

    @property
    def memory_mape(self) -> float | None:
        """Mean absolute error of memory."""
        return fmean(map(abs, self.memory_errors)) if self.memory_errors else None

    @property
    def worst(self) -> list[Case]:
        """The rows with the largest errors."""
        return sorted(self.shown, key=lambda case: -abs(case.error or 0))[:WORST]

    @property
    def sweeps(self) -> Mapping[str, tuple[Case, ...]]:
        """Rows of one model and cluster, where there are enough of them to have a trend."""
        found: defaultdict[str, list[Case]] = defaultdict(list)
        for case in self.shown:
            found[case.sweep].append(case)
        return {name: tuple(cases) for name, cases in found.items() if len(cases) >= SWEEP}

    @property
    def left_out(self) -> Mapping[str, int]:
        """How many rows have no prediction, by the reason."""
        found: defaultdict[str, int] = defaultdict(int)
        for case in self.cases:
            if case.error is None:
                found[case.reason] += 1
        return dict(sorted(found.items(), key=lambda each: -each[1]))


def grouped(cases: Iterable[Case]) -> tuple[Group, ...]:
    """By source, in the order of the cases."""
    found: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found[case.group].append(case)
    return tuple(Group(name, tuple(own)) for name, own in found.items())


def rank_correlation(cases: Sequence[Case]) -> float | None:
    """Spearman's, of predicted and measured times; absent if one of them does not vary."""
    from scipy.stats import spearmanr

    measured, predicted = [case.measured_s for case in cases], [case.predicted_s for case in cases]
    if len(set(measured)) < 2 or len(set(predicted)) < 2:
        return None
    return float(spearmanr(measured, predicted).statistic)


def factors(cases: Sequence[Case]) -> Mapping[str, float]:
    """By which factor each cause would have to be longer for the measured times to be met best: a diagnosis, no fit.

    Least squares of relative errors with factors of 0 or more, on causes that matter in some row and only where there
    are more rows than causes. The mean over ranks of all causes is the whole step, so that factors of 1 change nothing.
    """
    import numpy as np
    from scipy.optimize import nnls

    shown = [case for case in cases if case.error is not None]
    causes = [
        cause for cause in CAUSES if any(case.account[cause] > LEAST_SHARE * (case.predicted_s or 0) for case in shown)
    ]
    if len(shown) <= len(causes):
        return {}
    shares = np.array([[case.account[cause] / (case.measured_s or 1) for cause in causes] for case in shown])
    found, _ = nnls(shares, np.ones(len(shown)))
    return dict(zip(causes, found.tolist(), strict=True))
