"""What each rank must hold at its fullest, whether it fits, and as its actions follow one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xsim.plan.load import Held, Load, RankMemory, activations, loads, rank_memory
from xsim.plan.remedies import advice
from xsim.plan.route import Order
from xsim.plan.workload import Action
from xsim.spec.cluster import DeviceSpec, rank_devices
from xsim.spec.deployment import DeploymentPlan, Replica
from xsim.spec.scenario import Scenario

__all__ = ["Load", "RankMemory", "Verdict", "deployment_memory", "memory_curves", "rank_memory", "shortfall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a deployment fits the memory of its devices.

    Attributes:
        needs: (rank, its need), in rank order.
        rank: The one that lacks most; if all fit, the one with the fewest bytes to spare.
        shortfall_bytes: What it lacks; 0 if all fit.
        utilisation: The largest need over what its device has.
        text: One sentence: who, how much, and what would help at the least cost.
    """

    needs: tuple[tuple[int, RankMemory], ...]
    rank: int
    shortfall_bytes: int
    utilisation: float
    text: str

    @property
    def fits(self) -> bool:
        """Whether every rank's need fits its device."""
        return self.shortfall_bytes == 0


def deployment_memory(scenario: Scenario, plan: DeploymentPlan, order: Order) -> Verdict:
    """The peak need of every rank of ``plan``, which has its ends, and whether it fits.

    Args:
        order: A schedule's order of actions, by (stage, stages, micro-batches, chunks).
    """
    devices = rank_devices(scenario.cluster)
    needs, places = _needs(scenario, plan, order)
    rank = _fullest(needs, devices)
    need, has = needs[rank].total_bytes, devices[rank].memory_bytes
    if need <= has:
        text = f"all ranks fit; rank {rank} has the fewest bytes to spare: it needs {_gb(need)} of {_gb(has)}"
    else:
        who = f"rank {rank} ({devices[rank].name}, deployment.{places[rank].path})"
        lacks = f"needs {_gb(need)} and has {_gb(has)}, {_gb(need - has)} too little"
        text = f"{who} {lacks}; {advice(scenario, plan, order, places[rank], rank)}"
    return Verdict(
        needs=tuple(sorted(needs.items())),
        rank=rank,
        shortfall_bytes=max(0, need - has),
        utilisation=max(need.total_bytes / devices[rank].memory_bytes for rank, need in needs.items()),
        text=text,
    )


def shortfall(scenario: Scenario, plan: DeploymentPlan, order: Order) -> tuple[int, int]:
    """(The rank that lacks most, the bytes it lacks; 0 if all fit): ``deployment_memory`` without its advice.

    The actions of all micro-batches are not looked at if so many more of a few of them change nothing.
    """
    devices = rank_devices(scenario.cluster)
    few, more = (_shortened(plan, rounds) for rounds in (2, 3))
    needs, _ = _needs(scenario, few, order)
    if few != plan and needs != _needs(scenario, more, order)[0]:
        needs, _ = _needs(scenario, plan, order)
    rank = _fullest(needs, devices)
    return rank, max(0, needs[rank].total_bytes - devices[rank].memory_bytes)


def _shortened(plan: DeploymentPlan, rounds: int) -> DeploymentPlan:
    """With so many rounds of twice as many micro-batches as stages, and what is no whole round, at most."""
    return replace(plan, replicas=tuple(replace(own, micro_batches=_few(own, rounds)) for own in plan.replicas))


def _few(replica: Replica, rounds: int) -> int:
    whole = 2 * len(replica.stages)
    return min(replica.micro_batches, rounds * whole + replica.micro_batches % whole)


def _needs(scenario: Scenario, plan: DeploymentPlan, order: Order) -> tuple[dict[int, RankMemory], dict[int, Held]]:
    """Of each rank its need, and its place in the plan."""
    needs: dict[int, RankMemory] = {}
    places: dict[int, Held] = {}
    known: dict[tuple[object, ...], list[RankMemory]] = {}
    for held in loads(scenario, plan, order):
        if held.key not in known:
            known[held.key] = [rank_memory(scenario, held.load, index) for index in range(held.load.tp)]
        needs.update(zip(held.ranks, known[held.key], strict=True))
        places.update(dict.fromkeys(held.ranks, held))
    return needs, places


def _fullest(needs: Mapping[int, RankMemory], devices: Sequence[DeviceSpec]) -> int:
    """The rank that lacks most, or has the fewest bytes to spare; of equals the first."""
    return max(needs, key=lambda rank: (needs[rank].total_bytes - devices[rank].memory_bytes, -rank))


def memory_curves(scenario: Scenario, plan: DeploymentPlan, order: Order) -> dict[int, dict[Action, tuple[int, int]]]:
    """Of every rank and each of its actions, the bytes of activations that are kept at most during it, and after it."""
    curves: dict[int, dict[Action, tuple[int, int]]] = {}
    known: dict[tuple[object, ...], list[dict[Action, tuple[int, int]]]] = {}
    for held in loads(scenario, plan, order):
        load = held.load
        if held.key not in known:
            kept = [activations(scenario, load, index) for index in range(load.tp)]
            known[held.key] = [dict(zip(load.actions, each.curve(load.actions), strict=True)) for each in kept]
        curves.update(zip(held.ranks, known[held.key], strict=True))
    return curves


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2f} GB"
