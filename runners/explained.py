"""The critical path and the levers of a run as tables, and on the screen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from analysis.command import tell
from analysis.screen import decimals, print_table
from runners.levers import gains, levers
from xsim.critical import Piece
from xsim.experiment import Experiment, Result
from xsim.fabric.transfers import TransferGraph
from xsim.spec.cluster import rank_devices
from xsim.tables import Table, ranges
from xsim.units import PS_PER_S

__all__ = ["path_table", "print_levers", "print_path", "tried"]

LARGEST = 3
SHOWN_SUMS = 16
SHOWN_LEGS = 30
LEGEND = """
groups: replica.stage.group, each from 0
actions: F3 is the forward and B3 the backward pass of micro-batch 3, of which I3 are the gradients of the input and W3
  those of the weights; F3.1 is of the virtual stage 1; U0 is the update by the optimizer; F0 .. B15: from the one to
  the other, and all between
pieces: compute is work of a device, collective a transfer among the ranks of a group, hand_over one between stages,
  sync one of gradients or parameters
held up: what a transfer took longer than with the wires to itself"""


def path_table(experiment: Experiment, result: Result, path: Sequence[Piece]) -> Table:
    """A row per piece of the critical path, in order of time: what, where, and how much longer than alone."""
    alone_ps, links = _alone(experiment, result), _links(result)
    devices = rank_devices(experiment.scenario.cluster)
    programs = [result.workload.programs[piece.program] for piece in path]
    waits = [piece.duration_ps - max(map(alone_ps, piece.graphs), default=piece.duration_ps) for piece in path]
    kinds = [dict.fromkeys(kind for graph in piece.graphs for kind in links(graph)) for piece in path]
    return {
        "start_ps": np.array([piece.start_ps for piece in path], dtype=np.int64),
        "end_ps": np.array([piece.end_ps for piece in path], dtype=np.int64),
        "piece": [piece.kind for piece in path],
        "operator": [piece.operator for piece in path],
        "held_up_ps": np.array([max(0, wait) for wait in waits], dtype=np.int64),
        "action": [str(piece.action) for piece in path],
        "groups": [f"{program.replica}.{program.stage}.{program.group}" for program in programs],
        "ranks": [ranges(piece.ranks) for piece in path],
        "device": [", ".join(dict.fromkeys(devices[rank].name for rank in piece.ranks)) for piece in path],
        "link_kind": [", ".join(kind) for kind in kinds],
    }


def _alone(experiment: Experiment, result: Result) -> Callable[[TransferGraph], int]:
    """What transfers take with the wires to themselves."""
    graphs = [each.graph for each in result.workload.moves] + [each.graph for each in result.workload.syncs]
    distances = (*result.optimality.moves, *result.optimality.syncs)
    known = {id(graph): distance.alone_ps for graph, distance in zip(graphs, distances, strict=True)}
    network = experiment.network.open(result.fabric, experiment.seed, experiment.faults)

    def alone_ps(graph: TransferGraph) -> int:
        if id(graph) not in known:
            known[id(graph)] = network.solo(graph)
        return known[id(graph)]

    return alone_ps


def _links(result: Result) -> Callable[[TransferGraph], tuple[str, ...]]:
    """Kinds of the links that transfers cross."""
    known: dict[int, tuple[str, ...]] = {}

    def links(graph: TransferGraph) -> tuple[str, ...]:
        if id(graph) not in known:
            pairs = set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
            numbers = sorted({link for pair in pairs for link in result.fabric.route(*pair)})
            known[id(graph)] = tuple(dict.fromkeys(result.fabric.links[number].kind for number in numbers))
        return known[id(graph)]

    return links


def print_path(table: Table, result: Result) -> None:
    """What the path consists of: by operator, by place, and its longest legs in order of time."""
    rows: list[dict[str, Any]] = [
        dict(zip(table, values, strict=True)) for values in zip(*map(list, table.values()), strict=True)
    ]
    makespan_ps = result.timeline.makespan_ps
    places = decimals(makespan_ps / PS_PER_S)
    print(f"Critical path: {len(rows)} pieces, {makespan_ps / PS_PER_S:.{places}f} s")
    for names in (("piece", "operator", "link_kind"), ("groups", "device", "piece")):
        sums: dict[tuple[str, ...], list[int]] = {}
        for row in rows:
            of = sums.setdefault(tuple(str(row[name]) for name in names), [0, 0, 0])
            for column, value in enumerate((row["end_ps"] - row["start_ps"], row["held_up_ps"], 1)):
                of[column] += int(value)
        numbers = ["time [s]", "share", "held up [s]", "pieces"]
        lines = [
            [*key, *(f"{ps / PS_PER_S:.{places}f}" for ps in (time, held)), f"{time / makespan_ps:.2%}", str(count)]
            for key, (time, held, count) in sorted(sums.items(), key=lambda item: -item[1][0])
        ]
        print_table([*names, "time [s]", "held up [s]", "share", "pieces"], lines[:SHOWN_SUMS], numbers=numbers)
        if len(lines) > SHOWN_SUMS:
            print(f"only the largest {SHOWN_SUMS} of {len(lines)}")
        print()
    legs = _legs(rows)
    shown = sorted(sorted(legs, key=lambda leg: leg["start_ps"] - leg["end_ps"])[:SHOWN_LEGS], key=_start)
    lines = [
        [
            *(f"{ps / PS_PER_S:.{places}f}" for ps in (leg["start_ps"], leg["end_ps"] - leg["start_ps"])),
            *(str(leg[name]) for name in ("piece", "groups", "actions", "ranks", "device")),
        ]
        for leg in shown
    ]
    columns = ["from [s]", "time [s]", "piece", "groups", "actions", "ranks", "device"]
    print_table(columns, lines, numbers=columns[:2])
    if len(shown) < len(legs):
        print(f"only the longest {len(shown)} of {len(legs)} legs; the table critical_path has all pieces")
    print(LEGEND)


def _start(leg: dict[str, Any]) -> int:
    return int(leg["start_ps"])


def _legs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours in one group joined, as long as it computes or talks within itself; each exchange apart."""
    legs: list[dict[str, Any]] = []
    for row in rows:
        inside = row["piece"] in ("compute", "collective")
        last = legs[-1] if legs else None
        if last is not None and inside and last["inside"] and last["groups"] == row["groups"]:
            last["end_ps"], last["last"] = row["end_ps"], row["action"]
            last["all"] |= _numbers(row["ranks"])
            last["piece"] = " and ".join(sorted({*last["piece"].split(" and "), row["piece"]}))
        else:
            legs.append({**row, "inside": inside, "last": row["action"], "all": _numbers(row["ranks"])})
    for leg in legs:
        leg["actions"] = leg["action"] if leg["action"] == leg["last"] else f"{leg['action']} .. {leg['last']}"
        leg["ranks"] = ranges(sorted(leg["all"]))
    return legs


