"""A plan on the screen: its stages, what was predicted of it, what it takes, and where the two part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from analysis.screen import counted, decimals, print_table
from runners.plan_tables import Part
from runners.run_screen import NAMES, scaled
from xsim.critical import critical_path
from xsim.experiment import Experiment, Result
from xsim.plan.search.price import Priced
from xsim.tables import ranges
from xsim.units import PS_PER_S
from xsim.waits import CAUSES

__all__ = ["compare", "print_parts", "print_priced"]

DEGREES = ("tp", "cp", "ep")
BAR = 10  # cells of a memory bar
PIECES: Mapping[str, str] = {
    "compute": "computing",
    "collective": "collectives of device groups",
    "hand_over": "hand-overs between stages",
    "sync": "gradient syncs",
}


def print_parts(found: Sequence[Part]) -> None:
    """A line per stage, and how full its devices are."""
    columns = ["pipeline", "stage", "layers", "devices", *DEGREES, "copies", "samples", "memory", "ranks", "recompute"]
    rows = []
    for part in found:
        equal = f" (of {len(part.replicas)} equal)" if len(part.replicas) > 1 else ""
        filled = part.need_bytes / part.has_bytes
        bar = "#" * min(BAR, round(BAR * filled))
        rows.append(
            [
                f"{part.pipeline}{equal}",
                str(part.stage),
                f"{part.layers.start}..{part.layers.stop - 1}",
                f"{part.tp * part.cp * part.count} x {part.device}",
                str(part.tp),
                str(part.cp),
                str(part.ep),
                str(part.count),
                str(part.samples),
                f"{bar:.<{BAR}} {filled:4.0%} of {scaled(part.has_bytes, 'B')}",
                ranges(sorted(part.ranks)),
                part.recompute,
            ]
        )
    plain = {"cp": all(p.cp == 1 for p in found), "ep": all(p.ep == 1 for p in found)}
    plain["recompute"] = not any(part.recompute for part in found)
    shown = [number for number, name in enumerate(columns) if not plain.get(name, False)]
    print_table(
        [columns[number] for number in shown],
        [[row[number] for number in shown] for row in rows],
        numbers=["stage", *DEGREES, "copies", "samples"],
    )
    for (number, count, micro_batch, micro_batches), _ in groupby(found, key=_load):
        which = f"pipeline {number}" if count == 1 else f"each of the {count} pipelines {number}"
        trained = f"{counted(micro_batches, 'micro-batch')[:-1]}es" if micro_batches > 1 else "1 micro-batch"
        print(f"{which}: {trained} of {micro_batch}, {micro_batches * micro_batch} samples")


def _load(part: Part) -> tuple[int, int, int, int]:
    return part.pipeline, len(part.replicas), part.micro_batch, part.micro_batches


def compare(experiment: Experiment, result: Result, found: Sequence[Part], priced: Priced | None) -> None:
    """What was predicted beside what was simulated, and where they differ.

    Args:
        priced: The same plan in closed form; None where that cannot be had.
    """
    seconds = _Seconds(result.timeline.makespan_ps)
    simulated_ps, predicted_ps = result.timeline.makespan_ps, result.deployment.predicted_ps
    if predicted_ps is None:
        print(f"\nSimulated: {seconds(simulated_ps)} s; its maker predicts nothing")
    else:
        off = predicted_ps / simulated_ps - 1
        told = f"{seconds(predicted_ps)} s; simulated: {seconds(simulated_ps)} s"
        print(f"\nPredicted by its maker: {told}; the first over the second, less 1: {off:+.1%}")
    if priced is not None:
        _print_terms(result, found, priced, seconds)
    _print_causes(result, found, seconds)
    _print_pieces(experiment, result, seconds)


def print_priced(priced: Priced) -> None:
    """The closed form alone, of a plan that is not simulated."""
    seconds = _Seconds(priced.iteration_ps)
    end = max(end for _, _, end in priced.pipelines)
    print(
        f"In closed form: {seconds(priced.iteration_ps)} s an iteration: {seconds(end)} s the longest pipeline, "
        f"{seconds(priced.sync_ps)} s its gradient sync, {seconds(priced.update_ps)} s the update"
    )


@dataclass(frozen=True, slots=True)
class _Seconds:
    """Times in seconds, with as many decimals as the whole needs."""

    whole_ps: int

    def __call__(self, time_ps: float, *, sign: bool = False) -> str:
        places = decimals(self.whole_ps / PS_PER_S)
        return f"{time_ps / PS_PER_S:{'+' if sign else ''}.{places}f}"


def _print_terms(result: Result, found: Sequence[Part], priced: Priced, seconds: _Seconds) -> None:
    """The terms of the closed form beside the same instants of the simulation."""
    timeline = result.timeline
    reached, synced = int(timeline.reached_ps.max()), int(timeline.synced_ps.max())
    longest = max(range(len(priced.pipelines)), key=lambda number: priced.pipelines[number][2])
    fill, straggler, end = priced.pipelines[longest]
    terms = [(f"pipelines, the longest being {longest}", end, reached)]
    if len(priced.pipelines) > 1:
        ends = _ends(result, found)
        terms += [(f"  pipeline {number}", each[2], ends[number]) for number, each in enumerate(priced.pipelines)]
    terms += [
        ("gradient sync after the last", priced.sync_ps, synced - reached),
        ("update", priced.update_ps, timeline.makespan_ps - synced),
        ("iteration", priced.iteration_ps, timeline.makespan_ps),
    ]
    first, further = seconds(fill), seconds(straggler)
    print(
        f"\nIn closed form pipeline {longest} takes {first} s for a first micro-batch and {further} s for each further:"
    )
    rows = [
        [name, seconds(closed), seconds(simulated), seconds(closed - simulated, sign=True)]
        for name, closed, simulated in terms
    ]
    columns = ["term", "closed form [s]", "simulated [s]", "closed form less simulated [s]"]
    print_table(columns, rows, numbers=columns[1:])


def _ends(result: Result, found: Sequence[Part]) -> dict[int, int]:
    """When the last backward pass of each entry's pipelines has ended."""
    replicas = {replica: part.pipeline for part in found for replica in part.replicas}
    ends: dict[int, int] = {}
    for program, reached in zip(result.workload.programs, result.timeline.reached_ps.tolist(), strict=True):
        own = replicas[program.replica]
        ends[own] = max(ends.get(own, 0), reached)
    return ends


