"""Triggers of htsim's connection matrices, as flows that wait for others, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xsim.errors import SpecError
from xsim.fabric.flows import CLASS, FlowList

__all__ = ["Connection", "Trigger", "started_after", "triggers_of"]


@dataclass(frozen=True, slots=True)
class Connection:
    """A line of a matrix; a trigger is 0 where there is none.

    Attributes:
        at: Where it stands, for messages.
        trigger: The one that starts it.
        at_sender, at_receiver: Those that it fires when its last acknowledgement, and its last byte, is there.
    """

    at: str
    src: int
    dst: int
    ident: int
    size_bytes: int
    start_ps: int = 0
    traffic_class: int = CLASS
    trigger: int = 0
    at_sender: int = 0
    at_receiver: int = 0


@dataclass(frozen=True, slots=True)
class Trigger:
    """``oneshot`` starts all its connections at once; ``multishot`` one more whenever it is fired; ``barrier`` all at
    once when it has been fired ``count`` times."""

    at: str
    kind: Literal["oneshot", "multishot", "barrier"]
    count: int = 1


def started_after(
    connections: Sequence[Connection], triggers: Mapping[int, Trigger]
) -> tuple[Literal["sender", "receiver"], list[tuple[int, ...]]]:
    """At which end connections fire, and which rows each waits for.

    Raises:
        SpecError: Connections fire at both ends; a trigger is not there or starts nothing, or is never fired; or what
            it starts, or when, depends on which of several connections ends first.
    """
    firing: dict[int, list[int]] = {ident: [] for ident in triggers}
    started: dict[int, list[int]] = {ident: [] for ident in triggers}
    ends: set[Literal["sender", "receiver"]] = set()
    for row, own in enumerate(connections):
        for ident, rows in ((own.trigger, started), (own.at_sender, firing), (own.at_receiver, firing)):
            if ident and ident not in triggers:
                raise SpecError(own.at, ident, "there is no trigger with this id", "write its line, or leave it out")
            if ident:
                rows[ident].append(row)
        if own.at_sender:
            ends.add("sender")
        if own.at_receiver:
            ends.add("receiver")
        if len(ends) > 1:
            fix = "use one of send_done_trigger and recv_done_trigger throughout"
            raise SpecError(own.at, f"{own.src}->{own.dst}", "connections fire triggers at both ends", fix)
    after: list[tuple[int, ...]] = [()] * len(connections)
    for ident, trigger in triggers.items():
        for row, before in _waits(trigger, firing[ident], started[ident]).items():
            after[row] = before
    return ends.pop() if ends else "sender", after


def _waits(trigger: Trigger, firing: list[int], started: list[int]) -> dict[int, tuple[int, ...]]:
    """Per row that the trigger starts, the rows that it waits for."""
    if not started:
        raise SpecError(trigger.at, trigger.kind, "it starts no connection", "leave it out")
    if trigger.kind == "multishot":
        return _one_by_one(trigger, firing, started)
    if len(firing) < trigger.count:
        problem = f"{len(firing)} of the {trigger.count} connections that it waits for fire it"
        raise SpecError(trigger.at, trigger.kind, problem, "let more connections fire it, or none wait for it")
    if len(firing) > trigger.count:
        problem = f"{len(firing)} connections fire it, and which of them end first cannot be told beforehand"
        raise SpecError(trigger.at, trigger.kind, problem, "let it wait for all of them: barrier, with their count")
    return dict.fromkeys(started, tuple(firing))


def _one_by_one(trigger: Trigger, firing: list[int], started: list[int]) -> dict[int, tuple[int, ...]]:
    """A multishot that one connection fires first, and then each that it has started: a chain."""
    first = [row for row in firing if row not in started]
    if len(first) != 1 or {*firing, started[-1]} != {*first, *started}:
        problem = "which of its connections is started by which cannot be told beforehand"
        fix = "let one connection fire it and then each that it starts, or write a oneshot for each"
        raise SpecError(trigger.at, trigger.kind, problem, fix)
    return {row: (before,) for before, row in zip([*first, *started[:-1]], started, strict=True)}


def triggers_of(flows: FlowList) -> tuple[list[int], list[tuple[int, ...]]]:
    """Of each row the trigger, counted from 1, that starts it, or 0; and the rows that fire each trigger.

    Raises:
        SpecError: Triggers cannot say for what a flow waits.
    """
    found: dict[tuple[int, ...], int] = {}
    trigger_of: dict[int, int] = {}
    idents = []
    for row in range(len(flows)):
        before = tuple(sorted(set(flows.awaits(row).tolist())))
        who = f"flow {flows.number[row]}"
        if before and flows.start_ps[row]:
            problem = "in a .cm file what waits for others starts when they end"
            raise SpecError(who, f"{flows.start_ps[row]} ps", problem, "let it start without a delay")
        idents.append(found.setdefault(before, len(found) + 1) if before else 0)
        for other in before:
            if trigger_of.setdefault(other, idents[-1]) != idents[-1]:
                problem = f"it waits for flow {flows.number[other]}, which fires another trigger in a .cm file"
                raise SpecError(who, "after", problem, "let all that wait for a flow wait for the same flows")
    return idents, [*found]
