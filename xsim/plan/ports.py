"""Transfers in several stages, cut into pieces that follow one another while no port serves two at once.

In slot t piece t is in stage 0, piece t - 1 in stage 1, and so on. What a slot asks of each port is decomposed into
matchings, sets of transfers no two of which share a port, that last as long as the busiest port (G. Birkhoff 1946;
T. Gonzalez and S. Sahni: Open shop scheduling to minimize finish time, JACM 1976). Nothing waits for a clock: each
transfer waits for the one before it on its source's port and on its target's. Fair sharing of the same transfers would
take longer, since it lets a port that matters wait for one that does not.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.plan.comm import Transfer

__all__ = ["MESSAGES", "Flow", "pipelined"]

ROWS = 1 << 16  # transfers of one plan, at most, if one piece has fewer
MESSAGES = ROWS // 4  # flows beyond which a strategy had better use rings
TICKS = 1 << 40  # of the longest transfer: the matchings are found in whole numbers


@dataclass(frozen=True, slots=True)
class Flow:
    """``span`` goes from ``src`` to ``dst`` in one stage of its way.

    The flows of one span, which no other span overlaps, wait for those of its stage before, piece by piece.
    """

    src: int
    dst: int
    span: range
    stage: int
    add: bool = False


def pipelined(flows: Sequence[Flow], most_pieces: int, fabric: Fabric, element_bytes: int) -> tuple[Transfer, ...]:
    """The transfers of ``flows``, in an order in which they may run.

    A port is the first or the last link of a route. The number of pieces is at most ``most_pieces``; it is less where
    the latency of many small transfers would cost more than the earlier start of the later stages saves, and where
    there would be more than ``ROWS`` transfers.
    """
    if not flows:
        return ()
    jobs = [_Job(flow, *_ports(flow, fabric), _time_s(flow, fabric, element_bytes)) for flow in flows]
    matchings = _matchings(jobs)
    pieces = _pieces(jobs, matchings, most_pieces, fabric)
    stages = range(min(flow.stage for flow in flows), 1 + max(flow.stage for flow in flows))
    queue = _Queue()
    for slot in range(stages.start, stages.stop + pieces - 1):
        for portion in (portion for matching in matchings for portion in matching):
            number = slot - portion.job.flow.stage
            if 0 <= number < pieces:
                queue.add(portion, number, pieces)
    return tuple(queue.steps)


@dataclass(frozen=True, slots=True)
class _Job:
    """A flow, its ports, and how long it keeps them busy."""

    flow: Flow
    out_port: tuple[str, int]
    in_port: tuple[str, int]
    time_s: float


@dataclass(frozen=True, slots=True)
class _Portion:
    """The part of a job, as fractions of it, that is done in one matching."""

    job: _Job
    start: float
    stop: float


def _ports(flow: Flow, fabric: Fabric) -> tuple[tuple[str, int], tuple[str, int]]:
    route = fabric.route(flow.src, flow.dst)
    return ("out", route[0]), ("in", route[-1])


def _time_s(flow: Flow, fabric: Fabric, element_bytes: int) -> float:
    return len(flow.span) * element_bytes / fabric.path_bandwidth_bytes_per_s(flow.src, flow.dst)


@dataclass(slots=True)
class _Queue:
    """Transfers so far, the last on each port, and those of each (span, stage, piece)."""

    steps: list[Transfer] = field(default_factory=list)
    last: dict[tuple[str, int], int] = field(default_factory=dict)
    done: defaultdict[tuple[range, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, portion: _Portion, number: int, pieces: int) -> None:
        job, flow = portion.job, portion.job.flow
        start, stop = (i * len(flow.span) // pieces for i in (number, number + 1))
        first, end = (flow.span.start + start + int(at * (stop - start) + 0.5) for at in (portion.start, portion.stop))
        if first == end:
            return
        before = {self.last[port] for port in (job.out_port, job.in_port) if port in self.last}
        earlier = (self.done.get((flow.span, stage, number)) for stage in range(flow.stage - 1, -1, -1))
        before.update(next((found for found in earlier if found), ()))
        self.done[flow.span, flow.stage, number].append(len(self.steps))
        self.last[job.out_port] = self.last[job.in_port] = len(self.steps)
        self.steps.append(Transfer(flow.src, flow.dst, range(first, end), flow.add, tuple(sorted(before))))


def _pieces(jobs: Sequence[_Job], matchings: Sequence[Sequence[_Portion]], most: int, fabric: Fabric) -> int:
    """The p that makes (stages - 1) / p of the time, plus p times the latency of each matching, smallest."""
    busy_s: defaultdict[tuple[str, int], float] = defaultdict(float)
    for job in jobs:
        busy_s[job.out_port] += job.time_s
        busy_s[job.in_port] += job.time_s
    stages = [job.flow.stage for job in jobs]
    waits = max(stages) - min(stages)
    latency_s = len(matchings) * max(fabric.path_latency_ps(job.flow.src, job.flow.dst) for job in jobs) * 1e-12
    ideal = math.sqrt(waits * max(busy_s.values()) / latency_s) if latency_s else most
    return max(1, min(most, round(ideal), ROWS // sum(map(len, matchings)), max(len(job.flow.span) for job in jobs)))


def _matchings(jobs: Sequence[_Job]) -> list[list[_Portion]]:
    """One full slot, matching after matching."""
    outs, ins = (
        {port: i for i, port in enumerate(sorted({getattr(job, end) for job in jobs}))}
        for end in ("out_port", "in_port")
    )
    longest = max(job.time_s for job in jobs)
    ticks = [max(1, round(job.time_s / longest * TICKS)) for job in jobs]
    waiting: defaultdict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(deque)  # (job, ticks left)
    demand = np.zeros((len(outs), len(ins)), dtype=np.int64)
    for number, job in enumerate(jobs):
        cell = outs[job.out_port], ins[job.in_port]
        waiting[cell].append((number, ticks[number]))
        demand[cell] += ticks[number]
    return [
        [
            _Portion(jobs[number], start / ticks[number], stop / ticks[number])
            for cell in cells
            for number, start, stop in _take(waiting[cell], ticks, time)
        ]
        for time, cells in _decompose(demand)
    ]


def _take(waiting: deque[tuple[int, int]], ticks: Sequence[int], time: int) -> Iterator[tuple[int, int, int]]:
    """(job, from, to) in ticks of the next ``time`` of the jobs ``waiting`` for the same two ports."""
    while time:
        number, left = waiting.popleft()
        used = min(left, time)
        yield number, ticks[number] - left, ticks[number] - left + used
        if used < left:
            waiting.appendleft((number, left - used))
        time -= used


def _decompose(demand: NDArray[np.int64]) -> list[tuple[int, list[tuple[int, int]]]]:
    """(time, cells) of matchings that serve ``demand`` in the time of its fullest row or column.

    Each matching serves every row and column that is as full as the fullest: there is always one that does. It lasts
    until a cell is served or another row or column has become as full, so there are at most as many as these.
    """
    from scipy.optimize import linear_sum_assignment  # loads with the first plan that needs it

    left, found = demand.copy(), []
    while left.any():
        rows, columns = left.sum(axis=1), left.sum(axis=0)
        level = max(rows.max(), columns.max())
        urgent = (rows == level)[:, None].astype(float) + (columns == level)[None, :]
        taste = (rows[:, None] + columns[None, :]) / level + 2.0 * left / left.max()  # full ports, long transfers
        weight = np.where(left > 0, 4.0 * sum(left.shape) * urgent + taste, 0.0)
        pairs = zip(*(side.tolist() for side in linear_sum_assignment(weight, maximize=True)), strict=True)
        cells = [(i, j) for i, j in pairs if left[i, j] > 0]
        idle = np.concatenate([np.delete(rows, [i for i, _ in cells]), np.delete(columns, [j for _, j in cells])])
        time = int(min(*(left[cell] for cell in cells), level - idle.max(initial=0)))
        for cell in cells:
            left[cell] -= time
        found.append((time, cells))
    return found