def _print_causes(result: Result, found: Sequence[Part], seconds: _Seconds) -> None:
    """Where the ranks of each part spend the iteration."""
    row_of = {rank: row for row, rank in enumerate(result.account.ranks.tolist())}
    names = [NAMES.get(cause, cause) for cause in CAUSES]
    rows = []
    for part in found:
        mean_ps = np.mean([result.account.causes_ps[row_of[rank]] for rank in part.ranks], axis=0)
        rows.append([str(part.pipeline), str(part.stage), part.device, *map(seconds, mean_ps.tolist())])
    print("\ntime by cause [s], mean of ranks")
    print_table(["pipeline", "stage", "device", *names], rows, numbers=["pipeline", "stage", *names])


def _print_pieces(experiment: Experiment, result: Result, seconds: _Seconds) -> None:
    """What the critical path consists of."""
    pieces = critical_path(result.workload, result.timeline)
    network = experiment.network.open(result.fabric, experiment.seed, experiment.faults)
    rows = []
    for kind, name in PIECES.items():
        own = [piece for piece in pieces if piece.kind == kind]
        total_ps = sum(piece.duration_ps for piece in own)
        sent = [piece for piece in own if piece.graphs]
        held_ps = sum(max(0, piece.duration_ps - max(map(network.solo, piece.graphs))) for piece in sent)
        if own:
            share = f"{total_ps / result.timeline.makespan_ps:.1%}"
            rows.append([name, seconds(total_ps), share, seconds(held_ps)])
    print("\nWhat the iteration waited for, one after another:")
    columns = ["piece", "time [s]", "share", "held up by others [s]"]
    print_table(columns, rows, numbers=columns[1:])
