"""Submitted graphs, the releases of their parties, and the completions to come."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from xsim.sim.contracts import Completion
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.traffic.compiled import Compiled

__all__ = ["Instance", "Ledger"]


@dataclass(slots=True, eq=False)
class Instance:
    """One submission of a graph.

    Attributes:
        released_ps: Per party; ``NEVER_PS`` before its release.
        absent: Bit mask of the parties not released yet.
        pending: Bit mask of the parties not reported as done yet.
        edition: Counts the forecasts of its completions: entries of earlier ones are void.
    """

    handle: int
    compiled: Compiled
    released_ps: list[int]
    absent: int
    pending: int
    edition: int = 0

    @property
    def moving(self) -> bool:
        """Whether some row has both of its parties released, so that its links may be in use."""
        if not self.absent:
            return True
        partners, absent = self.compiled.partners, self.absent
        return any(mask & ~absent for party, mask in enumerate(partners) if not absent >> party & 1)

    @property
    def finishes_some(self) -> bool:
        """Whether a party with rows can be done without a further release."""
        if not self.absent:
            return True
        open_parties = self.pending & self.compiled.busy
        needs, absent = self.compiled.needs, self.absent
        return any(open_parties >> party & 1 and not needed & absent for party, needed in enumerate(needs))

    @property
    def origin_ps(self) -> int:
        """The first release."""
        return min(self.released_ps)

    @property
    def offsets_ps(self) -> tuple[int, ...]:
        """Releases relative to the first; ``NEVER_PS`` for those to come."""
        origin_ps = self.origin_ps
        if self.released_ps.count(origin_ps) == len(self.released_ps):
            return self.compiled.together
        return tuple(NEVER_PS if at_ps == NEVER_PS else at_ps - origin_ps for at_ps in self.released_ps)

    @property
    def finished(self) -> bool:
        """Whether all rows have ended."""
        return not self.pending & self.compiled.busy


@dataclass(slots=True)
class Ledger:
    """What is known of the future, in a heap of (instant, handle, party, edition).

    Attributes:
        now_ps: The network has processed everything up to here.
        next_ps: The earliest completion expected; ``NEVER_PS`` if there is none.
        live: Instances by handle, until all of their parties are reported.
    """

    now_ps: int = 0
    next_ps: int = NEVER_PS
    live: dict[int, Instance] = field(default_factory=dict)
    _submitted: int = 0
    _due: list[tuple[int, int, int, int]] = field(default_factory=list)

    def submit(self, compiled: Compiled) -> Instance:
        """A new instance, nothing released."""
        handle, everyone = self._submitted, (1 << compiled.parties) - 1
        self._submitted += 1
        instance = Instance(handle, compiled, [NEVER_PS] * compiled.parties, everyone, everyone)
        self.live[handle] = instance
        return instance

    def release(self, handle: int, party: int, at_ps: int) -> Instance | None:
        """Note the release; the instance, or None if no row touches the party: it is done at once."""
        instance = self.live[handle]
        instance.released_ps[party] = at_ps
        instance.absent &= ~(1 << party)
        if instance.compiled.idle >> party & 1:
            heappush(self._due, (at_ps, handle, party, -1))
            self._look_ahead()
            return None
        return instance

    def forecast(self, instance: Instance, done_ps: tuple[int, ...]) -> None:
        """Replace what was expected of ``instance``; ``done_ps`` per party, counted from its first release."""
        instance.edition += 1
        origin_ps, busy = instance.origin_ps, instance.pending & instance.compiled.busy
        for party, offset_ps in enumerate(done_ps):
            if offset_ps < NEVER_PS and busy >> party & 1:
                heappush(self._due, (origin_ps + offset_ps, instance.handle, party, instance.edition))
        self._look_ahead()

    def void(self, instance: Instance) -> None:
        """Take back what was expected of ``instance``."""
        instance.edition += 1
        self._look_ahead()

    def expect(self, handle: int, party: int, at_ps: int) -> None:
        """Add one completion, unless it was reported before."""
        instance = self.live[handle]
        if instance.pending >> party & 1:
            heappush(self._due, (at_ps, handle, party, instance.edition))
            self._look_ahead()

    def pop(self) -> tuple[list[Completion], list[Instance]]:
        """All completions of the earliest instant, which becomes now, and the instances whose rows ended with them."""
        at_ps = self.now_ps = self.next_ps
        completions: list[Completion] = []
        ended: list[Instance] = []
        while self.next_ps == at_ps:
            _, handle, party, edition = heappop(self._due)
            completions.append(Completion(handle, party, at_ps))
            instance = self.live[handle]
            instance.pending &= ~(1 << party)
            if edition >= 0 and instance.finished:
                ended.append(instance)
            if not instance.pending:
                del self.live[handle]
            self._look_ahead()
        return completions, ended

    def _look_ahead(self) -> None:
        """Drop void entries from the top of the heap."""
        due = self._due
        while due:
            self.next_ps, handle, _, edition = due[0]
            if edition < 0 or ((instance := self.live.get(handle)) is not None and edition == instance.edition):
                return
            heappop(due)
        self.next_ps = NEVER_PS
