"""The plain form of flows: a line ``id src dst bytes start_ns dep`` per flow.

``dep`` is the id of the flow whose end at its sender starts this one, ``start_ns`` later, or -1: it starts at
``start_ns``. A seventh word is its traffic class, 0 to 7, as in files of HPCC; without it, that is 3. What follows a
``#`` is a comment.
"""

from __future__ import annotations

import numpy as np

from xsim.errors import SpecError
from xsim.fabric.flows import CLASS, MOST_CLASS, PORT, FlowList, rows_in_csr
from xsim.interop.words import MOST_BYTES, MOST_VERTICES, Line, column, column_ps, lines

__all__ = ["read_flows", "write_flows"]

_PS_PER_NS = 1000


def read_flows(text: str, name: str = "flows") -> FlowList:
    """The flows of a file; ``name`` is that of the file, for messages. Raises SpecError."""
    table = []
    for line in lines(text, name, comment="#"):
        if len(line.words) not in (6, 7):
            fix = "write id src dst bytes start_ns dep, and priority if it has one"
            raise SpecError(line.at, " ".join(line.words), "a flow is six words, or seven", fix)
        table.append(Line(line.at, [*line.words, str(CLASS)][:7]))
    number, row_of = column(table, 0, "id"), dict[int, int]()
    for row, own in enumerate(number.tolist()):
        if own in row_of:
            raise SpecError(table[row].at, own, f"{table[row_of[own]].at} has this id too", "give each flow its own")
        row_of[own] = row
    before = column(table, 5, "dep", -1).tolist()
    after_ptr, after = rows_in_csr([_awaited(line, dep, row_of) for line, dep in zip(table, before, strict=True)])
    return FlowList(
        number=number,
        src=column(table, 1, "src", 0, MOST_VERTICES),
        dst=column(table, 2, "dst", 0, MOST_VERTICES),
        size_bytes=column(table, 3, "bytes", 0, MOST_BYTES),
        start_ps=column_ps(table, 4, "start_ns", _PS_PER_NS),
        port=np.full(len(table), PORT),
        after_ptr=after_ptr,
        after=after,
        classes=column(table, 6, "priority", 0, MOST_CLASS),
    )


def _awaited(line: Line, dep: int, row_of: dict[int, int]) -> tuple[int, ...]:
    if dep < 0:
        return ()
    if dep not in row_of:
        raise SpecError(line.at, dep, "there is no flow with this id", "write the id of a flow, or -1")
    return (row_of[dep],)


def write_flows(flows: FlowList) -> str:
    """The file that ``read_flows`` reads as ``flows``.

    Raises:
        SpecError: A flow waits for several others or for the end at a receiver, or has a port of its own.
    """
    if flows.awaited != "sender" and len(flows.after):
        raise SpecError("flows", flows.awaited, "in this format flows wait for the end at the sender", "write .cm")
    rows, several = [], bool(np.any(flows.classes != CLASS))
    for row in range(len(flows)):
        who, before = f"flow {flows.number[row]}", flows.awaits(row)
        if len(before) > 1:
            raise SpecError(who, len(before), "in this format a flow waits for one other", "write .cm")
        if flows.port[row] != PORT:
            raise SpecError(who, int(flows.port[row]), f"in this format all ports are {PORT}", "write the form of HPCC")
        dep = flows.number[before[0]] if len(before) else -1
        start = _ns_text(int(flows.start_ps[row]))
        words = [flows.number[row], flows.src[row], flows.dst[row], flows.size_bytes[row], start, dep]
        words += [flows.classes[row]] if several else []
        rows.append(" ".join(map(str, words)) + "\n")
    return "".join(rows)


def _ns_text(time_ps: int) -> str:
    whole, rest = divmod(time_ps, _PS_PER_NS)
    return f"{whole}.{rest:03}" if rest else f"{whole}"
