"""Connection matrices of htsim, ``.cm``: flows, the triggers by which some start others, and failed links.

The head is ``Nodes N`` and ``Connections C``, then ``Triggers T`` and ``Failures F`` if there are any. The lines after
it come in any order::

    0->1 id 7 start 2000000 size 125000 send_done_trigger 1        # starts at 2 us and fires trigger 1 at its end
    1->2 id 8 trigger 1 size 125000
    trigger id 1 oneshot
    failure switch_type AGG switch_id 0 link_id 3
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from xsim.errors import SpecError
from xsim.fabric.flows import CLASS, MOST_CLASS, PORT, FlowList, rows_in_csr
from xsim.interop.htsim_triggers import Connection, Trigger, started_after, triggers_of
from xsim.interop.words import LARGEST, MOST_BYTES, MOST_VERTICES, Line, integer, lines

__all__ = ["Failure", "Matrix", "Tier", "read_matrix", "write_matrix"]

Tier = Literal["TOR", "AGG", "CORE"]

_ENDS = re.compile(r"([0-9]{1,9})->([0-9]{1,9})").fullmatch
_LARGEST_SIZE = 2**31 - 1  # sizes are 32-bit integers there
_HEADS = ("nodes", "connections", "triggers", "failures")
_KEYS = {"id": "ident", "start": "start_ps", "trigger": "trigger", "size": "size_bytes", "prio": "traffic_class"}
_FIRES = {"send_done_trigger": "at_sender", "recv_done_trigger": "at_receiver"}
_UNSAID = ("addon",)  # htsim knows it
_HIGHEST = {"size": MOST_BYTES, "prio": MOST_CLASS}


@dataclass(frozen=True, slots=True)
class Failure:
    """A link that is out of order: number ``link`` of those up from ``switch``, both counted from 0 in their tier."""

    tier: Tier
    switch: int
    link: int


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """What a connection matrix says.

    Attributes:
        nodes: Hosts of the network it is made for: 0..nodes.
    """

    nodes: int
    flows: FlowList
    failures: tuple[Failure, ...] = ()


def read_matrix(text: str, name: str = "flows") -> Matrix:
    """The matrix of a file; ``name`` is that of the file, for messages.

    A connection without an id has its place among the connections, counted from 1, as its number.

    Raises:
        SpecError: A line cannot be read, or says what flows cannot: addons, a trigger that depends on which of several
            flows ends first.
    """
    heads: dict[str, int] = {}
    connections: list[Connection] = []
    triggers: dict[int, Trigger] = {}
    failures: list[Failure] = []
    for line in lines(text, name, comment="#"):
        first = line.words[0].lower()
        if first in _HEADS:
            _head(line, heads)
        elif first == "trigger":
            _add_trigger(line, triggers)
        elif first == "failure":
            failures.append(_failure(line))
        else:
            connections.append(_connection(line, len(connections) + 1))
    for head, count in zip(_HEADS[1:], map(len, (connections, triggers, failures)), strict=True):
        if heads.get(head, 0) != count:
            word = head.capitalize()
            raise SpecError(f"{name} {word}", heads.get(head), f"there are {count}", f"write {word} {count}")
    if "nodes" not in heads:
        raise SpecError(f"{name} Nodes", None, "it is missing", "write Nodes and how many hosts there are")
    return Matrix(heads["nodes"], _flows(connections, triggers, heads["nodes"]), tuple(failures))


def _head(line: Line, heads: dict[str, int]) -> None:
    word = line.words[0].lower()
    if word in heads or len(line.words) != 2:
        raise SpecError(line.at, " ".join(line.words), "the head has each word once, with a number", "correct it")
    heads[word] = integer(line.at, line.words[1], line.words[0], 0, MOST_VERTICES)


def _add_trigger(line: Line, triggers: dict[int, Trigger]) -> None:
    words = line.words
    barrier = words[3:] and words[3] == "barrier"
    if len(words) != (6 if barrier else 4) or words[1] != "id" or (barrier and words[4] != "count"):
        fix = "write trigger id K oneshot, trigger id K multishot or trigger id K barrier count M"
        raise SpecError(line.at, " ".join(words), "it is no trigger", fix)
    if words[3] not in ("oneshot", "multishot", "barrier"):
        raise SpecError(line.at, words[3], "there is no such trigger", "write oneshot, multishot or barrier")
    ident = integer(line.at, words[2], "a trigger's id", 1)
    if ident in triggers:
        raise SpecError(line.at, ident, "a trigger with this id is there", "give each trigger its own")
    count = integer(line.at, words[5], "a barrier's count", 1) if barrier else 1
    triggers[ident] = Trigger(line.at, words[3], count)  # type: ignore[arg-type]  # one of the three


def _failure(line: Line) -> Failure:
    words = line.words
    if len(words) != 7 or words[1::2] != ["switch_type", "switch_id", "link_id"]:
        fix = "write failure switch_type AGG switch_id S link_id L"
        raise SpecError(line.at, " ".join(words), "it is no failure", fix)
    if words[2] not in get_args(Tier):
        raise SpecError(line.at, words[2], "there is no such type of switch", "write TOR, AGG or CORE")
    switch, link = (integer(line.at, words[at], words[at - 1], 0, MOST_VERTICES) for at in (4, 6))
    return Failure(words[2], switch, link)  # type: ignore[arg-type]  # one of the three


def _connection(line: Line, place: int) -> Connection:
    words = iter(line.words)
    ends = _ENDS(next(words))
    if ends is None:
        raise SpecError(line.at, line.words[0], "a connection begins with its ends", "write src->dst, without spaces")
    given: dict[str, int] = {"ident": place}
    seen: set[str] = set()
    for word in words:
        if word in _UNSAID:
            raise SpecError(line.at, word, "flows have no addons here", "leave it out")
        field = (_KEYS | _FIRES).get(word)
        if field is None or word in seen:
            problem = "it is there twice" if field else "a connection has no such word"
            raise SpecError(line.at, word, problem, f"write each of {', '.join(_KEYS | _FIRES)} once")
        seen.add(word)
        low = 0 if word in ("start", "size", "prio") else 1
        given[field] = integer(line.at, next(words, ""), word, low, _HIGHEST.get(word, LARGEST))
    if ("start" in seen) == ("trigger" in seen):
        raise SpecError(line.at, " ".join(line.words), "it has to start in one way", "write start PS or trigger K")
    if "size" not in seen:
        raise SpecError(line.at, " ".join(line.words), "its size is missing", "write size BYTES")
    return Connection(line.at, int(ends[1]), int(ends[2]), **given)


def _flows(connections: list[Connection], triggers: dict[int, Trigger], nodes: int) -> FlowList:
    idents: set[int] = set()
    for x in connections:
        if x.ident in idents:
            raise SpecError(x.at, x.ident, "a connection with this id is there", "give each its own, or give all one")
        idents.add(x.ident)
        if max(x.src, x.dst) >= nodes:
            raise SpecError(x.at, f"{x.src}->{x.dst}", f"there are {nodes} nodes", f"write numbers below {nodes}")
    awaited, after = started_after(connections, triggers)
    after_ptr, rows = rows_in_csr(after)
    rows_of = [(x.ident, x.src, x.dst, x.size_bytes, x.start_ps, x.traffic_class) for x in connections]
    number, src, dst, size_bytes, start_ps, classes = np.array(rows_of, dtype=np.int64).reshape(-1, 6).T
    ports = np.full(len(connections), PORT)
    return FlowList(number, src, dst, size_bytes, start_ps, ports, after_ptr, rows, awaited, classes)


def write_matrix(matrix: Matrix) -> str:
    """The file that ``read_matrix`` reads as ``matrix``.

    Raises:
        SpecError: A flow waits for others and then some time longer; or for a flow that a third one waits for together
            with others; or its number is 0, or its size does not fit into 32 bits, or it has a port of its own.
    """
    flows = matrix.flows
    idents, barriers = triggers_of(flows)
    fires = {row: ident for ident, rows in enumerate(barriers, start=1) for row in rows}
    done = "send_done_trigger" if flows.awaited == "sender" else "recv_done_trigger"
    head = [f"Nodes {matrix.nodes}", f"Connections {len(flows)}"]
    head += [f"Triggers {len(barriers)}"] if barriers else []
    head += [f"Failures {len(matrix.failures)}"] if matrix.failures else []
    rows = []
    for row, trigger in enumerate(idents):
        _check(flows, row)
        start = f"trigger {trigger}" if trigger else f"start {flows.start_ps[row]}"
        end = f" {done} {fires[row]}" if row in fires else ""
        ends = f"{flows.src[row]}->{flows.dst[row]}"
        prio = f" prio {flows.classes[row]}" if flows.classes[row] != CLASS else ""
        rows.append(f"{ends} id {flows.number[row]} {start} size {flows.size_bytes[row]}{end}{prio}")
    return "\n".join([*head, *rows, *_trigger_lines(barriers), *_failure_lines(matrix.failures), ""])


def _check(flows: FlowList, row: int) -> None:
    who, fix = f"flow {flows.number[row]}", "write another format, or change it"
    if flows.number[row] == 0:
        raise SpecError(who, 0, "a connection of a .cm file cannot have the id 0", fix)
    if flows.size_bytes[row] > _LARGEST_SIZE:
        size = int(flows.size_bytes[row])
        raise SpecError(who, size, f"a connection of a .cm file has at most {_LARGEST_SIZE} bytes", fix)
    if flows.port[row] != PORT:
        raise SpecError(who, int(flows.port[row]), "a connection of a .cm file has no port of its own", fix)


def _trigger_lines(barriers: Iterable[tuple[int, ...]]) -> list[str]:
    return [
        f"trigger id {ident} {'oneshot' if len(rows) == 1 else f'barrier count {len(rows)}'}"
        for ident, rows in enumerate(barriers, start=1)
    ]


def _failure_lines(failures: Iterable[Failure]) -> list[str]:
    return [f"failure switch_type {x.tier} switch_id {x.switch} link_id {x.link}" for x in failures]
