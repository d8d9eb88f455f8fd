"""Simulations on two ranks, so that what is compiled or loaded on first use is there before a clock starts."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.command import tell

if TYPE_CHECKING:
    from xsim.fabric.fabric import Fabric
    from xsim.sim.contracts import Fault, Network, NetworkBackend
    from xsim.sim.packets.settings import Settings

__all__ = ["Warming", "announced", "warm", "warm_packets"]

QUIET_S = 1.0  # between two looks; what is compiled by the first is not worth a word


@dataclass(slots=True)
class Warming:
    """A network whose ``backend`` is warm once it is opened: what is refused before does not wait for that.

    Attributes:
        took_s: Seconds that it took.
    """

    backend: NetworkBackend
    took_s: float = 0.0
    _opened: bool = False

    def open(self, fabric: Fabric, seed: int, faults: Sequence[Fault] = ()) -> Network:
        """See ``NetworkBackend``."""
        if not self._opened:
            self._opened, self.took_s = True, warm(self.backend)
        return self.backend.open(fabric, seed, faults)


def warm(backend: NetworkBackend) -> float:
    """Let ``backend`` run transfers that share a link and begin one after another, and a ring; the seconds it took."""
    import numpy as np

    from xsim.fabric.fabric import Fabric, Link
    from xsim.fabric.transfers import concatenate, line, ring

    fabric = Fabric(
        bandwidth_bytes_per_s=np.full(3, 1e9),
        latency_ps=np.zeros(3, dtype=np.int64),
        links=(Link("0 -> 1", "nic"), Link("1 -> 2", "nic"), Link("2 -> 0", "nic")),
        hosts=(0, 1, 2),
        router=lambda src, dst: tuple(range(src, dst)) if src <= dst else (2,),
    )
    chain = concatenate([(line(0, 1, range(10)), [()]), (line(1, 2, range(10)), [()])], [(0,), (1,), (2,)])
    around = ring((0, 1, 2), (range(10), range(10), range(10)), rounds=4, add_rounds=2)
    with announced() as passed_s:
        network = backend.open(fabric, 0)
        for handle in (network.submit(chain), network.submit(chain)):
            for party in range(3):
                network.release(handle, party, party)
        while network.advance(None):
            pass
        network.solo(concatenate([(around, [(), (), ()])], [(0, 1, 2)]))
        network.stats()
        return passed_s()


def warm_packets(settings: Settings) -> float:
    """Replay a flow of one byte under these settings; the seconds that it took."""
    from dataclasses import replace

    import numpy as np

    from xsim.fabric.graph import Cable, Graph
    from xsim.sim.packets.flows import Flows
    from xsim.sim.packets.replay import replay

    graph = Graph(2, frozenset(), (Cable(0, 1, 10**9, 0),))
    zero, one, ends = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), np.array([0, 1])
    flows = Flows(zero, one, one, zero, -one, ends, zero, ends, one)
    with announced() as passed_s:
        replay(graph, flows, replace(settings, sample_ps=None, routing="hash"))
        return passed_s()


@contextmanager
def announced() -> Iterator[Callable[[], float]]:
    """Say so if simulations are being compiled, which takes a while; how many seconds have passed."""
    started_s, before, over = time.perf_counter(), _compiled(), threading.Event()

    def watch() -> None:
        while not over.wait(QUIET_S):
            if _compiled() > before:
                tell("compiling the packet simulation, once")
                return
            if _waits():
                tell("another process compiles simulations, which takes a while; waiting for it")
                while _waits() and not over.wait(QUIET_S):
                    pass

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield lambda: time.perf_counter() - started_s
    finally:
        over.set()


def _compiled() -> int:
    """How often the kernel of packets was compiled in this process, or is being compiled; 0 if it is not loaded."""
    kernel: Any = getattr(sys.modules.get("xsim.sim.kernels.packet"), "run", None)
    stats = getattr(kernel, "stats", None)  # absent where numba is told not to compile
    return sum(stats.cache_misses.values()) if stats else 0


def _waits() -> bool:
    """Whether another process compiles what this one lacks."""
    module: Any = sys.modules.get("xsim.sim.kernels.turn")
    return bool(module and module.waits())
