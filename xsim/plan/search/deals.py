"""Ways to deal devices of several kinds to pipelines that are alike in size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise, product

__all__ = ["Deal", "deals"]

Deal = tuple[tuple[int, ...], ...]  # of each part how many it gets of each kind, parts in descending order


def deals(counts: tuple[int, ...], parts: int, limit: int) -> Iterator[Deal]:
    """``counts`` of each kind dealt to ``parts`` whose sizes differ from the even share by one at most, each way once.

    The two plainest come first, kinds kept apart and kinds mixed evenly (whatever sizes that makes); of the others at
    most ``limit`` in all are found, in descending order.
    """
    size = sum(counts) // parts
    known: dict[Deal, None] = {}
    for deal in (_apart(counts, parts), _mixed(counts, parts)):
        if all(map(any, deal)):
            known.setdefault(deal)
    sizes = range(max(1, size - 1), size + 2)
    for deal in islice(_descending(counts, parts, sizes, counts), limit):
        known.setdefault(deal)
    yield from islice(known, limit)


def _apart(counts: tuple[int, ...], parts: int) -> Deal:
    each = [kind for kind, count in enumerate(counts) for _ in range(count)]
    cuts = [part * len(each) // parts for part in range(parts + 1)]
    dealt = (each[a:b] for a, b in pairwise(cuts))
    return _sorted([tuple(own.count(kind) for kind in range(len(counts))) for own in dealt])


def _mixed(counts: tuple[int, ...], parts: int) -> Deal:
    rows = [[(part + 1) * count // parts - part * count // parts for part in range(parts)] for count in counts]
    return _sorted(list(zip(*(row if kind % 2 else row[::-1] for kind, row in enumerate(rows)), strict=True)))


def _sorted(dealt: list[tuple[int, ...]]) -> Deal:
    return tuple(sorted(dealt, reverse=True))


def _descending(left: tuple[int, ...], parts: int, sizes: range, most: tuple[int, ...]) -> Iterator[Deal]:
    """Deals whose parts are at most ``most``, which is that before, and do not ascend."""
    if parts == 0:
        if not any(left):
            yield ()
        return
    if not sizes.start * parts <= sum(left) <= (sizes.stop - 1) * parts:
        return
    for own in product(*(range(count, -1, -1) for count in left)):
        if own <= most and sum(own) in sizes and own[0] * parts >= left[0]:
            rest = tuple(count - taken for count, taken in zip(left, own, strict=True))
            for deal in _descending(rest, parts - 1, sizes, own):
                yield (own, *deal)
