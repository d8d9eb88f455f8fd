"""Plans of HexiScale, also called FlashFlex (https://github.com/Relaxed-System-Lab/FlashFlex).

Two spellings are read: the arguments of its training program, as words or as the JSON of ``all_hetero_configs``
(``hetero_configs``: the TP degree of each stage of each pipeline, ``layer_partitions``: how many layers it has,
``global_bsz_size`` and ``chunks``: samples and micro-batches of each pipeline, ``pp_layouts``: its ranks), and what its
scheduler prints with ``--verbose``. Embedding and head are not counted. A pipeline without samples of its own has those
of the last that has; the scheduler gives all as many.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xsim.errors import SpecError
from xsim.interop.plans.arguments import arguments, listed
from xsim.interop.plans.target import (
    Imported,
    Target,
    batch_of,
    check_ranks,
    copies_on,
    imported,
    kind_of,
    layers_between,
    parsed,
    predicted,
    rounds,
    whole,
)
from xsim.interop.plans.texts import digits
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage

__all__ = ["hexiscale_plan"]

_FIX = "name arguments or a log of HexiScale"
_KEYS = ("hetero_configs", "layer_partitions", "pp_layouts", "global_bsz_size", "chunks")


def hexiscale_plan(text: str, target: Target, path: str) -> Imported:
    """The plan in a text.

    Raises:
        SpecError: It is no such plan, or none of this model and cluster.
    """
    if "layer partitions:" in text:
        return _of_log(text, target, path)
    if text.lstrip().startswith("{"):
        plan = parsed(text, path)
        if not isinstance(plan, dict):
            raise SpecError(path, plan, "it is no mapping", _FIX)
    else:
        words = arguments(text, path)
        plan = {
            key: listed(" ".join(words[key.replace("_", "-")]), f"{path}.{key}")
            for key in _KEYS[:3]
            if words.get(key.replace("_", "-"))
        }
        plan |= {
            key: [digits(word, f"{path}.{key}") if word.isdecimal() else word for word in words[key.replace("_", "-")]]
            for key in _KEYS[3:]
            if words.get(key.replace("_", "-"))
        }
    return _of_arguments(plan, target, path)


def _of_arguments(plan: dict[str, object], target: Target, path: str) -> Imported:
    notes: list[str] = []
    degrees = _lists(plan.get("hetero_configs"), f"{path}.hetero_configs")
    parts = _lists(plan.get("layer_partitions"), f"{path}.layer_partitions")
    if [len(each) for each in parts] != [len(each) for each in degrees]:
        raise SpecError(f"{path}.layer_partitions", parts, "it has other stages than hetero_configs", _FIX)
    check_ranks(sum(map(sum, degrees)), target, f"{path}.hetero_configs")
    layouts = plan.get("pp_layouts") or _in_turn(degrees)
    samples = _padded(plan.get("global_bsz_size"), len(degrees), f"{path}.global_bsz_size")
    chunks = _padded(plan.get("chunks"), len(degrees), f"{path}.chunks") or [1] * len(degrees)
    if not samples:
        batch = batch_of(target, None, path)
        samples = [rounds(batch, len(degrees), notes, "rounds")] * len(degrees)
    elif target.batch not in (None, sum(samples)):
        problem = f"the pipelines of the plan train {sum(samples)} samples"
        raise SpecError("batch", target.batch, problem, "leave it out, or correct the plan")
    pipelines = []
    for number, (tps, counts) in enumerate(zip(degrees, parts, strict=True)):
        where = f"{path}.hetero_configs[{number}]"
        layers = _layers(counts, target, f"{path}.layer_partitions[{number}]", notes)
        ranks = _ranks(layouts, number, tps, f"{path}.pp_layouts")
        stages = tuple(
            SketchStage(part, copies_on(own, tp, target, where))
            for part, own, tp in zip(layers, ranks, tps, strict=True)
        )
        micro_batch = -(-samples[number] // chunks[number])
        pipelines.append(Pipeline(stages, micro_batch, rounds(samples[number], micro_batch, notes)))
    return imported(Sketch(tuple(pipelines), "hexiscale", "HexiScale"), target, notes)


def _of_log(text: str, target: Target, path: str) -> Imported:
    notes: list[str] = []
    named = re.findall(r"- devices name: (\[.*\])", text)
    parts = re.findall(r"- layer partitions: (\[.*\])", text)
    if not named or len(named) != len(parts):
        raise SpecError(path, text[:40], "it does not name the devices of every pipeline", "run it with --verbose")
    shaped = []
    for number, (names, counts) in enumerate(zip(named, parts, strict=True)):
        where = f"{path}[pipeline {number}]"
        held = parsed(counts, where)
        own = parsed(names, where)
        if not isinstance(held, list) or not isinstance(own, list) or len(held) != len(own):
            raise SpecError(where, counts, "it has not as many partitions as stages", _FIX)
        layers = _layers([whole(each, where) for each in held], target, where, notes)
        copies = [_one_copy(stage, target, where) for stage in own]
        shaped.append(tuple(SketchStage(part, (own,)) for part, own in zip(layers, copies, strict=True)))
    count = rounds(batch_of(target, None, path), target.micro_batch * len(shaped), notes, "rounds")
    time = re.search(r"Optimal time: (\d+(?:\.\d+)?)", text)
    pipelines = tuple(Pipeline(stages, target.micro_batch, count) for stages in shaped)
    predicted_ps = predicted(float(time[1])) if time else None
    return imported(Sketch(pipelines, "hexiscale", "HexiScale", predicted_ps), target, notes)


def _one_copy(stage: object, target: Target, path: str) -> Copies:
    if not isinstance(stage, list) or not stage or len(set(map(str, stage))) != 1:
        raise SpecError(path, stage, "a stage has devices of one kind", "choose another plan")
    return Copies(kind_of(target, stage[0], path), len(stage))


def _layers(counts: Sequence[int], target: Target, path: str, notes: list[str]) -> tuple[range, ...]:
    cuts = [sum(counts[:end]) for end in range(len(counts) + 1)]
    return layers_between(cuts, "transformer", target, path, notes)


def _lists(value: object, path: str) -> list[list[int]]:
    if not isinstance(value, list) or not value or not all(isinstance(each, list) and each for each in value):
        raise SpecError(path, value, "it is no list of a list for each pipeline", _FIX)
    return [[whole(each, path) for each in own] for own in value]


def _padded(value: object, count: int, path: str) -> list[int]:
    """A number for each pipeline; those that are missing are the last."""
    if value is None:
        return []
    found = [whole(each, path) for each in (value if isinstance(value, list) else [value])]
    return [*found, *[found[-1]] * count][:count] if found else []


def _in_turn(degrees: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    free = iter(range(sum(map(sum, degrees))))
    return [[[next(free) for _ in range(tp)] for tp in tps] for tps in degrees]


def _ranks(layouts: object, number: int, tps: Sequence[int], path: str) -> list[list[int]]:
    own = layouts[number] if isinstance(layouts, list) and number < len(layouts) else None
    if not isinstance(own, list) or [len(each) if isinstance(each, list) else 0 for each in own] != list(tps):
        raise SpecError(f"{path}[{number}]", own, f"its stages have {list(tps)} ranks", _FIX)
    return [[whole(rank, path, 0) for rank in each] for each in own]
