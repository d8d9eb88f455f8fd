"""One simulation after another, in a process of its own.

Only plain data goes in and out: a config, and an outcome whose errors are text. A worker writes no file and knows no
Hydra, Arrow or MLflow; whatever goes wrong in a simulation is an answer, never an exception.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import resource
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from runners.inputs import code_hash, read
from runners.run_tables import TIMELINE, run_tables, timeline
from runners.warm import Warming
from xsim.errors import SpecError
from xsim.experiment import DoesNotFitError, Experiment, Result, run
from xsim.tables import Table

__all__ = ["Greeting", "Outcome", "Worker", "attempted", "simulate", "versions"]

OWN = ("worker.py", "inputs.py", "faults.py", "options.py", "run_tables.py", "warm.py")  # what a worker runs of them
FREE_SHARE = 0.9  # of the memory that is free, for a simulation that has its host to itself


class Outcome(TypedDict):
    """What became of one simulation.

    Attributes:
        status: ok, failed, timeout, crashed, out_of_memory, does_not_fit or invalid.
        reason: One line; empty if ok.
        details: Traceback of a failure, else empty.
        metrics: By column name; empty unless ok.
        wall_s: Time that it took here.
        search_s: What of it the planner took; absent if it did not end.
        tables: Large tables by name, those that were asked for; the timeline as JSON.
    """

    status: str
    reason: str
    details: str
    metrics: dict[str, float | int | bool | str]
    wall_s: float
    search_s: NotRequired[float]
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
    except Exception as error:  # see ``attempted``
        reason, details = f"its tables: {type(error).__name__}: {error}", traceback.format_exc()
        return {**outcome, "status": "failed", "reason": " ".join(reason.split()), "details": details, "metrics": {}}


def attempted(
    make: Callable[[], Experiment],
    begins: Callable[[int], None] = lambda _: None,
    plans: Callable[[bool], None] = lambda _: None,
    progress: Callable[[int, int, str], None] = lambda *_: None,
) -> tuple[Result | None, Outcome]:
    """The result of the experiment that ``make`` makes, if there is one, and its outcome.

    What the network compiles or loads on first use is no part of any time; what is wrong before is told at once.

    Args:
        begins: Is told of each iteration, as by ``run``.
        plans, progress: Of the planner, as by ``run``.
    """
    result: Result | None = None
    opened: list[Warming] = []
    planning: list[float] = []
    status, details, reason = "ok", "", ""

    def now_s() -> float:
        return time.perf_counter() - sum(network.took_s for network in opened)

    def noted(begin: bool) -> None:
        planning.append(now_s())
        plans(begin)

    started_s = now_s()
    try:
        experiment = make()
        opened.append(Warming(experiment.network))
        result = run(replace(experiment, network=opened[0]), begins, noted, progress)
    except SpecError as error:
        status, reason = "invalid", str(error)
    except DoesNotFitError as error:
        status, reason = "does_not_fit", str(error)
    except MemoryError:
        status, reason = "out_of_memory", "the simulation needs more memory than its process may use"
    except Exception as error:  # a defect anywhere below becomes a row with its traceback
        status, reason, details = "failed", f"{type(error).__name__}: {error}", traceback.format_exc()
    outcome = Outcome(
        status=status,
        reason=" ".join(reason.split()),
        details=details,
        metrics={} if result is None else dict(result.metrics.row()),
        wall_s=now_s() - started_s,
    )
    if len(planning) > 1:
        outcome["search_s"] = planning[1] - planning[0]
    return result, outcome


class Greeting(TypedDict):
    """Who a worker is.

    Attributes:
        host: Name of its host.
        node: Ray's name of that.
        versions: Of what its figures depend on, by name: see ``versions``.
    """

    host: str
    node: str
    versions: dict[str, str]


@functools.cache
def versions() -> dict[str, str]:
    """What results depend on, here: the simulator's code and the packages that it computes with."""
    own = (Path(__file__).with_name(name).read_bytes() for name in OWN)
    runners = hashlib.sha256(b"".join(own)).hexdigest()[:16]
    packages = {name: metadata.version(name) for name in ("numba", "numpy", "scipy", "simpy")}
    code = {"the code of xsim": code_hash(), "the code of runners": runners}
    return {**code, "python": ".".join(platform.python_version_tuple()[:2]), **packages}


class Worker:
    """Ray makes an actor of it."""

    def __init__(self) -> None:
        """Keep what simulations print out of Ray's log files, which would grow without end."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)

    def hello(self) -> Greeting:
        """Which simulator runs here, and where."""
        import ray

        node: str = ray.get_runtime_context().get_node_id()
        return Greeting(host=socket.gethostname(), node=node, versions=versions())

    def simulate(self, config: Mapping[str, object]) -> Outcome:
        """See ``simulate``."""
        return simulate(config)

    def simulate_all(self, configs: Sequence[Mapping[str, object]], memory_bytes: int | None) -> list[Outcome]:
        """One after another, each with ``memory_bytes`` of data at most; absent: with most of what is free.

        Too large a simulation ends as an answer, not as a dead process.
        """
        limit_bytes = _free_bytes() if memory_bytes is None else memory_bytes
        with contextlib.suppress(ValueError):  # an administrator's limit is lower: that one holds
            resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, resource.RLIM_INFINITY))
        outcomes = [self.simulate(config) for config in configs]
        for outcome in outcomes:
            if outcome["status"] == "out_of_memory":
                outcome["reason"] = f"{outcome['reason']}: {limit_bytes / 1e9:.1f} GB"
        return outcomes


def _free_bytes() -> int:
    """What this process may use without taking it from others."""
    known = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    own_pages = int(Path("/proc/self/statm").read_text().split()[5])
    available_bytes = int(known["MemAvailable"].split()[0]) * 1024
    return own_pages * resource.getpagesize() + int(FREE_SHARE * available_bytes)
