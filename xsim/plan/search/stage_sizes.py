"""How many devices each stage of a pipeline has, as Metis tries them (https://www.usenix.org/conference/atc24/presentation/um).

Sizes are powers of two, none smaller than some part of the even share. All orders would be too many: equal small groups
are tied together until few enough blocks are left to permute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

__all__ = ["power_of_two_sizes", "stage_sizes", "tied_blocks"]


def power_of_two_sizes(devices: int, stages: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    """All multisets of ``stages`` powers of two, each ``least`` or more, that sum to ``devices``, ascending."""
    if stages == 0:
        if devices == 0:
            yield ()
        return
    size = 1
    while size * stages <= devices:
        if size >= least:
            for rest in power_of_two_sizes(devices - size, stages - 1, size):
                yield (size, *rest)
        size *= 2


def tied_blocks(sizes: tuple[int, ...], most: int) -> tuple[tuple[int, ...], ...]:
    """``sizes`` in at most ``most`` blocks whose order may change: the smallest equal ones are tied in pairs.

    >>> tied_blocks((1, 1, 1, 1, 4), 3)
    ((4,), (1, 1), (1, 1))
    """
    blocks: list[tuple[int, ...]] = [(size,) for size in sizes]
    while len(blocks) > most:
        blocks.sort(key=sum)
        smallest = [block for block in blocks if sum(block) == sum(blocks[0])]
        others = blocks[len(smallest) :]
        if len(smallest) == 1:
            blocks = [smallest[0] + others[0], *others[1:]]
        else:
            pairs = [a + b for a, b in zip(smallest[::2], smallest[1::2], strict=False)]
            blocks = [*others, *smallest[2 * len(pairs) :], *pairs]
    return tuple(blocks)


def stage_sizes(devices: int, stages: int, variance: float, most_blocks: int) -> tuple[tuple[int, ...], ...]:
    """Sizes of the stages in every order that is tried, each once, in a fixed order.

    Args:
        variance: How small a stage may be, over the even share ``devices // stages``.
        most_blocks: How many blocks are permuted.
    """
    least = max(1, math.ceil(variance * (devices // stages)))
    found: dict[tuple[int, ...], None] = {}
    for sizes in power_of_two_sizes(devices, stages, least):
        for order in permutations(tied_blocks(sizes, most_blocks)):
            found.setdefault(tuple(size for block in order for size in block))
    return tuple(found)
