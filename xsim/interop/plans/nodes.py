"""The keys of a plan as JSON, each read by itself, or refused (``xsim.interop.plans.interchange``)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xsim.errors import SpecError
from xsim.interop.plans.as_json import SWITCHES
from xsim.interop.plans.target import predicted, whole
from xsim.interop.plans.texts import digits, shown
from xsim.spec.deployment import LARGEST_SHARE

__all__ = [
    "HINT",
    "Node",
    "layers_said",
    "node_of",
    "pair_of",
    "predicted_said",
    "recompute_said",
    "shares_of",
    "truth",
]

Node = Mapping[str, object]

HINT = "docs/planning.md has the keys"
_PLAN = (
    *("model", "layers", "hidden", "seq", "gbs", "global_batch_size", "mbs", "batches", "name", "id", "source", "note"),
    *("predicted_s", "planner_estimate_s", "predicted_ms", "zero", "pipelines", "dp_groups", "cluster", "resources"),
    *(*SWITCHES, "bucket_bytes"),
    *("sailor_simulator_s", "search_wall_s", "cost_usd_per_iter", "top", "costed", "invalid_layer_partitions"),
    *("best_invalid_cost_ms", "cost_ms", "node_sequence", "device_groups", "strategies_dp_tp", "layer_partition"),
)
_SHORT = {"as": "softmax", "ad": "attention_dropout", "qkv": "qkv", "sco": "scores"}  # as ETH's table 3 calls them


def truth(found: object, path: str) -> bool:
    """True or false.

    Raises:
        SpecError: It is neither.
    """
    if not isinstance(found, bool):
        raise SpecError(path, found, "it is neither", "write true or false")
    return found


def shares_of(found: object, path: str) -> tuple[float, ...]:
    """Shares of states, none if nothing is said.

    Raises:
        SpecError: It is anything else.
    """
    if found is None:
        return ()
    numbers = (
        [each for each in found if type(each) in (int, float) and abs(each) < LARGEST_SHARE]
        if isinstance(found, list)
        else []
    )
    if not isinstance(found, list) or len(numbers) != len(found):
        raise SpecError(path, found, f"it is no list of numbers below {LARGEST_SHARE:.0e}", HINT)
    return tuple(map(float, numbers))


def layers_said(found: object, first_layer: int, path: str) -> tuple[object, dict[str, tuple[int, ...]]]:
    """What is said of a stage's ``recompute`` with numbers of layers alone, and in which layers where that is said.

    Args:
        first_layer: Our number of the one that the file counts as 0.

    Raises:
        SpecError: An entry of a list is no number.
    """
    if not isinstance(found, dict):
        return found, {}
    where: dict[str, tuple[int, ...]] = {}
    for name, layers in found.items():
        if isinstance(layers, list) and layers:
            own = sorted(first_layer + whole(each, path, 0) for each in layers)
            where[_SHORT.get(str(name).lower(), str(name))] = tuple(own)
    return {name: len(said) if isinstance(said, list) else said for name, said in found.items()}, where


def recompute_said(found: object, held: int, path: str) -> dict[str, int]:
    """Operators and in how many layers, of a stage of ``held`` of them.

    Raises:
        SpecError: It is anything else.
    """
    if found in (None, "none", [], {}):
        return {}
    if found in ("full", "selective"):
        return {str(found): held}
    if isinstance(found, dict):
        counted: dict[str, int] = {}
        for each, count in found.items():
            name = _SHORT.get(str(each).lower(), str(each))
            if name in counted:
                raise SpecError(path, each, f"it says {name} a second time", "say it once")
            counted[name] = whole(count, path)
        return counted
    if isinstance(found, list):
        named: dict[str, int] = {}
        for each in found:
            words = re.fullmatch(r"(?:(\d+) )?(\w+)", str(each))
            if not words:
                raise SpecError(path, each, "it is no operator with a number before it", HINT)
            named[_SHORT.get(words[2].lower(), words[2])] = digits(words[1] or "1", path)
        return named
    raise SpecError(path, found, "it is no operators and in how many layers", HINT)


def pair_of(value: object, path: str) -> tuple[int, int]:
    """From, and to which layer a stage does not hold them.

    Raises:
        SpecError: It is anything else.
    """
    if not isinstance(value, list) or len(value) != 2:
        raise SpecError(path, value, "it is no [from, to]", HINT)
    return whole(value[0], path, 0), whole(value[1], path, 0)


def node_of(found: object, path: str, keys: tuple[str, ...] = _PLAN) -> Node:
    """A mapping of these keys, by default those of a plan.

    Raises:
        SpecError: It is anything else.
    """
    if not isinstance(found, dict):
        raise SpecError(path, found, "it is no mapping", HINT)
    fix = HINT if keys is _PLAN else f"it has {', '.join(keys)}"
    for key in found:
        if key not in keys:
            raise SpecError(f"{path}.{shown(key)}", found[key], "there is no such key", fix)
    return found


def predicted_said(plan: Node, path: str) -> int | None:
    """What the tool predicts in picoseconds; None if it does not say.

    Raises:
        SpecError: It is anything else.
    """
    for key, unit in (("predicted_s", 1.0), ("planner_estimate_s", 1.0), ("predicted_ms", 1e-3)):
        said = plan.get(key)
        if found := predicted(said, unit):
            return found
        if said is not None:
            raise SpecError(f"{path}.{key}", said, "it is no time that an iteration can take", "correct it")
    return None
