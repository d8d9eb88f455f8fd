"""Switches on a torus of two, three or more dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import ceil, prod
from operator import mul

from xsim.errors import SpecError
from xsim.fabric.ecmp import ecmp
from xsim.fabric.fabric import Fabric, Route
from xsim.fabric.scale_out import ScaleOut, Trunk, check_trunks, ports
from xsim.fabric.wiring import wire
from xsim.spec.cluster import ClusterSpec

__all__ = ["Torus"]


@dataclass(frozen=True, slots=True)
class Torus:
    """A switch for each ``scale_out.hosts_per_tor`` hosts, with a link to both neighbours in each dimension.

    Hosts fill the first dimension first. Routes go the shorter way around in the first dimension, then in the second,
    and so on; of two ways of equal length a hash takes one. Two switches in a dimension have one link. All links are
    ``scale_out.uplink``.

    Attributes:
        sizes: Switches in each dimension, at most eight of these. A 0 is made as large as the hosts need, several 0
            about equal.
    """

    sizes: tuple[int, ...] = (0, 0)

    def __post_init__(self) -> None:
        if not 1 <= len(self.sizes) <= 8 or min(self.sizes) < 0:
            raise SpecError("sizes", self.sizes, "a torus has one to eight sizes, none below 0", "write [4,4], say")

    def build(self, cluster: ClusterSpec) -> Fabric:
        out = cluster.scale_out
        switch_of_port = [port.host // out.hosts_per_tor for port in ports(cluster)]
        grid = _Grid.of(self._filled(1 + switch_of_port[-1]))
        trunks = [Trunk(a, b, out.uplink) for a, b in grid.neighbours()]
        return wire(cluster, ScaleOut(grid.names(), trunks, switch_of_port, grid))

    def _filled(self, switches: int) -> tuple[int, ...]:
        """The sizes, with numbers for 0, of a torus with room for so many switches."""
        sizes = list(self.sizes)
        for left in range(sizes.count(0), 0, -1):
            known = prod(size for size in sizes if size)
            sizes[sizes.index(0)] = max(1, ceil(round((switches / known) ** (1 / left), 9)))
        if prod(sizes) < switches:
            problem = f"there is room for {prod(sizes)} switches, and the hosts need {switches}"
            raise SpecError("topology.sizes", self.sizes, problem, "write a 0 in the place of one")
        check_trunks(prod(sizes) * len(sizes), "sizes", self.sizes)
        return tuple(sizes)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The switches, and the paths between them.

    Attributes:
        sizes: Of each dimension.
        strides: Per dimension how far apart the numbers of neighbours are.
        first: Per dimension its first trunk. A switch has the one to the next switch; of two, only the first has it.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    first: tuple[int, ...]

    @classmethod
    def of(cls, sizes: tuple[int, ...]) -> _Grid:
        total = prod(sizes)
        counts = [{1: 0, 2: total // 2}.get(size, total) for size in sizes]
        strides = tuple(accumulate(sizes[:-1], mul, initial=1))
        return cls(sizes, strides, tuple(accumulate(counts[:-1], initial=0)))

    def names(self) -> list[str]:
        last_first = product(*(range(size) for size in reversed(self.sizes)))
        return [f"torus{'.'.join(map(str, place[::-1]))}" for place in last_first]

    def neighbours(self) -> Iterator[tuple[int, int]]:
        """The two ends of each trunk."""
        for size, stride in zip(self.sizes, self.strides, strict=True):
            for switch in range(prod(self.sizes)):
                place = switch // stride % size
                if size > 2 or (size == 2 and place == 0):
                    yield switch, switch + ((place + 1) % size - place) * stride

    def hashed(self, start: int, end: int, src: int, dst: int) -> Route:
        return self._path(start, end, [ecmp(src, dst, 2, hop) for hop in range(len(self.sizes))])

    def choices(self, start: int, end: int) -> int:
        return 1 << sum(self._ties(start, end))

    def chosen(self, start: int, end: int, choice: int) -> Route:
        backwards = []
        for tie in self._ties(start, end):
            backwards.append(choice % 2 if tie else 0)
            choice //= 2 if tie else 1
        return self._path(start, end, backwards)

    def _ties(self, start: int, end: int) -> list[bool]:
        """In which dimensions both ways around are equally long."""
        return [
            size > 2 and 2 * ((end // stride - start // stride) % size) == size
            for size, stride in zip(self.sizes, self.strides, strict=True)
        ]

    def _path(self, start: int, end: int, backwards: Sequence[int]) -> Route:
        """Dimension by dimension; where both ways are equally long, forwards or ``backwards``."""
        route = []
        for size, stride, first, tie_back in zip(self.sizes, self.strides, self.first, backwards, strict=True):
            place, steps = start // stride % size, (end // stride - start // stride) % size
            tie = place == 1 if size == 2 else tie_back == 1
            back = 2 * steps > size or (2 * steps == size and tie)
            for _ in range(min(steps, size - steps)):
                following = (place + (-1 if back else 1)) % size
                owner = start + ((following if back else place) - start // stride % size) * stride
                if size == 2:
                    owner = owner // (2 * stride) * stride + owner % stride
                route.append(2 * (first + owner) + back)
                place = following
            start += (place - start // stride % size) * stride
        return tuple(route)
