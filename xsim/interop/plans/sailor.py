"""Plans of Sailor's planner, and of the others that it has ports of (https://github.com/eth-easl/sailor).

A dictionary with ``pipeline_list``, each entry of which has for every stage its layers, embedding and head counted, and
its copies: ``([(device, devices of its host or tp, zone), ...], tp)``. Every copy takes ``mbs`` samples of a
micro-batch; there are as many micro-batches as train the batch at least. Zones are left out: all devices are of one
cluster.
"""

from __future__ import annotations

from itertools import accumulate

from xsim.errors import SpecError
from xsim.interop.plans.target import (
    Imported,
    Target,
    batch_of,
    imported,
    kind_of,
    layers_between,
    parsed,
    predicted,
    rounds,
    whole,
)
from xsim.interop.plans.texts import ordinal
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage

__all__ = ["sailor_plan"]

FASTEST = 1e12  # iterations per second
_FIX = "name a plan that Sailor's planner wrote"


def sailor_plan(text: str, target: Target, path: str) -> Imported:
    """The plan in a text; of several the one that ``target.which`` numbers.

    Raises:
        SpecError: It is no such plan, or none of this model and cluster.
    """
    plan = _chosen(parsed(text, path), target, path)
    listed = plan.get("pipeline_list")
    if not isinstance(listed, list | tuple) or not listed:
        raise SpecError(f"{path}.pipeline_list", listed, "it lists no pipelines", _FIX)
    notes: list[str] = []
    each = whole(plan.get("mbs"), f"{path}.mbs")
    shaped = [_stages(entry, target, f"{path}.pipeline_list[{n}]", notes) for n, entry in enumerate(listed)]
    widths = [stages[0].width for stages in shaped]
    said = plan.get("global_batch_size", plan.get("gbs"))
    count = rounds(batch_of(target, said, f"{path}.global_batch_size"), each * sum(widths), notes, "rounds")
    pipelines = tuple(Pipeline(stages, each * width, count) for stages, width in zip(shaped, widths, strict=True))
    return imported(Sketch(pipelines, "sailor", "Sailor", _predicted_ps(plan)), target, notes)


def _chosen(found: object, target: Target, path: str) -> dict[str, object]:
    if isinstance(found, list) and found:
        found = found[ordinal(target.which, len(found))]
    else:
        ordinal(target.which, 1)
    if not isinstance(found, dict):
        raise SpecError(path, found, "it is no plan", _FIX)
    return found


def _stages(entry: object, target: Target, path: str, notes: list[str]) -> tuple[SketchStage, ...]:
    if not isinstance(entry, dict):
        raise SpecError(path, entry, "it is no pipeline", _FIX)
    parts, groups = entry.get("layers_per_stage"), entry.get("tmp_per_stage")
    if not isinstance(parts, list | tuple) or not isinstance(groups, list | tuple) or len(parts) != len(groups):
        raise SpecError(path, entry, "it has not as many layers_per_stage as tmp_per_stage", _FIX)
    held = [_layers(part, f"{path}.layers_per_stage[{s}]") for s, part in enumerate(parts)]
    flat = [layer for part in held for layer in part]
    if flat != list(range(len(flat))):
        raise SpecError(f"{path}.layers_per_stage", flat, "they do not follow one another from 0", _FIX)
    cuts = [0, *accumulate(map(len, held))]
    layers = layers_between(cuts, "ends", target, f"{path}.layers_per_stage", notes)
    copies = [_copies(group, target, f"{path}.tmp_per_stage[{s}]") for s, group in enumerate(groups)]
    return tuple(SketchStage(part, own) for part, own in zip(layers, copies, strict=True))


def _layers(part: object, path: str) -> list[int]:
    if not isinstance(part, list | tuple) or not part:
        raise SpecError(path, part, "a stage has a list of layers", _FIX)
    return [whole(each, path, 0) for each in part]


def _copies(group: object, target: Target, path: str) -> tuple[Copies, ...]:
    if not isinstance(group, list | tuple) or not group:
        raise SpecError(path, group, "a stage has a list of copies", _FIX)
    found = []
    for number, copy in enumerate(group):
        try:
            hosts, tp = copy
            names = {str(host[0]) for host in hosts}
        except (TypeError, ValueError, LookupError):
            raise SpecError(f"{path}[{number}]", copy, "a copy is ([(device, ..., zone)], tp)", _FIX) from None
        if len(names) != 1:
            problem = "a copy that is cut over unlike devices cannot be said in kinds and counts"
            raise SpecError(f"{path}[{number}]", sorted(names), problem, "choose another plan")
        kind = kind_of(target, names.pop(), f"{path}[{number}]")
        found.append(Copies(kind, whole(tp, f"{path}[{number}]")))
    return tuple(found)


def _predicted_ps(plan: dict[str, object]) -> int | None:
    for key in ("iter_time", "iteration_time"):
        if found := predicted(plan.get(key)):
            return found
    rate = plan.get("estimated_throughput")
    return predicted(1 / rate) if isinstance(rate, int | float) and 0 < rate < FASTEST else None
