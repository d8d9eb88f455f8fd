"""The course of a plan in plain Python: each action asks when what it waits for has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xsim.plan.workload import Action

__all__ = ["after_ps", "ends_ps"]

Place = tuple[int, int]  # pipeline and stage


def ends_ps(
    orders: Sequence[Sequence[Action]],
    forward: Sequence[int],
    backward: Sequence[int],
    onward: Sequence[int],
    back: Sequence[int],
) -> list[int]:
    """When each stage of a pipeline has ended its actions.

    Args:
        orders: Of each stage, forward and backward passes alone.
        onward, back: What arrives at each stage takes from the one before, and from the one after.
    """
    at = {
        (s, action.kind == "F", action.micro_batch): i for s, own in enumerate(orders) for i, action in enumerate(own)
    }

    @cache
    def end(stage: int, index: int) -> int:
        if index < 0:
            return 0
        action = orders[stage][index]
        going = action.kind == "F"
        neighbour, takes = (stage - 1, onward[stage]) if going else (stage + 1, back[stage])
        arrived = 0
        if 0 <= neighbour < len(orders):
            arrived = end(neighbour, at[neighbour, going, action.micro_batch]) + takes
        return max(end(stage, index - 1), arrived) + (forward if going else backward)[stage]

    return [end(stage, len(own) - 1) for stage, own in enumerate(orders)]


def after_ps(
    ends: Mapping[Place, int], sums: Sequence[tuple[tuple[Place, ...], int]], updates: Mapping[Place, int]
) -> int:
    """When the last stage has updated its weights, once the sums that it has part in are done, one at a time.

    What is ready first is summed first; of what is ready at once the longest.
    """
    free, left = dict(ends), list(sums)
    while left:
        chosen = min(left, key=lambda each: (max(ends[place] for place in each[0]), -each[1], each[0]))
        left.remove(chosen)
        places, takes = chosen
        end = max(free[place] for place in places) + takes
        for place in places:
            free[place] = end
    return max(end + updates[place] for place, end in free.items())
