"""Every transfer as if it were alone: size over bandwidth plus latency, exact and very fast."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.sim.contracts import Completion, Network, NetworkStats
from xsim.sim.traffic.compiled import Compiled, Compiler
from xsim.sim.traffic.ledger import NEVER_PS, Instance, Ledger
from xsim.sim.traffic.tally import Totals, tally_alone

__all__ = ["Analytic"]


@dataclass(frozen=True, slots=True)
class Analytic:
    """Each transfer takes size / smallest bandwidth + latency, whatever else is on its links.

    An empty transfer is free. The busy time of a link is the sum over its flows: more than the elapsed time says that
    the link is asked for more than it has.
    """

    def open(self, fabric: Fabric, seed: int) -> Network:  # noqa: ARG002
        return _AnalyticNetwork(fabric)


class _AnalyticNetwork:
    contends = False

    def __init__(self, fabric: Fabric) -> None:
        self._compile = Compiler(fabric)
        self._links = len(fabric.links)
        self._ledger = Ledger()
        self._touched: dict[int, Instance] = {}
        self._ended: Counter[Compiled] = Counter()

    def submit(self, graph: TransferGraph) -> int:
        return self._ledger.submit(self._compile(graph)).handle

    def release(self, handle: int, party: int, at_ps: int) -> None:
        instance = self._ledger.release(handle, party, at_ps)
        if instance is not None:
            self._touched[handle] = instance

    @property
    def next_ps(self) -> int | None:
        self._settle()
        next_ps = self._ledger.next_ps
        return next_ps if next_ps < NEVER_PS else None

    def advance(self, until_ps: int | None) -> list[Completion]:
        self._settle()
        limit_ps = NEVER_PS - 1 if until_ps is None else until_ps
        if self._ledger.next_ps > limit_ps:
            return []
        completions, ended = self._ledger.pop()
        self._ended.update(instance.compiled for instance in ended)
        return completions

    def solo(self, graph: TransferGraph) -> int:
        compiled = self._compile(graph)
        return max(compiled.run((0,) * compiled.parties))

    def repeat(self, graph: TransferGraph, times: int) -> None:
        self._ended[self._compile(graph)] += times

    def stats(self) -> NetworkStats:
        """A graph counts when its last row has ended."""
        totals = Totals(self._links)
        for compiled, times in self._ended.items():
            totals.add(tally_alone(compiled), times)
        return totals.stats()

    def _settle(self) -> None:
        """Work out again when the parties of graphs with new releases are done."""
        for instance in self._touched.values():
            if instance.finishes_some:
                origin_ps = min(instance.released_ps)
                offsets_ps = tuple(min(at_ps - origin_ps, NEVER_PS) if at_ps < NEVER_PS else NEVER_PS
                                   for at_ps in instance.released_ps)
                self._ledger.forecast(instance, instance.compiled.run(offsets_ps), origin_ps)
        self._touched.clear()
