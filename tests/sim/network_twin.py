"""Slow and plain: max-min fair sharing, and the simulation of graphs that share links. The oracle of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.sim.traffic import Timetable
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph

__all__ = ["max_min", "simulate"]


def max_min(paths: Sequence[tuple[int, ...]], capacity: Sequence[float]) -> list[float]:
    """Rates by progressive filling: freeze the flows of the tightest link, and repeat.

    Args:
        paths: Links of each flow, none empty.
        capacity: Per link, in any one unit.

    Cost: O(links x flows) per frozen link.
    """
    free = list(capacity)
    rates: dict[int, float] = {}
    while len(rates) < len(paths):
        waiting = {
            link: [flow for flow, path in enumerate(paths) if link in path and flow not in rates]
            for link in range(len(capacity))
        }
        share, tightest = min((free[link] / len(flows), link) for link, flows in waiting.items() if flows)
        for flow in waiting[tightest]:
            rates[flow] = share
            for link in paths[flow]:
                free[link] -= share
    return [rates[flow] for flow in range(len(paths))]


@dataclass(eq=False)
class _Row:
    """One row of one submission; ``key`` is (submission, row)."""

    key: tuple[int, int]
    path: tuple[int, ...]
    latency_ps: int
    done: int = 0
    left: float = 0.0
    rate: float = 0.0
    ends_ps: int | None = None  # sending
    arrives_ps: int | None = None  # the last byte is on its way
    updated_ps: int = 0


@dataclass
class _State:
    rows: list[_Row]
    graphs: Sequence[TransferGraph]
    released_ps: dict[tuple[int, int], int]
    by_key: dict[tuple[int, int], _Row] = field(init=False)

    def __post_init__(self) -> None:
        self.by_key = {row.key: row for row in self.rows}

    def size(self, row: _Row) -> int:
        """Bytes on the wire in its current round."""
        graph, number = self.graphs[row.key[0]], row.key[1]
        if not graph.rounds[number]:
            return 0
        if graph.cycle_len[number]:
            base, count = int(graph.cycle_base[number]), int(graph.cycle_len[number])
            number = base + (number - base - row.done) % count
        return (int(graph.stop[number] - graph.start[number]) * int(graph.wire_ppm[row.key[1]]) + 500_000) // 10**6

    def finished(self, submission: int, number: int) -> bool:
        """All rounds; a row of no rounds has an empty one."""
        return self.by_key[submission, number].done == max(1, int(self.graphs[submission].rounds[number]))

    def may_start(self, row: _Row, now_ps: int) -> bool:
        """Its next round."""
        submission, number = row.key
        graph = self.graphs[submission]
        if row.ends_ps is not None or row.arrives_ps is not None or self.finished(submission, number):
            return False
        if row.done:
            base, count = int(graph.cycle_base[number]), int(graph.cycle_len[number])
            return self.by_key[submission, base + (number - base - 1) % count].done >= row.done
        party = dict(zip(graph.ranks.tolist(), graph.party.tolist(), strict=True))
        ends = (int(graph.src[number]), int(graph.dst[number]))  # of which one may be a switch, of no party
        ready = all(self.released_ps[submission, party[end]] <= now_ps for end in ends if end in party)
        return ready and all(self.finished(submission, int(before)) for before in graph.predecessors(number))


def simulate(timetable: Timetable) -> dict[tuple[int, int], int]:
    """When each (submission, party) is done."""
    graphs = [timetable.graphs[number] for number, _ in timetable.submissions]
    released = {(s, p): at for s, (_, releases) in enumerate(timetable.submissions) for p, _, at in releases}
    rows = [
        _Row((s, number), timetable.fabric.route(int(graph.src[number]), int(graph.dst[number])), 0)
        for s, graph in enumerate(graphs)
        for number in range(graph.rows)
    ]
    for row in rows:
        delay_ps = int(graphs[row.key[0]].delay_ps[row.key[1]])
        row.latency_ps = sum(int(timetable.fabric.latency_ps[link]) for link in row.path) + delay_ps
    state = _State(rows, graphs, released)
    done: dict[tuple[int, int], int] = {}
    instants = sorted(set(released.values()))
    while instants:
        now_ps = instants[0]
        _instant(state, now_ps)
        _share(state, now_ps, timetable.fabric)
        _note_done(state, now_ps, done)
        later = [at for at in released.values() if at > now_ps]
        later += [at for row in rows for at in (row.ends_ps, row.arrives_ps) if at is not None]
        instants = sorted(later)
    return done


def _instant(state: _State, now_ps: int) -> None:
    """Everything that ends and begins at this instant."""
    moved = True
    while moved:
        moved = False
        for row in state.rows:
            if row.ends_ps == now_ps:
                row.ends_ps, row.arrives_ps, moved = None, now_ps + row.latency_ps, True
            if row.arrives_ps == now_ps:
                row.arrives_ps, row.done, moved = None, row.done + 1, True
            if state.may_start(row, now_ps):
                moved = True
                if not row.path and row.latency_ps and state.graphs[row.key[0]].rounds[row.key[1]]:
                    row.arrives_ps = now_ps + row.latency_ps
                elif not row.path or not state.size(row):
                    row.done += 1
                else:
                    row.left, row.rate, row.updated_ps = float(state.size(row)), 0.0, now_ps
                    row.ends_ps = -1


def _share(state: _State, now_ps: int, fabric: Fabric) -> None:
    sending = [row for row in state.rows if row.ends_ps is not None]
    capacity = [float(rate) * 1e-12 for rate in fabric.bandwidth_bytes_per_s]
    for row, rate in zip(sending, max_min([row.path for row in sending], capacity), strict=True):
        if rate != row.rate:
            row.left = max(0.0, row.left - row.rate * (now_ps - row.updated_ps))
            row.rate, row.updated_ps = rate, now_ps
            row.ends_ps = now_ps + max(1, int(row.left / rate + 0.5))


def _note_done(state: _State, now_ps: int, done: dict[tuple[int, int], int]) -> None:
    for (submission, party), released_ps in state.released_ps.items():
        graph = state.graphs[submission]
        own = {int(rank) for rank, owner in zip(graph.ranks, graph.party, strict=True) if owner == party}
        touching = [n for n in range(graph.rows) if int(graph.src[n]) in own or int(graph.dst[n]) in own]
        ended = all(state.finished(submission, number) for number in touching)
        if (submission, party) not in done and ended and (touching or released_ps <= now_ps):
            done[submission, party] = now_ps
