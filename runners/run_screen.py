"""One run on the screen: where its time went, per cause and per rank, and every other figure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from analysis.screen import decimals, print_table
from xsim.metrics import COLUMNS
from xsim.plan.planner.given import Given
from xsim.spec.cluster import ClusterSpec, rank_devices
from xsim.tables import ranges
from xsim.units import PS_PER_S
from xsim.waits import CAUSES

if TYPE_CHECKING:
    from xsim.experiment import Experiment, Result
    from xsim.metrics import Column
    from xsim.plan.workload import Program

__all__ = ["explain", "figure", "scaled", "unused"]

SHOWN_RANKS = 16  # larger deployments are shown by device group
SHOWN_COLLECTIVES = 12
SHOWN_GROUPS = 64  # of still larger ones only those of the first replica

NAMES = {"straggler_wait": "idle"}  # causes that the results call otherwise
SCALES = {
    "B": ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"), (1, "B")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
}


def explain(experiment: Experiment, result: Result) -> None:
    """Print the account by cause, then by rank or group, then the rest."""
    row, scenario, ranks = result.metrics.row(), experiment.scenario, result.account.ranks.tolist()
    total_s = float(row["training_time_s"])
    places = decimals(total_s)
    causes = [NAMES.get(cause, cause) for cause in CAUSES]
    account = []
    for cause in causes:
        mean_s, most_s = float(row[f"{cause}_time_s"]), float(row[f"{cause}_time_max_s"])
        account.append([cause, f"{mean_s:.{places}f}", f"{mean_s / total_s:.2%}", f"{most_s:.{places}f}"])
    account.append(["training time", f"{total_s:.{places}f}", "100.00%", f"{total_s:.{places}f}"])
    print_table(["cause", "mean [s]", "share", "largest [s]"], account, numbers=["mean [s]", "share", "largest [s]"])
    _print_plan(result, places)
    print()
    _print_places(experiment, result, places)
    print()
    shown = {"training_time_s", "predicted_s", *(f"{cause}_time{part}_s" for cause in causes for part in ("", "_max"))}
    if row["iterations"] == 1:
        shown |= {column.name for column in COLUMNS if column.name.startswith(("iterations", "training_time_"))}
    rest = [c for c in COLUMNS if c.name in row and c.name not in shown and c.kind != "text"]
    figures = [[column.name, figure(column, row[column.name]), column.doc] for column in rest]
    print_table(["figure", "value", "meaning"], figures, numbers=["value"])
    print()
    _print_collectives(result)
    print(f"\nMemory: {row['memory_verdict']}")
    print(f"Busiest link: {row['busiest_link']}")
    print(
        f"Devices: {row['ranks']} used, {row['unused_devices']} of the cluster unused{unused(scenario.cluster, ranks)}"
    )
    if row["unused_devices"] and isinstance(experiment.planner, Given):
        print(f"A plan of more of them: planner=xsim batch={scenario.batch}, say, in place of deployment=")
    for text in result.stand_ins:
        print(f"Stand-in: {text}")


def _print_plan(result: Result, places: int) -> None:
    """What its maker says of the plan, such as how far it is from a bound, and predicts of it."""
    found, total_s = result.metrics, result.metrics.training_time_s
    if found.plan:
        print(f"Plan: {found.plan}")
    if found.predicted_s is not None:
        told = f"{found.predicted_s:.{places}f} s; simulated: {total_s:.{places}f} s"
        off = f"{found.predicted_s / total_s - 1:+z.1%}"
        print(f"Predicted by its maker: {told}; the first over the second, less 1: {off}")


def figure(column: Column, value: float | bool | str) -> str:
    """``value`` in a unit that suits it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if column.unit in SCALES and value:
        return scaled(value, column.unit)
    if column.unit == "1":
        return f"{value:.2%}" if column.kind == "float" else str(value)
    return f"{value:.6g} {column.unit}".rstrip()


def scaled(value: float, unit: str) -> str:
    """``value`` with the prefix that suits it."""
    steps = SCALES[unit]
    factor, prefixed = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    return f"{value / factor:.4g} {prefixed}" if value < 1000 * factor else f"{value / factor:.0f} {prefixed}"


def _print_places(experiment: Experiment, result: Result, places: int) -> None:
    """Time by cause of each rank of a small deployment, else of each group: the mean of its ranks."""
    programs = result.workload.programs
    few = len(result.account.ranks) <= SHOWN_RANKS
    shown = [program for program in programs if few or len(programs) <= SHOWN_GROUPS or program.replica == 0]
    rows = list(_places(experiment, result, shown, places, each=few))
    names = ["ranks", "device", "replica", "stage"]
    causes = [NAMES.get(cause, cause) for cause in CAUSES]
    print("time by cause [s]" + ("" if few else ", mean of each group's ranks"))
    print_table([*names, *causes], rows, numbers=causes)
    if len(shown) < len(programs):
        print("only the first replica; the table of ranks has all")


def _places(
    experiment: Experiment, result: Result, programs: Sequence[Program], places: int, *, each: bool
) -> Iterator[list[str]]:
    devices = rank_devices(experiment.scenario.cluster)
    of_rank = dict(zip(result.account.ranks.tolist(), result.account.causes_ps.tolist(), strict=True))
    for program in programs:
        ranks = program.devices.ranks
        for members in [(rank,) for rank in ranks] if each else [ranks]:
            sums_ps = [sum(column) for column in zip(*(of_rank[rank] for rank in members), strict=True)]
            times = [f"{total / (len(members) * PS_PER_S):.{places}f}" for total in sums_ps]
            names = ", ".join(dict.fromkeys(devices[rank].name for rank in members))
            yield [ranges(members), names, str(program.replica), str(program.stage), *times]


def _print_collectives(result: Result) -> None:
    """Which way collectives took, the largest first."""
    shown = sorted(result.collectives, key=lambda taken: -taken.size_bytes)[:SHOWN_COLLECTIVES]
    rows = [
        (taken.kind, str(taken.ranks), str(taken.hosts), scaled(taken.size_bytes, "B"), taken.way) for taken in shown
    ]
    print_table(
        ["collective", "ranks", "hosts", "size", "way"], dict.fromkeys(rows), numbers=["ranks", "hosts", "size"]
    )
    if len(shown) < len(result.collectives):
        print(f"only the largest {len(shown)} of {len(result.collectives)}; the table of collectives has all")


def unused(cluster: ClusterSpec, used: Collection[int]) -> str:
    """Which devices of the cluster no rank in ``used`` is: their kinds and ranks."""
    of_kind: dict[str, list[int]] = {}
    for rank, device in enumerate(rank_devices(cluster)):
        if rank not in used:
            of_kind.setdefault(device.name, []).append(rank)
    parts = (f"{name} {ranges(ranks)}" for name, ranks in of_kind.items())
    return f" ({', '.join(parts)})" if of_kind else ""
