"""The ways of transfers over a fabric, as the routing rule has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Fabric
from xsim.sim.kernels import packet_columns as k
from xsim.sim.packets.settings import Settings
from xsim.sim.packets.ways import Block, Blocks, Way, in_turn, sample, stray, taken
from xsim.sim.traffic.compiled import Compiled
from xsim.units import format_time

__all__ = ["FabricWays"]

Ints = NDArray[np.int64]


class _Rule(NamedTuple):
    """How a transfer goes: the number of a choice, None for that of the hash."""

    src: int
    dst: int
    choice: int | Literal["all"] | None


class FabricWays:
    """Chooses them as transfers are opened. All of one simulation lie in one ``route``, each once.

    Attributes:
        down: Links that do not work.
        mends: Whether some of them will again.
        now_ps: When that last changed.
    """

    def __init__(self, fabric: Fabric, settings: Settings) -> None:
        self._fabric, self._settings = fabric, settings
        self._blocks = Blocks(settings, 0)
        self._turns, self._earlier = Counter[int](), Counter[tuple[int, int]]()
        self._given: dict[int, list[_Rule]] = {}  # per first slot
        self.down: frozenset[int] = frozenset()
        self.mends, self.now_ps = False, 0

    def give(self, base: int, flows: Ints, compiled: Compiled) -> tuple[Ints, Ints]:
        """Enter the ways in ``flows``, the table from ``base`` on; what is to be added to ``route`` and ``forks``."""
        pairs = list(zip(compiled.graph.src.tolist(), compiled.graph.dst.tolist(), strict=True))
        rules = [_Rule(src, dst, self._choice(src, dst)) for src, dst in pairs]
        there = [taken(self._block(rule), self._seed(rule.src, rule.dst), self._settings) for rule in rules]
        flows[:, [k.WAY, k.STRIDE, k.WAYS, k.STRAY]] = np.array(there, dtype=np.int64).reshape(-1, 4)
        flows[:, k.WAY_BACK] = [self._block(_Rule(rule.dst, rule.src, None)).at for rule in rules]
        self._given[base] = rules
        return self._blocks.added()

    def forget(self, base: int) -> None:
        """What was given the flows from ``base`` on has ended."""
        del self._given[base]

    def give_again(self, flows: Ints) -> tuple[Ints, Ints]:
        """Enter the ways of all that has not finished anew, now that other links work; what is to be added."""
        for base, rules in self._given.items():
            for slot, rule in enumerate(rules, base):
                if flows[slot, k.STATE] != k.FINISHED and not flows[slot, k.INSIDE]:
                    block = self._block(rule)
                    flows[slot, [k.WAY, k.STRIDE, k.WAYS]] = taken(block, 0, self._settings)[:3]
                    flows[slot, k.WAY_BACK] = self._block(_Rule(rule.dst, rule.src, None)).at
        return self._blocks.added()

    def _choice(self, src: int, dst: int) -> int | Literal["all"] | None:
        """Which of the ways a new transfer takes; None: that of the hash."""
        rule, count = self._settings.routing, self._fabric.choices(src, dst)
        if rule == "hash" or count == 1:
            return None
        return "all" if self._settings.scatters else in_turn(rule, self._turns, src, self._rail(src), count)

    def _block(self, rule: _Rule) -> Block:
        ways = self._ways(rule)
        found = ways() if self.down else ()
        if len(self._clean(found)) == len(found):
            return self._blocks.add(rule, ways)
        clean = self._clean(found) or self._clean(self._ways(_Rule(rule.src, rule.dst, "all"))())
        if not clean and self.mends:
            return self._blocks.add(rule, ways)
        if not clean:
            names = [self._fabric.links[link].name for way in found for link in way if link in self.down]
            when = format_time(self.now_ps)
            problem = f"at {when} no way is left from rank {rule.src} to rank {rule.dst}"
            raise SpecError("faults", names[0], problem, "let it work again (until), or join them in other ways")
        if rule.choice != "all":
            clean = [clean[ecmp(rule.src, rule.dst, len(clean))]]
        return self._blocks.add((rule, self.down), lambda: clean)

    def _clean(self, ways: Sequence[Way]) -> list[Way]:
        return [way for way in ways if not self.down.intersection(way)]

    def _ways(self, rule: _Rule) -> Callable[[], Sequence[Way]]:
        src, dst, choice = rule
        if choice == "all":
            return lambda: self._all(src, dst)
        return lambda: [self._fabric.route(src, dst, choice)]

    def _all(self, src: int, dst: int) -> list[Way]:
        """Those that begin with the link at which the flow takes turns."""
        first = self._fabric.route(src, dst)[:1]
        ways = [self._fabric.route(src, dst, choice) for choice in sample(self._fabric.choices(src, dst))]
        return [way for way in ways if way[:1] == first]

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
