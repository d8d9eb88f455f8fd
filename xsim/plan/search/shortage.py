"""What is missing where no plan fits: every planner says it alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from xsim.errors import NoPlanError
from xsim.plan.optimizer import optimizer_state_bytes
from xsim.plan.search.shapes import Lists
from xsim.spec.cluster import DeviceSpec
from xsim.spec.scenario import Scenario

__all__ = ["Shortage", "nothing_fits", "nothing_holds", "state_bytes"]

LEAST_BYTES = 10_000_000  # less is not said


@dataclass(slots=True)
class Shortage:
    """The least that a plan lacked of all that were tried and did not fit.

    Attributes:
        lacks_bytes: Of its fullest device, or of all if ``kind`` is empty; None while nothing lacked memory.
        kind: Name of that device.
    """

    lacks_bytes: int | None = None
    kind: str = ""

    def note(self, kind: str, lacks_bytes: int) -> None:
        """Another plan lacks so much on a device of ``kind``."""
        if self.lacks_bytes is None or lacks_bytes < self.lacks_bytes:
            self.lacks_bytes, self.kind = lacks_bytes, kind


def nothing_fits(planner: str, scenario: Scenario, devices: Sequence[DeviceSpec], shortage: Shortage) -> NoPlanError:
    """Why a search came back without a plan: the memory that is missing, or else that no shape suits the batch.

    A search may have given up at one stage of a plan: if all devices together have less than one copy of the states
    takes, it is that which is missing.
    """
    has = sum(device.memory_bytes for device in devices)
    states = scenario.model.parameters * state_bytes(scenario, scenario.dtype_bytes)
    missing = ceil(states / (1 - scenario.fragmentation)) - has
    if missing > (shortage.lacks_bytes or 0):
        shortage = Shortage(missing)
    if shortage.lacks_bytes is None:
        batch = scenario.batch
        problem = f"no plan that {planner} can make shares it out to {len(devices)} devices"
        return NoPlanError("batch", batch, problem, "choose one with more divisors, or another planner")
    where = f"on a {shortage.kind}" if shortage.kind else "in all"
    problem = (
        f"no plan that {planner} can make fits the {has / 1e9:.1f} GB of {len(devices)} devices: "
        f"the nearest lacks {max(shortage.lacks_bytes, LEAST_BYTES) / 1e9:.2f} GB {where}"
    )
    return NoPlanError("planner", planner, problem, "add devices or memory, or choose a smaller model or batch")


def state_bytes(scenario: Scenario, weight_bytes: int) -> int:
    """Of a parameter whose weight takes ``weight_bytes``: with its gradient and what the optimizer keeps of it."""
    kept = optimizer_state_bytes(scenario.optimizer, scenario.precision)
    return weight_bytes + scenario.gradient_dtype_bytes + kept


def nothing_holds(scenario: Scenario, lists: Lists) -> Shortage:
    """What the nearest of ``lists`` lacks, all of which hold too few layers: a layer in a stage, or states in all."""
    if not lists.orders:
        return Shortage()
    used = lists.rows >= 0
    held = np.where(used, lists.columns.most_layers()[lists.rows], 0)
    whole = np.where(((held > 0) == used).all(axis=1), held.sum(axis=1), 0)
    if not whole.any():
        lacking = np.where(used, np.array([row.lacking for row in lists.columns.rows])[lists.rows], 0)
        order = int(lacking.max(axis=1).argmin())
        stage = int(lacking[order].argmax())
        return Shortage(int(lacking[order, stage]), lists.orders[order].seats[stage].kind)
    model = scenario.model
    state = state_bytes(scenario, scenario.weight_bytes)
    missing = model.layers - int(min(model.layers - 1, whole.max()))
    return Shortage(round(missing * model.layer_parameters(1) * state))
