"""The planners side by side: the simulated time of what each finds, over random unlike clusters."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tests.planning import random_scenario, site_of
from xsim.errors import SpecError
from xsim.families import build, names
from xsim.plan.contracts import Planner
from xsim.spec.scenario import Scenario

__all__ = ["judged", "searching", "slowdowns"]

TOLD = ("given", "repair")  # they begin with the deployment of the scenario
OF_ITS_OWN = {"uniform": {"search": True}}  # what makes a planner search that otherwise takes what it is told
BY_PRICE = "xsim top=0"  # what simulation has to choose from, before it chooses


def searching() -> dict[str, Planner]:
    """All planners that search, by name."""
    found = [name for name in names("planner") if name not in TOLD]
    return {name: build("planner", {"name": name, **OF_ITS_OWN.get(name, {})}) for name in found}


def judged(asked: Scenario, planners: Mapping[str, Planner]) -> dict[str, int]:
    """Simulated picoseconds of each planner's plan, where links are shared; of those that find one."""
    site, times = site_of(asked, "flow"), {}
    for name, planner in planners.items():
        try:
            plan = planner.plan(asked, site)
        except SpecError:
            continue
        times[name] = site.simulate(plan).training_time_ps
    return times


def slowdowns(rows: Iterable[Mapping[str, int]], name: str) -> list[float]:
    """Of each row that has the planner's plan, its time over the least of all planners."""
    return [row[name] / min(row[own] for own in row if own != BY_PRICE) for row in rows if name in row]


def _lines(rows: Sequence[Mapping[str, int]], planners: Iterable[str]) -> Iterator[str]:
    for name in planners:
        found = slowdowns(rows, name)
        if found:
            mean = math.exp(fmean(map(math.log, found)))
            best, near = (sum(each <= most for each in found) for most in (1, 1.02))
            means = f"{mean:.3f} x the best in the mean, {max(found):.2f} x at most"
            yield f"{name:10} {len(found):4} plans, {means}, best {best} times, within 2 % {near} times"
    both = [row for row in rows if BY_PRICE in row and "xsim" in row]
    changed = sum(row[BY_PRICE] != row["xsim"] for row in both)
    yield f"simulation chose another plan than the price in {changed} of {len(both)}"


def _stored(path: Path) -> dict[int, dict[str, int]]:
    """What has been judged, by seed; of a planner that found nothing 0."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows: dict[int, dict[str, int]] = {}
    for seed, row in map(json.loads, lines):
        rows.setdefault(seed, {}).update(row)
    return rows


def main(path: Path, *seeds: int) -> None:
    """Print of each scenario what its plans take over the best, and then the table of all.

    Args:
        path: A line for each scenario that is judged is added; planners that it has are not asked again.
        seeds: The first and how many, as often as wanted.
    """
    rows = _stored(path)
    planners = {**searching(), BY_PRICE: build("planner", {"name": "xsim", "top": 0})}
    spans = [range(first, first + count) for first, count in zip(seeds[::2], seeds[1::2], strict=True)]
    asked = [seed for span in spans for seed in span]
    for seed in asked:
        begun, known = time.process_time(), rows.setdefault(seed, {})
        new = {name: planner for name, planner in planners.items() if name not in known}
        if new:
            known.update(dict.fromkeys(new, 0) | judged(random_scenario(seed), new))
            with path.open("a") as file:
                file.write(json.dumps([seed, {name: known[name] for name in new}]) + "\n")
        found = {name: own for name, own in known.items() if own}
        least = min((own for name, own in found.items() if name != BY_PRICE), default=1)
        shown = " ".join(f"{name}={own / least:.3f}" for name, own in found.items())
        print(seed, f"{time.process_time() - begun:.1f} s", shown, flush=True)
    print(*_lines([{n: own for n, own in rows[seed].items() if own} for seed in asked], planners), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
