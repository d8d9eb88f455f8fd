"""One simulation after another, in a process of its own.

Only plain data goes in and out: a config, and an outcome whose errors are text. A worker writes no file and knows no
Hydra, Arrow or MLflow; whatever goes wrong in a simulation is an answer, never an exception.
"""

from __future__ import annotations

import contextlib
import resource
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import NotRequired, TypedDict, cast

from runners.inputs import code_hash, read
from runners.run_tables import TIMELINE, run_tables, timeline
from runners.warm import warm
from xsim.errors import SpecError
from xsim.experiment import DoesNotFitError, Experiment, Result, run
from xsim.tables import Table

__all__ = ["Outcome", "Worker", "attempted", "simulate"]


class Outcome(TypedDict):
    """What became of one simulation.

    Attributes:
        status: ok, failed, timeout, crashed, out_of_memory, does_not_fit or invalid.
        reason: One line; empty if ok.
        details: Traceback of a failure, else empty.
        metrics: By column name; empty unless ok.
        wall_s: Time that it took here.
        tables: Large tables by name, those that were asked for; the timeline as JSON.
    """

    status: str
    reason: str
    details: str
    metrics: dict[str, float | int | bool | str]
    wall_s: float
    tables: NotRequired[dict[str, Table | bytes]]


def simulate(config: Mapping[str, object]) -> Outcome:
    """Run the experiment that the plain ``config`` describes; its ``detail`` names the tables to keep."""
    made: list[Experiment] = []

    def make() -> Experiment:
        made.append(read(config).experiment())
        return made[0]

    result, outcome = attempted(make)
    names = cast(Sequence[str], config.get("detail", ()))
    if result is None or not names:
        return outcome
    try:
        tables: dict[str, Table | bytes] = {**run_tables(made[0], result, names)}
        return {**outcome, "tables": tables | ({TIMELINE: timeline(made[0], result)} if TIMELINE in names else {})}
    except MemoryError:
        reason = "its tables need more memory than its process may use"
        return {**outcome, "status": "out_of_memory", "reason": reason, "metrics": {}}


def attempted(make: Callable[[], Experiment]) -> tuple[Result | None, Outcome]:
    """The result of the experiment that ``make`` makes, if there is one, and its outcome.

    What the network compiles or loads on first use is not part of the time.
    """
    started = time.perf_counter()
    result: Result | None = None
    status, details, reason = "ok", "", ""
    try:
        experiment = make()
        warm(experiment.network)
        started = time.perf_counter()
        result = run(experiment)
    except SpecError as error:
        status, reason = "invalid", str(error)
    except DoesNotFitError as error:
        status, reason = "does_not_fit", str(error)
    except MemoryError:
        status, reason = "out_of_memory", "the simulation needs more memory than its process may use"
    except Exception as error:  # a defect anywhere below becomes a row with its traceback
        status, reason, details = "failed", f"{type(error).__name__}: {error}", traceback.format_exc()
    return result, Outcome(
        status=status,
        reason=" ".join(reason.split()),
        details=details,
        metrics={} if result is None else dict(result.metrics.row()),
        wall_s=time.perf_counter() - started,
    )


class Worker:
    """Ray makes an actor of it."""

    def __init__(self, memory_bytes: int | None) -> None:
        """Allow ``memory_bytes`` of data: too large a simulation ends as an answer, not as a dead process."""
        if memory_bytes is not None:
            with contextlib.suppress(ValueError):  # an administrator's limit is lower: that one holds
                resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, resource.RLIM_INFINITY))

    def code(self) -> str:
        """Which simulator runs here."""
        return code_hash()

    def simulate(self, config: Mapping[str, object]) -> Outcome:
        """See ``simulate``."""
        return simulate(config)
