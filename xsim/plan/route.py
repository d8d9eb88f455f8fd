"""Which way micro-batches go through a pipeline: from its first stage to its last, or half of them in each direction.

A bidirectional schedule says of itself that it is one by its actions: to the chunks that a stage has of its own it adds
as many, those of the *mirrored* stage (stage ``p - 1 - s`` for stage s of p), whose layers the groups of the stage then
hold too. Micro-batches of the first half enter at stage 0 and pass the own chunks, those of the second half enter at
stage ``p - 1`` and pass the mirrored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from xsim.errors import PlanError, SpecError
from xsim.plan.workload import Action
from xsim.spec.deployment import DeploymentPlan, Stage

__all__ = ["Order", "Route", "by_direction", "directions", "routes", "scheduled"]

Order = Callable[[int, int, int, int], tuple[Action, ...]]
Route = tuple[tuple[int, int], ...]


def directions(order: Iterable[Action], chunks: int) -> int:
    """2 if ``order`` has actions of mirrored chunks, besides the ``chunks`` of the stage itself; else 1."""
    return 1 + any(action.chunk >= chunks for action in order)


def routes(stages: int, chunks: int, directions: int) -> tuple[Route, ...]:
    """Of each direction the (stage, chunk) that its micro-batches pass, in the order of their forwards.

    Raises:
        PlanError: Two directions and an odd number of stages: the one in the middle would mirror itself.
    """
    if directions > 1 and stages % 2:
        raise PlanError(f"a bidirectional schedule of {stages} stages: the one in the middle has no other to mirror")
    onward = tuple((stage, chunk) for chunk in range(chunks) for stage in range(stages))
    mirrored = tuple((stages - 1 - stage, chunks + chunk) for stage, chunk in onward)
    return (onward, mirrored)[:directions]


def by_direction(micro_batches: int, directions: int) -> tuple[range, ...]:
    """Which micro-batches go in each direction."""
    first = micro_batches // directions
    return (range(first), range(first, micro_batches))[:directions]


def scheduled(plan: DeploymentPlan, order: Order) -> Iterator[tuple[int, int, Stage, tuple[Action, ...]]]:
    """(replica, stage, what its groups hold, what they do) of every stage of ``plan``.

    Args:
        order: A schedule's order of actions, by (stage, stages, micro-batches, chunks).

    Raises:
        SpecError: The schedule does not serve a pipeline of this shape, or goes both ways with sharded weights.
    """
    orders: dict[tuple[int, int, int, int], tuple[tuple[Action, ...], int]] = {}
    for r, replica in enumerate(plan.replicas):
        for s, stage in enumerate(replica.stages):
            at = (s, len(replica.stages), replica.micro_batches, len(stage.layers))
            if at not in orders:
                try:
                    actions = order(*at)
                except SpecError as refusal:
                    raise _as_written(refusal, f"replicas[{r}]", s, stage) from None
                orders[at] = (actions, directions(actions, len(stage.layers)))
            actions, ways = orders[at]
            if ways > 1 and plan.zero >= 3:
                problem = "stages that mirror each other hold the same layers and need their weights at unlike times"
                fix = "write zero: 2, or choose a schedule of one direction"
                raise SpecError("deployment.zero", plan.zero, problem, fix)
            mirrored = replica.stages[-1 - s].layers if ways > 1 else ()
            yield r, s, replace(stage, layers=(*stage.layers, *mirrored)), actions


def _as_written(refusal: SpecError, replica: str, number: int, stage: Stage) -> SpecError:
    """A schedule's refusal in the words of the deployment, which has ranges of layers for chunks."""
    if refusal.field != "chunks":
        return refusal.under(f"deployment.{replica}")
    path = f"deployment.{replica}.stages[{number}].layers"
    return SpecError(path, list(stage.layers), refusal.problem, refusal.fix)
