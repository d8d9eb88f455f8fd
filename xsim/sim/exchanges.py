"""Hand-overs for which both sides wait: in which order a program comes to its own.

As in the pipeline engine of DeepSpeed (https://github.com/deepspeedai/DeepSpeed, ``deepspeed/runtime/pipe``): sends and
receives stand in the stream that computes, so that a tensor moves from when sender and receiver have both come to it,
and both wait for its end (``p2p.py``). Between two neighbours the gradient goes before the activations: a stage sends
its gradients before it receives the next activations, and the stage before it receives them before it sends these
(``TrainSchedule`` in ``schedule.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from xsim.errors import SpecError
from xsim.plan.workload import Action, Move, Workload
from xsim.sim.course import Parts

__all__ = ["Exchanged", "exchanges_of"]

Exchanged = tuple[Sequence[Move], int]  # moves to begin together, and of which micro-batch
Positions = dict[tuple[str, int], int]  # of what carries a micro-batch, in the order of a program


def exchanges_of(workload: Workload, parts: Sequence[Parts]) -> list[list[list[Exchanged]]]:
    """What each program hands over and takes before each of its actions, and after the last, in order.

    Raises:
        SpecError: Two programs come to their exchanges in different orders, and would wait for ever.
    """
    known = {program.actions: _positions(program.actions) for program in workload.programs}
    positions = [known[program.actions] for program in workload.programs]
    found = [_own(program.actions, own, positions) for program, own in zip(workload.programs, parts, strict=True)]
    common: defaultdict[tuple[int, int], dict[int, list[tuple[Move, int]]]] = defaultdict(lambda: defaultdict(list))
    for index, (moves, micro_batch) in ((n, each) for n, own in enumerate(found) for each in chain(*own)):
        for move in moves:
            common[min(move.source, move.target), max(move.source, move.target)][index].append((move, micro_batch))
    for (one, other), orders in common.items():
        if orders[one] != orders[other]:
            problem = f"with this schedule programs {one} and {other} come to their exchanges in different orders"
            raise SpecError("deployment.rendezvous", True, problem, "choose schedule=one_f_one_b, or leave it out")
    return found


def _own(actions: Sequence[Action], parts: Parts, positions: Sequence[Positions]) -> list[list[Exchanged]]:
    """Those of the program that works through ``actions``; ``positions`` are of all."""
    found: list[list[Exchanged]] = []
    held: Exchanged = ((), 0)  # what the action before has made
    for action in actions:
        part, (made, number) = parts.of(action), held
        takes = part.incoming, action.micro_batch
        activations = [move.target for move in made if move.kind == "F"]
        first = any(_gives_first(positions[each], action.micro_batch, number) for each in activations)
        ordered = (takes, held) if first and action.carries == "B" else (held, takes)
        found.append([each for each in ordered if each[0]])
        held = part.outgoing, action.micro_batch
    return [*found, [held] if held[0] else []]


def _gives_first(positions: Positions, gradients: int, activations: int) -> bool:
    """Whether a program makes the gradients of one micro-batch before it takes the activations of another."""
    return positions["B", gradients] < positions["F", activations]


def _positions(actions: Sequence[Action]) -> Positions:
    return {(action.carries, action.micro_batch): number for number, action in enumerate(actions)}
