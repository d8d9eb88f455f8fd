"""Plans of Metis: the list that its search prints, the cheapest first (https://github.com/SamsungLabs/Metis).

A line has the cost in ms, the order in which types are dealt out, and of each stage how many devices it has and their
(dp, tp), then how many micro-batches there are and where layers are cut, embedding and head counted. What a stage takes
of a micro-batch is its dp-th part. How a stage of unlike devices shares that out it does not say: here equally.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from xsim.errors import SpecError
from xsim.interop.plans.target import (
    Imported,
    Target,
    batch_of,
    imported,
    kind_of,
    kinds_in_turn,
    layers_between,
    literal,
    predicted,
    rounds,
    whole,
)
from xsim.interop.plans.texts import digits
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage
from xsim.spec.cluster import rank_kinds

__all__ = ["metis_plan", "metis_values"]

KEYS = ("cost_ms", "node_sequence", "device_groups", "strategies_dp_tp", "batches", "layer_partition")


def metis_plan(text: str, target: Target, path: str) -> Imported:
    """The line ``target.which`` of the list, by its rank.

    Raises:
        SpecError: There is no such line, or its plan is none of this model and cluster.
    """
    lines = [line for line in text.splitlines() if re.match(r"\s*\d+, *[\d.]+, *\(", line)]
    if not lines:
        raise SpecError(path, text[:40], "it has no line of a plan", "name what Metis's search printed")
    line = next((each for each in lines if each.split(",")[0].strip() == target.which), None)
    if line is None:
        raise SpecError("which", target.which, f"it lists {len(lines)} plans", f"write 1 to {len(lines)}")
    try:
        bare = re.sub(r"<DeviceType[.](\w+)[^>]*>", r"'\1'", line)
        found = literal(f"[{bare}]")
    except ValueError:
        raise SpecError(path, line[:80], "it cannot be read", "name what Metis's search printed") from None
    if len(found) != 1 + len(KEYS):
        raise SpecError(path, line[:80], f"a plan has {1 + len(KEYS)} columns", "name what Metis's search printed")
    said = re.search(r"--gbs\D+(\d+)", text)
    values = dict(zip(KEYS, found[1:], strict=True)) | {"gbs": digits(said[1], f"{path}.gbs") if said else None}
    return metis_values(values, target, f"{path}[{target.which}]")


def metis_values(values: Mapping[str, object], target: Target, path: str) -> Imported:
    """The plan that the columns of a line say, by their names (``KEYS``), and ``gbs``.

    Raises:
        SpecError: As ``metis_plan``.
    """
    notes: list[str] = []
    sizes = _numbers(values, "device_groups", path)
    cuts = _numbers(values, "layer_partition", path, least=0)
    degrees = _pairs(values, path)
    if not len(sizes) == len(degrees) == len(cuts) - 1:
        problem = f"{len(sizes)} groups, {len(degrees)} strategies and {len(cuts)} cuts are not of as many stages"
        raise SpecError(path, len(sizes), problem, "name what Metis's search printed")
    layers = layers_between(cuts, "ends", target, f"{path}.layer_partition", notes)
    dealt = kinds_in_turn(sizes, _kinds(values.get("node_sequence"), sum(sizes), target, path))
    batch = batch_of(target, values.get("gbs"), f"{path}.gbs")
    count = whole(values.get("batches"), f"{path}.batches")
    widest = math.lcm(*(dp for dp, _ in degrees))
    micro_batch = widest * -(-batch // (count * widest))
    micro_batches = rounds(batch, micro_batch, notes)
    stages = tuple(
        SketchStage(part, _copies(kinds, dp, tp, f"{path}.strategies_dp_tp[{number}]", notes))
        for number, (part, kinds, (dp, tp)) in enumerate(zip(layers, dealt, degrees, strict=True))
    )
    cost = values.get("cost_ms")
    sketch = Sketch((Pipeline(stages, micro_batch, micro_batches),), "metis", "Metis", predicted(cost, 1e-3))
    return imported(sketch, target, notes)


def _numbers(values: Mapping[str, object], key: str, path: str, least: int = 1) -> list[int]:
    found = values.get(key)
    if not isinstance(found, list | tuple) or not found:
        raise SpecError(f"{path}.{key}", found, "it is no list of numbers", "name what Metis's search printed")
    return [whole(each, f"{path}.{key}", least) for each in found]


def _pairs(values: Mapping[str, object], path: str) -> list[tuple[int, int]]:
    found = values.get("strategies_dp_tp")
    where = f"{path}.strategies_dp_tp"
    if not isinstance(found, list | tuple) or not all(isinstance(e, list | tuple) and len(e) == 2 for e in found):
        raise SpecError(where, found, "it is no list of (dp, tp)", "name what Metis's search printed")
    return [(whole(dp, where), whole(tp, where)) for dp, tp in found]


def _kinds(sequence: object, used: int, target: Target, path: str) -> list[tuple[str, int]]:
    """Kinds in the order in which they are dealt out, and how many of each there are."""
    if not isinstance(sequence, list | tuple) or not sequence:
        raise SpecError(f"{path}.node_sequence", sequence, "it names no types", "name what Metis's search printed")
    kinds = [kind_of(target, each, f"{path}.node_sequence") for each in sequence]
    has = Counter(rank_kinds(target.scenario.cluster))
    total = sum(has[kind] for kind in kinds)
    if total != used and (len(kinds) > 1 or total < used):
        problem = f"its stages have {used} devices, and the cluster has {total} {' and '.join(kinds)}"
        raise SpecError(f"{path}.device_groups", used, problem, "choose the cluster that was planned for")
    return [(kind, has[kind]) for kind in kinds]


def _copies(kinds: Sequence[tuple[str, int]], dp: int, tp: int, path: str, notes: list[str]) -> tuple[Copies, ...]:
    if sum(count for _, count in kinds) != dp * tp:
        raise SpecError(path, (dp, tp), f"its stage has {sum(count for _, count in kinds)} devices", "make them equal")
    unlike = [kind for kind, count in kinds if count % tp]
    if unlike:
        names = " and ".join(kind for kind, _ in kinds)
        raise SpecError(path, (dp, tp), f"a copy would be cut over {names}", "choose another plan of the list")
    if len(kinds) > 1:
        notes.append("a stage of unlike devices shares out micro-batches equally: the list does not say how")
    return tuple(Copies(kind, tp, count // tp) for kind, count in kinds)
