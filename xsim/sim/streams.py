"""The traffic of others on the network, one burst of each stream after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xsim.sim.contracts import Burst, Completion, Network, Stream
from xsim.sim.kernels.never import LONGEST_PS

__all__ = ["Streams"]


class Streams:
    """Submits the first burst of each stream, and the next when the last is through."""

    def __init__(self, network: Network, streams: Sequence[Stream]) -> None:
        self._network = network
        self._running: dict[int, Iterator[Burst]] = {}
        for stream in streams:
            self._submit(stream.bursts, 0)

    def over(self, completion: Completion) -> None:
        """If it is a burst that is through, the next of its stream goes to the network."""
        bursts = self._running.pop(completion.handle, None)
        if bursts is not None:
            self._submit(bursts, completion.at_ps)

    def _submit(self, bursts: Iterator[Burst], now_ps: int) -> None:
        burst = next(bursts)
        handle = self._network.submit(burst.graph, "background")
        self._running[handle] = bursts
        self._network.release(handle, 0, min(max(burst.at_ps, now_ps), LONGEST_PS))
