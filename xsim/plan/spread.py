"""Work that can be done in several ways, spread so that the busiest link has as little as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from xsim.fabric.fabric import Fabric

__all__ = ["link_times", "parts", "spread"]

_DIGITS = 9  # a share is rounded to so many: what the solver leaves beyond is noise


def link_times(sends: Iterable[tuple[int, int]], fabric: Fabric) -> dict[int, float]:
    """How long, relative to its bandwidth, each link is busy when each (src, dst) of ``sends`` sends one byte."""
    crossings = Counter(link for src, dst in sends for link in fabric.route(src, dst))
    return {link: count / float(fabric.bandwidth_bytes_per_s[link]) for link, count in crossings.items()}


def spread(tasks: Sequence[Sequence[Mapping[int, float]]]) -> list[tuple[float, ...]]:
    """Which share of each task is done in which of its ways, by linear programming (HiGHS).

    Args:
        tasks: Of each task, per way the time that doing all of it keeps each link busy; every task has a way.

    Returns:
        Shares per task, which sum to 1. The busiest link is busy for the shortest time that there is.
    """
    from scipy.optimize import linprog  # loads with the first plan that needs it
    from scipy.sparse import coo_array

    ways = [way for task in tasks for way in task]
    row_of = {link: row for row, link in enumerate(sorted({link for way in ways for link in way}))}
    if not row_of:
        return [(1.0, *[0.0] * (len(task) - 1)) for task in tasks]
    scale = max(time for way in ways for time in way.values())
    busy = [(time / scale, row_of[link], number) for number, way in enumerate(ways) for link, time in way.items()]
    busy += [(-1.0, row, len(ways)) for row in row_of.values()]  # no link longer than the last variable
    owners = (number for number, task in enumerate(tasks) for _ in task)
    whole = [(1.0, number, column) for column, number in enumerate(owners)]

    def matrix(cells: Sequence[tuple[float, int, int]], rows: int) -> object:
        values, row, column = zip(*cells, strict=True)
        return coo_array((values, (row, column)), shape=(rows, len(ways) + 1)).tocsr()

    found = linprog(
        [0.0] * len(ways) + [1.0],
        A_ub=matrix(busy, len(row_of)),
        b_ub=[0.0] * len(row_of),
        A_eq=matrix(whole, len(tasks)),
        b_eq=[1.0] * len(tasks),
        method="highs",
    )
    assert found.success, "every task has a way, so there is a best one"
    ends = tuple(accumulate((len(task) for task in tasks), initial=0))
    return [_shares(found.x[start:stop].tolist()) for start, stop in pairwise(ends)]


def _shares(values: Sequence[float]) -> tuple[float, ...]:
    rounded = [max(0.0, round(value, _DIGITS)) for value in values]
    return tuple(value / sum(rounded) for value in rounded)


def parts(span: range, shares: Sequence[float]) -> tuple[range, ...]:
    """``span`` cut in proportion to ``shares``, at whole elements; some may be empty.

    >>> parts(range(10, 20), (0.5, 0.0, 0.5))
    (range(10, 15), range(15, 15), range(15, 20))
    """
    cuts = [span.start + int(end * len(span) + 0.5) for end in accumulate(shares, initial=0.0)]
    return tuple(range(*ends) for ends in pairwise((*cuts[:-1], span.stop)))
