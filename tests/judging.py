"""The planners side by side: the simulated time of what each finds, over random unlike clusters."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator
from statistics import fmean

from tests.planning import random_scenario, site_of
from xsim.errors import SpecError
from xsim.families import build, names
from xsim.plan.contracts import Planner
from xsim.spec.scenario import Scenario

__all__ = ["judged", "searching", "slowdowns"]

TOLD = ("given", "repair")  # they begin with the deployment of the scenario
OF_ITS_OWN = {"uniform": {"search": True}}  # what makes a planner search that otherwise takes what it is told


def searching() -> dict[str, Planner]:
    """All planners that search, by name."""
    found = [name for name in names("planner") if name not in TOLD]
    return {name: build("planner", {"name": name, **OF_ITS_OWN.get(name, {})}) for name in found}


def judged(asked: Scenario, planners: dict[str, Planner]) -> dict[str, int]:
    """Simulated picoseconds of each planner's plan, where links are shared; of those that find one."""
    site, times = site_of(asked, "flow"), {}
    for name, planner in planners.items():
        try:
            plan = planner.plan(asked, site)
        except SpecError:
            continue
        times[name] = site.simulate(plan).training_time_ps
    return times


def slowdowns(rows: Iterable[dict[str, int]], name: str) -> list[float]:
    """Of each row that has the planner's plan, its time over the least of all."""
    return [row[name] / min(row.values()) for row in rows if name in row]


def _lines(rows: list[dict[str, int]]) -> Iterator[str]:
    for name in searching():
        found = slowdowns(rows, name)
        if found:
            mean = math.exp(fmean(map(math.log, found)))
            best = sum(each == 1 for each in found)
            means = f"{mean:.3f} x the best in the mean, {max(found):.2f} x at most"
            yield f"{name:10} {len(found):4} plans, {means}, best {best} times"


def main(*seeds: int) -> None:
    """Print after each scenario what its plans take over the best, and then the table of all.

    Args:
        seeds: The first and how many, as often as wanted.
    """
    rows, planners = [], searching()
    spans = [range(first, first + count) for first, count in zip(seeds[::2], seeds[1::2], strict=True)]
    for seed in (seed for span in spans for seed in span):
        begun = time.process_time()
        rows.append(judged(random_scenario(seed), planners))
        least = min(rows[-1].values(), default=1)
        shown = " ".join(f"{name}={own / least:.3f}" for name, own in rows[-1].items())
        print(seed, f"{time.process_time() - begun:.1f} s", shown, flush=True)
    print(*_lines(rows), sep="\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
