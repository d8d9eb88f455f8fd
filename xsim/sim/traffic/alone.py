"""Runs of graphs that nobody disturbs: worked out once, counted often."""

from __future__ import annotations

from collections import Counter

import numpy as np

from xsim.fabric.fabric import Fabric
from xsim.sim.kernels.never import NEVER_PS
from xsim.sim.traffic.compiled import Compiled
from xsim.sim.traffic.tally import Run, Tally, Totals, tally_alone

__all__ = ["Alone"]

_KEPT = 64  # runs kept per graph: parties that come in ever new order must not fill the memory


class Alone:
    """Undisturbed runs on one fabric.

    Args:
        fair: Rows of a graph that share a link share it max-min fairly; else each has it as if alone.
        reuse: Whether to keep runs, and to take the recursion where no rows share a link; the numbers are the same.
    """

    def __init__(self, fabric: Fabric, *, fair: bool, reuse: bool = True) -> None:
        self._fabric, self._fair, self._reuse = fabric, fair, reuse
        self._runs: dict[Compiled, dict[tuple[int, ...], Run]] = {}
        self._counts: Counter[Compiled | Tally] = Counter()

    def run(self, compiled: Compiled, offsets_ps: tuple[int, ...]) -> Run:
        """The run in which the parties are released at ``offsets_ps``.

        ``NEVER_PS`` stands for a party that is not released yet, and then also for the end of what depends on it.
        """
        runs = self._runs.setdefault(compiled, {})
        found = runs.get(offsets_ps)
        if found is None:
            found = self._work_out(compiled, offsets_ps)
            if self._reuse:
                if len(runs) == _KEPT:
                    del runs[next(iter(runs))]
                runs[offsets_ps] = found
        return found

    def count(self, compiled: Compiled, run: Run, times: int = 1) -> None:
        """``times`` such runs took place."""
        self._counts[run.tally or compiled] += times

    def solo_ps(self, compiled: Compiled) -> int:
        """What the graph takes if all parties are released together."""
        return max(self.run(compiled, compiled.together).done_ps)

    def repeat(self, compiled: Compiled, times: int) -> None:
        """``times`` runs with all parties released together took place."""
        self.count(compiled, self.run(compiled, compiled.together), times)

    def add_to(self, totals: Totals) -> None:
        """Add all runs counted so far."""
        for counted, times in self._counts.items():
            totals.add(counted if isinstance(counted, Tally) else tally_alone(counted), times)

    def _work_out(self, compiled: Compiled, offsets_ps: tuple[int, ...]) -> Run:
        if self._fair and not (compiled.exclusive and self._reuse):
            from xsim.sim.traffic.events import simulate  # numba loads when it is needed

            return simulate(compiled, self._fabric.bandwidth_bytes_per_s, offsets_ps, reuse=self._reuse)
        return Run(_evaluate(compiled, offsets_ps))


def _evaluate(compiled: Compiled, offsets_ps: tuple[int, ...]) -> tuple[int, ...]:
    from xsim.sim.kernels.maxplus import evaluate  # numba loads when it is needed

    graph = compiled.graph
    ends_ps = np.empty(graph.rows, dtype=np.int64)
    done_ps = np.full(graph.parties, -1, dtype=np.int64)
    release_ps = np.array(offsets_ps, dtype=np.int64)
    evaluate(
        compiled.src_party,
        compiled.dst_party,
        compiled.size_bytes,
        compiled.latency_ps,
        compiled.bytes_per_ps,
        compiled.wire_ppm,
        graph.rounds,
        graph.cycle_len,
        graph.pred_ptr,
        graph.pred,
        release_ps,
        ends_ps,
        done_ps,
    )
    return tuple(np.minimum(np.maximum(done_ps, release_ps), NEVER_PS).tolist())
