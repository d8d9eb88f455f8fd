"""The syncs of one execution: who comes to which, who takes part in it, and when all have the result."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from itertools import pairwise

import simpy

from xsim.plan.workload import Fetch, Program, Workload
from xsim.sim.contracts import Network
from xsim.sim.due import Due
from xsim.sim.folding import Folding
from xsim.sim.timeline import Log

__all__ = ["Syncs"]


def _next_fetches(program: Program) -> dict[int, int]:
    """Of each fetch of ``program`` that has one the next."""
    numbers = [
        step.sync + step.every * turn
        for action, turn in zip(program.actions, program.turns(), strict=True)
        for step in program.body(action).steps
        if isinstance(step, Fetch)
    ]
    return dict(pairwise(numbers))


class Syncs:
    """Follows every member from its gradients to the result.

    Where syncs are serial, a program takes part in its own in order of their number: in one when its gradients are
    complete and it has the result of the one before. All members keep to one order, so nobody waits for ever: of the
    syncs that are not over, all members of the first have been through those before it. Gathers have the highest
    numbers: what they wait for besides, an update, waits for none of them. Those ahead have the lowest, and their
    members come to them when the iteration begins.

    Fetches take no turns. With ``prefetch`` a program comes to its next one when it has, and uses, what the one before
    brings. All members of one pass the same actions in the same order, and with them the same fetches
    (``xsim.spec.scenario`` refuses other deployments), so that who is behind waits for nobody who is ahead.

    Attributes:
        waiting: By (handle, party), what happens when the network reports that party.
    """

    def __init__(
        self, workload: Workload, network: Network, env: simpy.Environment, log: Log, folding: Folding | None
    ) -> None:
        self._workload, self._network, self._env, self._log, self._folding = workload, network, env, log, folding
        self._handles: dict[int, int] = {}
        self._ends: dict[tuple[int, bool], list[Due]] = defaultdict(list)
        self._gathers: dict[int, list[int]] = defaultdict(list)
        self._ahead: dict[int, dict[int, Due]] = defaultdict(dict)
        self._next_fetch = [_next_fetches(program) if workload.prefetch else {} for program in workload.programs]
        self._under_way: dict[tuple[int, int], Due] = {}  # by fetch and program, what nobody has asked for yet
        self._turns: dict[int, deque[int]] = defaultdict(deque)
        self._member: dict[tuple[int, int], int] = {}
        self.waiting: dict[tuple[int, int], Due] = {}
        for number, sync in enumerate(workload.syncs):
            self._member.update({(number, program): member for member, program in enumerate(sync.programs)})
            if sync.does == "fetch":  # submitted when the first member comes
                continue
            for end, program in zip(self._submit(number), sync.programs, strict=True):
                if sync.does == "ahead":
                    self._ahead[program][number] = end
                else:
                    self._ends[program, sync.does == "gather"].append(end)
                if sync.does == "gather":
                    self._gathers[program].append(number)
                self._turns[program].append(number)

    def begin(self, program: int) -> None:
        """``program`` begins the iteration, and comes to its gathers of what the one before has updated."""
        for number in self._ahead[program]:
            self.release(number, program, 0)

    def ends(self, program: int) -> list[Due]:
        """What ``program`` waits for before it updates: the results of its syncs."""
        return self._ends[program, False]

    def gather(self, program: int) -> list[Due]:
        """``program`` has updated and comes to its gathers of parameters; what it then waits for."""
        for number in self._gathers[program]:
            self.release(number, program, int(self._env.now))
        return self._ends[program, True]

    def fetch(self, number: int, program: int, at_ps: int) -> Due:
        """``program`` needs ``number``, a fetch or ahead, at ``at_ps``, which may lie ahead; what it then waits for."""
        member = self._member[number, program]
        self._log.needed_ps[number][member] = at_ps
        if number in self._ahead[program]:
            return self._ahead[program][number]
        end = self._under_way.pop((number, program), None) or self._come(number, program, at_ps)
        following = self._next_fetch[program].get(number)
        if following is None:
            return end
        if end.callbacks is None:  # it has come
            self._look_ahead(following, program, at_ps, end)
        else:
            end.callbacks.append(partial(self._look_ahead, following, program, at_ps))
        return end

    def _look_ahead(self, number: int, program: int, at_ps: int, _: simpy.Event) -> None:
        """``program`` comes to a fetch that it needs after the one whose result it has, and uses from ``at_ps`` on."""
        self._under_way[number, program] = self._come(number, program, max(at_ps, int(self._env.now)))

    def _come(self, number: int, program: int, at_ps: int) -> Due:
        """``program`` takes part in fetch ``number`` from ``at_ps`` on."""
        member = self._member[number, program]
        if number not in self._handles:
            self._submit(number)
        end = self.waiting[self._handles[number], member]
        self._log.released_ps[number][member] = at_ps
        self._join(number, member, at_ps)
        return end

    def _submit(self, number: int) -> list[Due]:
        """Sync ``number`` goes to the network; of each member, what happens when it has the result."""
        sync = self._workload.syncs[number]
        handle = self._handles[number] = self._network.submit(sync.graph, "sync")
        ends = [Due(self._env) for _ in sync.programs]
        for member, end in enumerate(ends):
            end.callbacks.append(partial(self._left, number, member))
            self.waiting[handle, member] = end
        return ends

    def release(self, number: int, program: int, at_ps: int) -> None:
        """``program`` has what it gives to sync ``number`` from ``at_ps`` on, which may lie ahead."""
        member = self._member[number, program]
        self._log.released_ps[number][member] = at_ps
        if not self._workload.serial_sync or self._turns[program][0] == number:
            self._join(number, member, at_ps)

    def _join(self, number: int, member: int, at_ps: int) -> None:
        self._log.joined_ps[number][member] = at_ps
        self._network.release(self._handles[number], member, at_ps)
        if self._folding:
            self._folding.joined(number, member, at_ps)

    def _left(self, number: int, member: int, _: simpy.Event) -> None:
        """A member has the result, and may take its turn in the next."""
        now_ps = int(self._env.now)
        self._log.done_ps[number][member] = now_ps
        if self._folding:
            self._folding.left(number)
        sync = self._workload.syncs[number]
        if self._workload.serial_sync and sync.does != "fetch":
            self._next(sync.programs[member], now_ps)

    def _next(self, program: int, now_ps: int) -> None:
        turns = self._turns[program]
        turns.popleft()
        if turns:
            member = self._member[turns[0], program]
            released_ps = self._log.released_ps[turns[0]][member]
            if released_ps >= 0:
                self._join(turns[0], member, max(released_ps, now_ps))
