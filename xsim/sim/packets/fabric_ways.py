"""The ways of transfers over a fabric, as the routing rule has them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from xsim.fabric.fabric import Fabric
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.ways import Block, Blocks, Way, in_turn, sample, stray, taken
from xsim.sim.traffic.compiled import Compiled

__all__ = ["FabricWays"]

Ints = NDArray[np.int64]


class FabricWays:
    """Chooses them as transfers are opened. All of one simulation lie in one ``route``, each once."""

    def __init__(self, fabric: Fabric, settings: Settings) -> None:
        self._fabric, self._settings = fabric, settings
        self._blocks = Blocks(settings, 0)
        self._turns, self._earlier = Counter[int](), Counter[tuple[int, int]]()

    def give(self, flows: Ints, compiled: Compiled) -> tuple[Ints, Ints]:
        """Enter the ways in the rows of ``flows``; what is to be appended to ``route`` and ``forks``."""
        pairs = list(zip(compiled.graph.src.tolist(), compiled.graph.dst.tolist(), strict=True))
        there = [taken(self._block(src, dst), self._seed(src, dst), self._settings) for src, dst in pairs]
        flows[:, [k.WAY, k.STRIDE, k.WAYS, k.STRAY]] = np.array(there, dtype=np.int64).reshape(-1, 4)
        flows[:, k.WAY_BACK] = [self._hashed(dst, src).at for src, dst in pairs]
        return self._blocks.added()

    def _block(self, src: int, dst: int) -> Block:
        rule, count = self._settings.routing, self._fabric.choices(src, dst)
        if rule == "hash" or count == 1:
            return self._hashed(src, dst)
        if self._settings.scatters:
            return self._blocks.add((src, dst, "all"), lambda: self._all(src, dst, count))
        choice = in_turn(rule, self._turns, src, self._rail(src), count)
        return self._blocks.add((src, dst, choice), lambda: [self._fabric.route(src, dst, choice)])

    def _hashed(self, src: int, dst: int) -> Block:
        return self._blocks.add((src, dst), lambda: [self._fabric.route(src, dst)])

    def _all(self, src: int, dst: int, count: int) -> list[Way]:
        """Those that begin with the link at which the flow takes turns."""
        ways = [self._fabric.route(src, dst, choice) for choice in sample(count)]
        first = self._fabric.route(src, dst)[0]
        return [way for way in ways if way[0] == first]

    def _seed(self, src: int, dst: int) -> int:
        if self._settings.routing != "spray":
            return 0
        self._earlier[src, dst] += 1
        return stray(self._settings, src, dst, self._earlier[src, dst] - 1)

    def _rail(self, rank: int) -> int:
        """Number of the rank's NIC in its host; where that is not known, of the rank itself there."""
        hosts = self._fabric.hosts
        first = hosts.index(hosts[rank])
        outs = [self._fabric.gate(other).out for other in range(first, first + hosts.count(hosts[rank]))]
        if not all(outs):
            return rank - first
        return sorted({out[-1] for out in outs}).index(outs[rank - first][-1])
