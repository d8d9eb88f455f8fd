"""The time account: for every rank, each picosecond of the iteration under exactly one cause.

A rank computes or updates; inside an action it waits for slower ranks of its group (``straggler_wait``) or takes part
in a collective of the group (``tp_comm``), as far as it does not compute beside it; in fetches of weights, between
actions and at the end it waits as ``xsim.waits`` says. Every interval is added to its own cause, none is what remains
of another, and they sum to the makespan. A rank that stands still for reasons of its own, or has no samples yet,
waits for no other rank: that is ``compute``, of the kind ``stall`` or ``data_loading``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xsim.plan.workload import UPDATE, Body, Collect, Compute, Fetch, Workload
from xsim.sim.timeline import Timeline
from xsim.waits import (
    CAUSES,
    COMPUTE,
    DP_COMM,
    OPTIMIZER,
    STRAGGLER_WAIT,
    TP_COMM,
    Ints,
    early_waits,
    fetch_waits,
    gathers,
    waits,
)

__all__ = ["OPERATORS", "SYNCS", "Account", "account"]

OPERATORS = (
    *("attention", "mlp", "router", "experts", "layernorm", "embedding", "head", "optimizer", "launch"),
    *("attention_comm", "mlp_comm", "experts_comm", "embedding_comm", "head_comm"),
    *("grad_sync", "grad_gather", "grad_param_comm", "reshard_comm"),
    *("stall", "data_loading"),
)
SYNCS = {
    **{"sum": "grad_sync", "scatter": "grad_gather"},
    **dict.fromkeys(("gather", "ahead", "fetch"), "grad_param_comm"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """Time of R ranks by cause and by operator.

    Attributes:
        ranks: Global ranks of the deployment, sorted, R.
        program: Program of each rank, R.
        causes_ps: By ``CAUSES``, R x 6; a row sums to the makespan.
        operators: Operator kinds: ``OPERATORS``, then others in the order in which they occur.
        operators_ps: R x K. Of a computing kind what the rank itself computed, and of ``launch`` the
            part of ``compute`` in which it waited for its host; of ``<kind>_comm`` the collectives that
            belong to that kind; of ``grad_sync`` the time with at least one gradient sync of the rank under way, from
            the coming of its last member to the result, whether hidden behind computation or not; with optimizer
            sharding ``grad_gather`` likewise counts those that bring sums to shards, ``grad_param_comm`` those that
            bring parameters back, after the update, beside forward passes or for each pass; of ``reshard_comm`` the
            part of the bubble in which all that the next action waits for has been sent and is under way, or with
            blocking sends what the one before has sent; of ``stall`` the part of ``compute`` in which the rank stands
            still, of ``data_loading`` that in which it waits for its samples.
        makespan_ps: The iteration.
    """

    ranks: Ints
    program: Ints
    causes_ps: Ints
    operators: tuple[str, ...]
    operators_ps: Ints
    makespan_ps: int

    def cause_ps(self, cause: str) -> Ints:
        """Time of each rank under ``cause``, R."""
        column: Ints = self.causes_ps[:, CAUSES.index(cause)]
        return column


def account(workload: Workload, timeline: Timeline) -> Account:
    """Who spent which time on what.

    Cost: a pass over the columns, and per distinct (program, kind, chunk) one over its body.
    """
    operators = _operators(workload)
    sizes = [len(program.devices.ranks) for program in workload.programs]
    first = np.concatenate(([0], np.cumsum(sizes)))
    program = np.repeat(np.arange(len(sizes)), sizes)
    causes_ps = _waited_ps(workload, timeline)[program]
    operators_ps = np.zeros((len(program), len(operators)), dtype=np.int64)
    for does, kind in SYNCS.items():
        operators_ps[:, operators.index(kind)] += _syncing_ps(workload, timeline, does)[program]
    operators_ps[:, operators.index("reshard_comm")] = _resharding_ps(workload, timeline)[program]
    bodies: dict[tuple[Body, bool], _Body] = {}
    gathering = gathers(workload)
    for index, position, start, end, cause in early_waits(workload, timeline):
        causes_ps[first[index] + position, cause] += end - start
    for index, start, there, end in fetch_waits(workload, timeline):
        rows = slice(first[index], first[index + 1])
        causes_ps[rows, STRAGGLER_WAIT] += there - start
        causes_ps[rows, DP_COMM] += end - there
    for index, body, times, collects_ps in _uses(workload, timeline):
        total_ps = times @ collects_ps
        last = body is workload.programs[index].body(UPDATE) and index not in gathering
        if (body, last) not in bodies:
            bodies[body, last] = _Body.of(body, sizes[index], operators, last=last)
        once = bodies[body, last]
        rows = slice(first[index], first[index + 1])
        causes_ps[rows] += times.sum() * once.causes_ps
        causes_ps[rows, TP_COMM] += np.delete(total_ps, [number for number, _ in once.beside]).sum()
        for number, beside_ps in once.beside:
            collect_ps = collects_ps[:, number, None]
            causes_ps[rows, TP_COMM] += times @ np.maximum(collect_ps - beside_ps, 0)
            done_ps = np.maximum(collect_ps, beside_ps)
            causes_ps[rows, STRAGGLER_WAIT] += times @ (done_ps.max(axis=1, keepdims=True) - done_ps)
        operators_ps[rows] += times.sum() * once.operators_ps
        np.add.at(operators_ps[rows].T, once.collects, total_ps[:, None])
    ranks = np.array([rank for each in workload.programs for rank in each.devices.ranks], dtype=np.int64)
    order = np.argsort(ranks)
    return Account(ranks[order], program[order], causes_ps[order], operators, operators_ps[order], timeline.makespan_ps)


@dataclass(frozen=True, slots=True, eq=False)
class _Body:
    """What one run of a body takes, apart from the duration of its collectives.

    Attributes:
        causes_ps, operators_ps: Per rank of the group, n x 6 and n x K.
        collects: Operator column of each collective.
        beside: (number of the collective, what each rank computes beside it, n) of those that have company.
    """

    causes_ps: Ints
    operators_ps: Ints
    collects: list[int]
    beside: list[tuple[int, Ints]]

    @classmethod
    def of(cls, body: Body, ranks: int, operators: Sequence[str], *, last: bool) -> _Body:
        """Of an update (``last``) without what ranks do after their own part of its last step."""
        causes_ps = np.zeros((ranks, len(CAUSES)), dtype=np.int64)
        operators_ps = np.zeros((ranks, len(operators)), dtype=np.int64)
        by_kind: dict[str, list[tuple[int, ...]]] = defaultdict(list)
        steps = [step for step in body.steps if isinstance(step, Collect)]
        beside = [(number, step.beside) for number, step in enumerate(steps) if step.beside]
        for step in (*(step for step in body.steps if isinstance(step, Compute)), *(step for _, step in beside)):
            by_kind[step.kind].append(step.durations_ps)
        for kind, durations in by_kind.items():
            each = np.array(durations, dtype=np.int64)
            own = each.sum(axis=0)
            operators_ps[:, operators.index(kind)] += own
            causes_ps[:, OPTIMIZER if kind == "optimizer" else COMPUTE] += own
        followed = body.steps[:-1] if last else body.steps
        together = [step.durations_ps for step in followed if isinstance(step, Compute)]
        if together:
            each = np.array(together, dtype=np.int64)
            causes_ps[:, STRAGGLER_WAIT] += (each.max(axis=1)[:, None] - each).sum(axis=0)
        collects = [operators.index(f"{step.kind}_comm") for step in steps]
        company = [(number, np.array(step.durations_ps, dtype=np.int64)) for number, step in beside]
        return cls(causes_ps, operators_ps, collects, company)


def _operators(workload: Workload) -> tuple[str, ...]:
    found = dict.fromkeys(OPERATORS)
    for body in {body: None for program in workload.programs for body in program.each_body()}:
        for step in body.steps:
            if isinstance(step, Compute):
                found.setdefault(step.kind)
            elif isinstance(step, Collect):
                found.setdefault(f"{step.kind}_comm")
                if step.beside:
                    found.setdefault(step.beside.kind)
    return tuple(found)


def _uses(workload: Workload, timeline: Timeline) -> Iterator[tuple[int, Body, Ints, Ints]]:
    """(program, body, how often it ran how, K, and the duration of each of its collectives then, K x n)."""
    lengths = np.array([len(walk) for walk in timeline.collects], dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    durations = np.diff(np.concatenate((np.zeros((0, 2), dtype=np.int64), *timeline.collects)))[:, 0]
    for rows in _alike(workload, timeline):
        index = int(timeline.program[rows[0]])
        body = workload.programs[index].body(timeline.action(int(rows[0])))
        walks = timeline.walk[rows]
        walks = walks[walks >= 0]
        folds = len(rows) - len(walks)
        times = np.ones(len(walks) + (folds > 0), dtype=np.int64)
        ways = []
        if len(walks):
            ways.append(durations[offsets[walks][:, None] + _collects(body)])
        if folds:
            times[-1] = folds
            ways.append(np.array([timeline.folded.get(body, ())], dtype=np.int64))
        yield index, body, times, np.concatenate(ways)


def _alike(workload: Workload, timeline: Timeline) -> Iterator[Ints]:
    """Rows of one program that ran one body, all rows once."""
    kinds, kind = np.unique(timeline.kind, return_inverse=True)
    chunks = int(timeline.chunk.max()) + 1
    key = (timeline.program * len(kinds) + kind) * chunks + timeline.chunk
    own = _rows_of_their_own(workload, timeline)
    common = np.delete(np.arange(len(key)), own)
    order = common[np.argsort(key[common], kind="stable")]
    bounds = np.flatnonzero(np.diff(key[order], prepend=-1, append=-1))
    yield from (order[start:stop] for start, stop in pairwise(bounds.tolist()))
    yield from (np.array([row]) for row in own)


def _rows_of_their_own(workload: Workload, timeline: Timeline) -> list[int]:
    """Rows of actions that do something else than the others of their kind and chunk."""
    found: list[int] = []
    for index, program in enumerate(workload.programs):
        if program.own:
            first, last = np.searchsorted(timeline.program, (index, index + 1)).tolist()
            found += [row for row in range(first, last) if timeline.action(row) in program.own]
    return found


def _collects(body: Body) -> Ints:
    """Which of the collectives and fetches of ``body`` are collectives."""
    stops = [step for step in body.steps if isinstance(step, Collect | Fetch)]
    return np.array([number for number, stop in enumerate(stops) if isinstance(stop, Collect)], dtype=np.int64)


def _waited_ps(workload: Workload, timeline: Timeline) -> Ints:
    """Time between actions by cause, P x 6."""
    found = waits(workload, timeline)
    waited_ps = np.zeros((len(workload.programs), len(CAUSES)), dtype=np.int64)
    np.add.at(waited_ps, (found.program, found.cause), found.end_ps - found.start_ps)
    return waited_ps


def _syncing_ps(workload: Workload, timeline: Timeline, does: str) -> Ints:
    """Length of the union of each program's syncs that do so, from the last member's coming to the result, P."""
    under_way: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for sync, joined, done in zip(workload.syncs, timeline.joined_ps, timeline.done_ps, strict=True):
        if sync.does != does:
            continue
        start = int(joined.max())
        for program, end in zip(sync.programs, done.tolist(), strict=True):
            under_way[program].append((start, end))
    syncing_ps = np.zeros(len(workload.programs), dtype=np.int64)
    for program, intervals in under_way.items():
        covered_ps = 0
        for start, end in sorted(intervals):
            syncing_ps[program] += max(0, end - max(start, covered_ps))
            covered_ps = max(covered_ps, end)
    return syncing_ps


def _resharding_ps(workload: Workload, timeline: Timeline) -> Ints:
    """Exposed hand-overs of each program, P.

    Before an action, from the end of the last action that sends to it, or of the program's own before it if that is
    later, until it starts.
    """
    rows = np.flatnonzero(np.isin(timeline.kind, ("F", "B", "I")))
    backward = (timeline.kind[rows] != "F").astype(np.int64)
    action = timeline.program[rows], backward, timeline.chunk[rows], timeline.micro_batch[rows]
    end_ps = np.full((len(workload.programs), 2, timeline.chunk.max() + 1, timeline.micro_batch.max() + 1), -1)
    end_ps[action] = timeline.end_ps[rows]
    sent_ps = np.full_like(end_ps, -1)
    for move in workload.moves:
        direction = int(move.kind != "F")
        sent = sent_ps[move.target, direction, move.target_chunk]  # a view, of all micro-batches
        np.maximum(sent, end_ps[move.source, direction, move.source_chunk], out=sent)
    free_ps = np.concatenate(([0], timeline.end_ps[:-1]))
    free_ps[np.flatnonzero(np.diff(timeline.program, prepend=-1))] = 0
    under_way_ps = timeline.start_ps[rows] - np.maximum(free_ps[rows], sent_ps[action])
    resharding_ps = np.zeros(len(workload.programs), dtype=np.int64)
    np.add.at(resharding_ps, timeline.program[rows], np.where(sent_ps[action] >= 0, under_way_ps, 0))
    return resharding_ps
