"""Transfers between ranks with their dependencies, in columns: what a network runs, and the judge too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLUMNS", "IDEAL", "PAYLOAD_PPM", "Row", "TransferGraph", "concatenate", "graph_of", "line", "ring"]

Ints = NDArray[np.int64]
Row = tuple[int, ...]  # one value per entry of COLUMNS
COLUMNS = (
    *("src", "dst", "start", "stop", "add", "rounds", "add_rounds", "cycle_base", "cycle_len"),
    *("delay_ps", "wire_ppm"),
)
PAYLOAD_PPM = 10**6  # of ``wire_ppm``: the bytes themselves and nothing else
IDEAL = (0, PAYLOAD_PPM)  # the last two columns of a row on ideal wires


@dataclass(frozen=True, slots=True, eq=False)
class TransferGraph:
    """N rows, each a transfer of bytes ``start..stop`` of one tensor; all columns int64 of length N unless said.

    A plain row has ``rounds`` 1 and ``cycle_len`` 0. The rows of a ring are contiguous and implicit over rounds: row
    p of a cycle of n (the row at ``cycle_base + p``) carries in round r the span of row (p - r) mod n. It adds to what
    the receiver has while ``r < add_rounds``, else overwrites it, and starts round r when rows p - 1 and p have
    completed round r - 1.

    A row waits for its predecessors (all rounds of them), and for the release of the parties of both of its ranks. A
    predecessor has a smaller row number (for cycles: all rows of the earlier cycle come first).

    One end of a row may be a vertex of a switch, see ``Fabric``: a vertex that is none of ``ranks`` and belongs to no
    party. All rows to it add, and it has nothing to begin with. It gives a sum of several values to one row, or the
    value of one row to many; what comes after that is a new sum.

    What a protocol costs stands in two more columns. In every round in which a row carries bytes it takes ``delay_ps``
    besides the latency of its path, and ``wire_ppm / 10**6`` bytes of its links per byte, rounded to whole bytes. A row
    from a rank to itself takes its delay even if it carries nothing: so a collective has a time before it begins.

    Attributes:
        src, dst: Global ranks, or vertices of switches.
        start, stop: Span in bytes; may be empty.
        add: 1 if the receiver adds, 0 if it overwrites (plain rows; cycles use ``add_rounds``).
        rounds, add_rounds, cycle_base, cycle_len: The implicit ring, see above.
        delay_ps: At least 0; 0 for ideal wires.
        wire_ppm: At least 10**6, which is ideal wires.
        pred_ptr, pred: Predecessor rows in CSR form; ``pred_ptr`` has N + 1 entries.
        ranks: Sorted ranks that take part (also those without a row).
        party: Party (device group, numbered from 0 within this graph) of each of ``ranks``.
        parties: How many parties.
        zeros: (rank, span in bytes) that hold zeros before the first row, in place of whatever was there.
    """

    src: Ints
    dst: Ints
    start: Ints
    stop: Ints
    add: Ints
    rounds: Ints
    add_rounds: Ints
    cycle_base: Ints
    cycle_len: Ints
    delay_ps: Ints
    wire_ppm: Ints
    pred_ptr: Ints
    pred: Ints
    ranks: Ints
    party: Ints
    parties: int
    zeros: tuple[tuple[int, range], ...] = ()

    @property
    def rows(self) -> int:
        """How many rows; a ring row counts once."""
        return len(self.src)

    def predecessors(self, row: int) -> Ints:
        """Rows that must complete before ``row`` starts."""
        return self.pred[self.pred_ptr[row] : self.pred_ptr[row + 1]]

    def sent_bytes(self) -> Ints:
        """Bytes that each row carries over all its rounds, N."""
        size = self.stop - self.start
        total = size.copy()
        for base in np.unique(self.cycle_base[self.cycle_len > 0]):
            n, rounds = int(self.cycle_len[base]), int(self.rounds[base])
            pieces = size[base : base + n]
            full, rest = divmod(rounds, n)
            total[base : base + n] = full * pieces.sum()
            for r in range(rest):
                total[base : base + n] += np.roll(pieces, r)
        return total


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows under construction: one plain transfer or one whole cycle, without predecessors yet.

    All tuples have the same length; ``rounds`` 1 and ``cycle`` False for plain rows.
    """

    src: tuple[int, ...]
    dst: tuple[int, ...]
    spans: tuple[range, ...]
    add: bool = False
    rounds: int = 1
    add_rounds: int = 0
    cycle: bool = False

    def __len__(self) -> int:
        return len(self.src)


def line(src: int, dst: int, span: range, *, add: bool = False) -> Rows:
    """One plain transfer."""
    return Rows((src,), (dst,), (span,), add=add)


def ring(ranks: Sequence[int], spans: Sequence[range], *, rounds: int, add_rounds: int) -> Rows:
    """One cycle: row p goes from ``ranks[p]`` to ``ranks[p + 1]`` and carries ``spans[p]`` in round 0."""
    following = (*ranks[1:], ranks[0])
    return Rows(tuple(ranks), following, tuple(spans), rounds=rounds, add_rounds=add_rounds, cycle=True)


def concatenate(
    parts: Sequence[tuple[Rows, Sequence[Sequence[int]]]], parties: Sequence[Sequence[int]], element_bytes: int = 1
) -> TransferGraph:
    """The graph of ``parts``: rows and, for each of their rows, its predecessors as row numbers of the whole.

    Args:
        parts: In order; predecessors point to earlier parts.
        parties: Ranks of each party.
        element_bytes: Bytes of one unit of the parts' spans.
    """
    table: list[Row] = []
    for rows, _ in parts:
        base, length = len(table), len(rows) if rows.cycle else 0
        table += [
            (src, dst, span.start, span.stop, int(rows.add), rows.rounds, rows.add_rounds, base + own, length, *IDEAL)
            for src, dst, span, own in zip(
                rows.src, rows.dst, rows.spans, [0] * len(rows) if rows.cycle else range(len(rows)), strict=True
            )
        ]
    return graph_of(table, [wait for _, waits in parts for wait in waits], parties, element_bytes)


def graph_of(
    rows: Sequence[Row],
    waits: Sequence[Sequence[int]],
    parties: Sequence[Sequence[int]],
    element_bytes: int = 1,
    zeros: Sequence[tuple[int, range]] = (),
) -> TransferGraph:
    """The graph with ``rows``, each one value per entry of ``COLUMNS``, and ``waits``, the predecessors of each."""
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(COLUMNS))
    columns = {name: table[:, index].copy() for index, name in enumerate(COLUMNS)}
    columns["start"] *= element_bytes
    columns["stop"] *= element_bytes
    owner = sorted((rank, party) for party, ranks in enumerate(parties) for rank in ranks)
    return TransferGraph(
        **columns,
        pred_ptr=np.cumsum([0, *map(len, waits)], dtype=np.int64),
        pred=np.array([row for wait in waits for row in wait], dtype=np.int64),
        ranks=np.array([rank for rank, _ in owner], dtype=np.int64),
        party=np.array([party for _, party in owner], dtype=np.int64),
        parties=len(parties),
        zeros=tuple((rank, range(span.start * element_bytes, span.stop * element_bytes)) for rank, span in zeros),
    )