def _numbers(text: str) -> set[int]:
    """The ranks of ``xsim.tables.ranges``."""
    ends = [part.split("-") for part in text.split()]
    return {rank for each in ends for rank in range(int(each[0]), int(each[-1]) + 1)}


def tried(experiment: Experiment, result: Result) -> Table:
    """A row per lever: what the iteration takes with it, the shortest first; those that cannot be come last."""
    every = list(levers(experiment, result))
    found = []
    for number, gain in enumerate(gains(experiment, iter(every)), start=1):
        if number % 8 == 0:
            tell(f"[{number}/{len(every)} levers]")
        found.append(gain)
    found.sort(key=lambda gain: math.inf if gain.makespan_ps is None else gain.makespan_ps)
    times = [result.timeline.makespan_ps if gain.makespan_ps is None else gain.makespan_ps for gain in found]
    return {
        "lever": [gain.lever.name for gain in found],
        "makespan_ps": np.array(times, dtype=np.int64),
        "saved_ps": np.array([result.timeline.makespan_ps - time for time in times], dtype=np.int64),
        "fits": [str(gain.fits).lower() for gain in found],
        "problem": [gain.problem for gain in found],
    }


def print_levers(table: Table, makespan_ps: int) -> None:
    """All levers of an iteration that takes ``makespan_ps``, and in words the largest."""
    places = decimals(makespan_ps / PS_PER_S)
    rows = list(zip(*map(list, table.values()), strict=True))
    lines = [
        [
            *(str(name), f"{time / PS_PER_S:.{places}f}", f"{saved / PS_PER_S:z.{places}f}"),
            *(f"{saved / makespan_ps:z.2%}", "" if fits == "true" else "does not fit into memory"),
        ]
        for name, time, saved, fits, problem in rows
        if not problem
    ]
    columns = ["lever", "training time [s]", "saved [s]", "share", "note"]
    print_table(columns, lines, numbers=columns[1:4])
    for name, *_, problem in rows:
        if problem:
            print(f"Not here: {name}: {problem}")
    best = [f"{name} ({saved / makespan_ps:.2%})" for name, _, saved, _, _ in rows if saved > 0][:LARGEST]
    print(f"Largest levers: {', '.join(best) or 'none of these saves anything'}")
