"""Transfers that share links max-min fairly, from event to event, or without events where nothing is shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.sim.contracts import Completion, Fault, Network, NetworkStats, Purpose, no_faults
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.traffic.alone import Alone
from xsim.sim.traffic.compiled import Compiler
from xsim.sim.traffic.ledger import Instance, Ledger
from xsim.sim.traffic.stored import PacketSizes
from xsim.sim.traffic.tally import Run

__all__ = ["Flow"]

_FEW = 256  # flows; so many take less time from event to event than a graph takes to be closed


@dataclass(frozen=True, slots=True)
class Flow:
    """All flows share the links they cross max-min fairly.

    An empty transfer is free. A flow is on its links while its bytes leave, and it is complete a path latency later.

    Attributes:
        payload_bytes: Of a full packet. Then transfers go in packets, as on the network ``packet``: each has a header,
            and each switch receives it wholly before it sends it on. A transfer that is alone takes as long as there;
            bytes of links are those on the wire. 0: transfers have no packets, and links pass bytes on at once.
        header_bytes: Of each packet, besides.
        scale_up_payload_bytes: ``payload_bytes`` of transfers over links of a scale-up fabric alone.
        scale_up_header_bytes: ``header_bytes`` of those transfers.
        reuse: Take the shortcuts that leave the numbers as they are, see below; without, everything is simulated
            from event to event.
    """

    payload_bytes: int = 0
    header_bytes: int = 48  # Ethernet 14, IPv4 20, UDP 8, and 6 of HPCC's ns-3 model
    scale_up_payload_bytes: int = 4096  # 16 packets of 256 bytes: Foley and Danskin, IEEE Micro 37(2), 2017
    scale_up_header_bytes: int = 256  # 16 headers of 16 bytes: the same
    reuse: bool = True

    def __post_init__(self) -> None:
        if self.payload_bytes:
            self._sizes()
            return
        for option in fields(self):
            if option.name.endswith("_bytes") and (value := getattr(self, option.name)) != option.default:
                raise SpecError(option.name, value, "transfers have no packets", "set payload_bytes too")

    def open(self, fabric: Fabric, seed: int, faults: Sequence[Fault] = ()) -> Network:  # noqa: ARG002
        no_faults("flow", faults)
        return _FlowNetwork(fabric, self._sizes() if self.payload_bytes else None, reuse=self.reuse)

    def _sizes(self) -> PacketSizes:
        sizes = (self.payload_bytes, self.header_bytes, self.scale_up_payload_bytes, self.scale_up_header_bytes)
        return PacketSizes(*sizes)


class _FlowNetwork:
    """A large graph that has its links to itself is *closed*: its completions are foreseen from an undisturbed run.

    When another graph comes to one of those links, it is *opened*: put among the events with its past releases, and
    caught up with. Both then go on from event to event, as if it had been there from the start. A graph uses its links
    from the first instant in which one of its rows may move: a closed one until its last row has ended, an opened one
    each until the rows that cross it have. A graph of few flows is opened at once.
    """

    contends = foldable = True

    def __init__(self, fabric: Fabric, sizes: PacketSizes | None, *, reuse: bool) -> None:
        from xsim.sim.traffic.events import Events  # numba loads with the first simulation

        self._reuse = reuse
        self._compile = Compiler(fabric, sizes)
        self._alone = Alone(fabric, fair=True, reuse=reuse)
        self._ledger = Ledger()
        self._events = Events(fabric.bandwidth_bytes_per_s, reuse=reuse)
        self._touched: dict[int, Instance] = {}
        self._closed: dict[int, Run | None] = {}
        self._opened: dict[int, int] = {}

    def submit(self, graph: TransferGraph, purpose: Purpose = "collective") -> int:  # noqa: ARG002
        return self._ledger.submit(self._compile(graph)).handle

    def release(self, handle: int, party: int, at_ps: int) -> None:
        instance = self._ledger.release(handle, party, at_ps)
        if instance is None:
            return
        if handle in self._opened:
            self._events.release(self._opened[handle], instance.compiled, party, at_ps)
        elif instance.compiled.flows <= _FEW or not self._reuse:
            if instance.moving:
                self._open_up(instance)
        else:
            self._touched[handle] = instance

    @property
    def now_ps(self) -> int:
        return self._ledger.now_ps

    @property
    def next_ps(self) -> int | None:
        self._settle()
        self._catch_up()
        next_ps = min(self._ledger.next_ps, self._events.next_ps)
        return next_ps if next_ps < NEVER_PS else None

    def advance(self, until_ps: int | None) -> list[Completion]:
        if self._touched:
            self._settle()
        limit_ps = NEVER_PS - 1 if until_ps is None else until_ps
        due_ps = self._ledger.next_ps
        while (next_ps := self._events.next_ps) <= limit_ps and next_ps <= due_ps:
            self._run_events(min(limit_ps, due_ps))
            due_ps = self._ledger.next_ps
        if due_ps > limit_ps:
            if until_ps is not None:
                self._ledger.now_ps = until_ps
            return []
        completions, ended = self._ledger.pop()
        for instance in ended:
            self._end(instance)
        return completions

    def solo(self, graph: TransferGraph) -> int:
        return self._alone.solo_ps(self._compile(graph))

    def repeat(self, graph: TransferGraph, times: int) -> None:
        self._alone.repeat(self._compile(graph), times)

    def stats(self) -> NetworkStats:
        """Totals up to the last completion or the last instant advanced to, graphs under way included."""
        self._settle()
        for handle in list(self._closed):
            self._open_up(self._ledger.live[handle])
        self._catch_up()
        self._events.expose(self._ledger.now_ps)
        totals = self._events.totals(self._ledger.now_ps)
        self._alone.add_to(totals)
        return totals.stats()

    def _settle(self) -> None:
        """Find a place for the graphs with new releases: closed, with a new forecast, or among the events."""
        for handle, instance in self._touched.items():
            if handle in self._opened:
                continue
            if handle in self._closed:
                self._foresee(instance)
            elif instance.moving:
                if self._events.hold(instance.compiled.links, handle):
                    self._closed[handle] = None
                    self._foresee(instance)
                else:
                    self._open_up(instance)
        self._touched.clear()

    def _foresee(self, instance: Instance) -> None:
        """Forecast the completions of a closed graph that depend on no further release."""
        if not instance.finishes_some:
            return
        if instance.absent and not instance.compiled.exclusive:
            self._open_up(instance)
            return
        run = self._closed[instance.handle] = self._alone.run(instance.compiled, instance.offsets_ps)
        self._ledger.forecast(instance, run.done_ps)

    def _open_up(self, instance: Instance) -> None:
        """Put a graph among the events, with its past, and all that hold one of its links; their forecasts are void."""
        handle, compiled = instance.handle, instance.compiled
        if handle in self._closed:
            del self._closed[handle]
            self._events.let_go(compiled.links)
            self._ledger.void(instance)
        self._opened[handle], holders = self._events.open(handle, compiled, instance.released_ps)
        for holder in holders:
            self._open_up(self._ledger.live[holder])

    def _catch_up(self) -> None:
        """Simulate what has not been since the last advance: the past of graphs just opened, and this instant."""
        while self._events.next_ps <= self._ledger.now_ps:
            self._run_events(self._ledger.now_ps)

    def _run_events(self, until_ps: int) -> None:
        for handle, party, at_ps in self._events.run(until_ps):
            self._ledger.expect(handle, party, at_ps)

    def _end(self, instance: Instance) -> None:
        """All rows have ended."""
        handle, compiled = instance.handle, instance.compiled
        if handle in self._opened:
            self._events.close(self._opened.pop(handle), compiled)
        else:
            run = self._closed.pop(handle)
            assert run is not None, "a closed graph ends as foreseen"
            self._events.let_go(compiled.links)
            self._alone.count(compiled, run)
