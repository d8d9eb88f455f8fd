"""Every transfer as if it were alone: size over bandwidth plus latency, exact and very fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.sim.contracts import Completion, Fault, Network, NetworkStats, Purpose, no_faults
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.traffic.alone import Alone
from xsim.sim.traffic.compiled import Compiler
from xsim.sim.traffic.ledger import Instance, Ledger
from xsim.sim.traffic.tally import Run, Totals

__all__ = ["Analytic"]


@dataclass(frozen=True, slots=True)
class Analytic:
    """Each transfer takes size / smallest bandwidth + latency, whatever else is on its links.

    Background traffic thus changes no time of the training. An empty transfer is free. The busy time of a link is the
    sum over its flows: more than the elapsed time says that the link is asked for more than it has.
    """

    def open(self, fabric: Fabric, seed: int, faults: Sequence[Fault] = ()) -> Network:  # noqa: ARG002
        no_faults("analytic", faults)
        return _AnalyticNetwork(fabric)


class _AnalyticNetwork:
    contends = False
    foldable = True

    def __init__(self, fabric: Fabric) -> None:
        self._links = len(fabric.links)
        self._compile = Compiler(fabric)
        self._alone = Alone(fabric, fair=False)
        self._ledger = Ledger()
        self._touched: dict[int, Instance] = {}
        self._runs: dict[int, Run] = {}

    def submit(self, graph: TransferGraph, purpose: Purpose = "collective") -> int:  # noqa: ARG002
        return self._ledger.submit(self._compile(graph)).handle

    def release(self, handle: int, party: int, at_ps: int) -> None:
        instance = self._ledger.release(handle, party, at_ps)
        if instance is not None:
            self._touched[handle] = instance

    @property
    def now_ps(self) -> int:
        return self._ledger.now_ps

    @property
    def next_ps(self) -> int | None:
        self._settle()
        next_ps = self._ledger.next_ps
        return next_ps if next_ps < NEVER_PS else None

    def advance(self, until_ps: int | None) -> list[Completion]:
        self._settle()
        if self._ledger.next_ps > (NEVER_PS - 1 if until_ps is None else until_ps):
            return []
        completions, ended = self._ledger.pop()
        for instance in ended:
            self._alone.count(instance.compiled, self._runs.pop(instance.handle))
        return completions

    def solo(self, graph: TransferGraph) -> int:
        return self._alone.solo_ps(self._compile(graph))

    def repeat(self, graph: TransferGraph, times: int) -> None:
        self._alone.repeat(self._compile(graph), times)

    def stats(self) -> NetworkStats:
        """A graph counts when its last row has ended."""
        totals = Totals(self._links)
        self._alone.add_to(totals)
        return totals.stats()

    def _settle(self) -> None:
        """Work out anew when the parties of graphs with new releases are done."""
        if not self._touched:
            return
        for handle, instance in self._touched.items():
            if instance.finishes_some:
                run = self._runs[handle] = self._alone.run(instance.compiled, instance.offsets_ps)
                self._ledger.forecast(instance, run.done_ps)
        self._touched.clear()
