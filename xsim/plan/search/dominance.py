"""Whether one set of devices can do whatever another can (ETH, https://arxiv.org/abs/2610.22035, section 5.2)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from xsim.plan.search.groupings import Composition

__all__ = ["dominates"]


def dominates(larger: Composition, smaller: Composition, memory_bytes: Sequence[int], speeds: Sequence[float]) -> bool:
    """Whether each device of ``smaller`` has one of its own in ``larger`` with no less memory and no less compute.

    The paper asks for more of both, which no two devices of one type have, and finds the matching with the Hungarian
    algorithm. Here types are taken in order of memory, largest first, and each of their devices is given the weakest
    of those still free that is strong enough: in two criteria that is a largest matching.
    """
    if sum(smaller) > sum(larger):
        return False
    order = sorted(range(len(memory_bytes)), key=lambda kind: memory_bytes[kind], reverse=True)
    free: list[float] = []
    waiting = iter(order)
    offered = next(waiting, None)
    for kind in order:
        while offered is not None and memory_bytes[offered] >= memory_bytes[kind]:
            for _ in range(larger[offered]):
                insort(free, speeds[offered])
            offered = next(waiting, None)
        for _ in range(smaller[kind]):
            at = bisect_left(free, speeds[kind])
            if at == len(free):
                return False
            free.pop(at)
    return True
