"""What can be said about a point without simulating it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import cast

from analysis.command import tell
from analysis.screen import counted
from runners.brake import FAILURES
from runners.due import History, chosen, why
from runners.inputs import read
from runners.points import Plan, Point
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric, Topology
from xsim.plan.contracts import Schedule
from xsim.plan.memory import Verdict, deployment_memory
from xsim.spec.cluster import ClusterSpec
from xsim.spec.scenario import Scenario, check_deployment

__all__ = ["list_points", "preview"]

IDLE = "not to be simulated"


def list_points(plan: Plan) -> None:
    """Print every point of a sweep: what is known to go wrong, its key, why it would run or not, and for how long."""
    settings = plan.settings
    history = History.of(settings.out / plan.name)
    reasons: Counter[str] = Counter()
    expected_s: list[float | None] = []
    shard = settings.shard
    points = [point for point in chosen(plan.points, settings.only) if shard is None or shard.holds(point.key)]
    failed = 0
    for point in points:
        reason = why(point, history, settings)
        if not reason:
            status = history.known[point.key]
            failed += status in FAILURES
            print(f"{point.title}  [{point.key[:8]}]  there: {status}")
            continue
        line, runs = preview(point)
        reasons[reason.partition(":")[0].partition(",")[0] if runs else IDLE] += 1
        took_s = history.expected_s(point) if runs else 0.0
        if runs:
            expected_s.append(took_s)
        print(f"{line}  {reason if runs else IDLE}{'' if not runs or took_s is None else f', about {_shown(took_s)}'}")
    again = f"; retry=failed runs {counted(failed, 'point')} again" if failed else ""
    tell(_total(plan, len(points), reasons, expected_s) + again)


def _total(plan: Plan, listed: int, reasons: Counter[str], expected_s: Sequence[float | None]) -> str:
    text = counted(listed, "point")
    shown = "".join(f", {count} {reason}" for reason, count in reasons.items())
    text += f": {listed - reasons.total()} there{shown}"
    known_s = [each for each in expected_s if each is not None]
    unknown = len(expected_s) - len(known_s)
    workers = min(plan.settings.num_workers or len(os.sched_getaffinity(0)), max(1, len(expected_s)))
    if known_s:
        text += f"; about {_shown(sum(known_s) / workers)} on {counted(workers, 'worker')}, as earlier runs took"
    if unknown:
        text += f"; of {'those' if unknown == len(expected_s) else unknown} no earlier run tells how long they take"
    return text


def _shown(seconds: float) -> str:
    """Two figures, in the unit that suits.

    >>> _shown(0.0123), _shown(75.0), _shown(50_000.0)
    ('0.012 s', '75 s', '14 h')
    """
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def preview(point: Point) -> tuple[str, bool]:
    """Title, what is known to go wrong, and the beginning of the key under which the result will lie; whether it runs.

    Wires and background traffic are built as the run would build them; what a planner makes of a point, and what
    strategies say to it, only the run shows.
    """
    fate, runs = _fate(point)
    return f"{point.title}{f'  {fate}' if fate else ''}  [{point.key[:8]}]", runs


def _fate(point: Point) -> tuple[str, bool]:
    if point.contradiction:
        return f"invalid: {point.contradiction}", False
    experiment = read(point.config).experiment()
    scenario = experiment.scenario
    try:
        wires = _wires(cast(Hashable, experiment.topology), scenario.cluster)
        experiment.background.traffic(wires, experiment.seed)
        if experiment.faults:
            experiment.network.open(wires, experiment.seed, experiment.faults)
        if point.labels["planner"] != "given" or scenario.deployment is None:
            return "(memory is known when it is planned)", True
        memory = _memory(cast(Hashable, scenario), cast(Hashable, experiment.schedule))
    except SpecError as refusal:
        return f"invalid: {refusal}", False
    if memory.fits:
        return "", True
    enforced = experiment.memory == "enforce"
    return f"{'does_not_fit' if enforced else 'simulated, but does not fit'}: {memory.text}", not enforced


@lru_cache(maxsize=64)
def _memory(scenario: Hashable, schedule: Hashable) -> Verdict:
    """Points of a sweep share them too."""
    assert isinstance(scenario, Scenario)
    assert scenario.deployment is not None
    deployment = check_deployment(scenario.deployment, scenario)
    return deployment_memory(scenario, deployment, cast(Schedule, schedule).order)


@lru_cache(maxsize=4)
def _wires(topology: Hashable, cluster: ClusterSpec) -> Fabric:
    """Points of a sweep share them."""
    return cast(Topology, topology).build(cluster)
