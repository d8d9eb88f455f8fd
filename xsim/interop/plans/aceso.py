"""Plans of Aceso: its JSON files (https://github.com/microsoft/SuperScaler, branch Aceso).

Layers are counted by operator: one of the embedding, 13 of each layer (``xsim.interop.aceso.OPERATORS``), and two of
the head. Degrees, and what is recomputed, are said operator by operator; here a stage has one TP and one DP degree. Its
devices follow one another; a micro-batch is that of all copies of a stage.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise

from xsim.errors import SpecError
from xsim.interop.aceso import OPERATORS
from xsim.interop.plans.target import (
    OPERATORS_PER_LAYER,
    Imported,
    Target,
    batch_of,
    copies_on,
    imported,
    layers_between,
    parsed,
    recompute_of,
    rounds,
    whole,
)
from xsim.plan.sketch import Pipeline, Sketch, SketchStage

__all__ = ["aceso_plan"]

_FIX = "name a file that Aceso's search wrote"
_NAMES = tuple(OPERATORS.values())[1:-2]  # of a layer, in order


def aceso_plan(text: str, target: Target, path: str) -> Imported:
    """The plan in a text.

    Raises:
        SpecError: It is no such plan, or none of this model and cluster.
    """
    plan = parsed(text, path)
    if not isinstance(plan, dict) or "num_ops_in_each_stage" not in plan:
        raise SpecError(path, text[:40], "it has no num_ops_in_each_stage", _FIX)
    operators = [whole(each, f"{path}.num_ops_in_each_stage") for each in _listed(plan, "num_ops_in_each_stage", path)]
    devices = [whole(each, f"{path}.num_gpus") for each in _listed(plan, "num_gpus", path)]
    if len(devices) != len(operators):
        raise SpecError(f"{path}.num_gpus", devices, f"there are {len(operators)} stages", _FIX)
    notes: list[str] = []
    layers = layers_between([0, *accumulate(operators)], "operators", target, f"{path}.num_ops_in_each_stage", notes)
    micro_batch = whole(plan.get("micro_batch_size"), f"{path}.micro_batch_size")
    batch = batch_of(target, plan.get("global_batch_size"), f"{path}.global_batch_size")
    stages = []
    for number, (first, last) in enumerate(pairwise([0, *accumulate(devices)])):
        tp = _degree(plan, ("model_parallel_size_of_each_op", "tensor_parallel_size_of_each_op"), number, path)
        dp = _degree(plan, ("data_parallel_size_of_each_op",), number, path)
        if tp * dp != last - first:
            raise SpecError(f"{path}.num_gpus[{number}]", last - first, f"tp {tp} x dp {dp} are not as many", _FIX)
        copies = copies_on(range(first, last), tp, target, f"{path}.num_gpus[{number}]")
        again = _recomputed(plan, number, sum(operators[:number]), target.scenario.model.layers, path)
        held = len(range(max(layers[number].start, 1), min(layers[number].stop, target.scenario.model.layers + 1)))
        capped = {name: min(count, held) for name, count in again.items()}
        stages.append(SketchStage(layers[number], copies, recompute_of(capped, target, notes)))
    pipeline = Pipeline(tuple(stages), micro_batch, rounds(batch, micro_batch, notes))
    return imported(Sketch((pipeline,), "aceso", "Aceso"), target, notes)


def _listed(plan: dict[str, object], key: str, path: str) -> list[object]:
    found = plan.get(key)
    if not isinstance(found, list) or not found:
        raise SpecError(f"{path}.{key}", found, "it is no list", _FIX)
    return found


def _degree(plan: dict[str, object], keys: tuple[str, ...], stage: int, path: str) -> int:
    key = next((each for each in keys if each in plan), keys[0])
    found = _listed(plan, key, path)
    own = found[stage] if stage < len(found) else None
    where = f"{path}.{key}[{stage}]"
    degrees = {whole(each, where) for each in (own if isinstance(own, list) else [own])}
    if len(degrees) != 1:
        problem = "operators of a stage are cut into unlike numbers of parts, and here a stage is cut one way"
        raise SpecError(where, sorted(degrees), problem, "choose another plan of Aceso's")
    return degrees.pop()


def _recomputed(plan: dict[str, object], stage: int, before: int, layers: int, path: str) -> Counter[str]:
    """In how many layers of the stage each of its operators is recomputed."""
    flags = plan.get("recompute_ops")
    own = flags[stage] if isinstance(flags, list) and stage < len(flags) else []
    if not isinstance(own, list):
        raise SpecError(f"{path}.recompute_ops[{stage}]", own, "it is no list", _FIX)
    found: Counter[str] = Counter()
    for position, flag in enumerate(own, before):
        if flag and 1 <= position <= OPERATORS_PER_LAYER * layers:
            found[_NAMES[(position - 1) % OPERATORS_PER_LAYER]] += 1
    return found
