"""Plans as JSON, between tools: pipelines of stages of copies, each in kinds of devices and how many.

``{model, layers, seq, gbs, name, source, predicted_s, zero, bucket_bytes, gather_overlap, serial_sync, blocking_sends,
rendezvous, tp_async, tp_overlap, pipelines: [{count, mbs, micro_batches, stages: [...]}]}``, of which a stage is
``{layers: [from, to], replicas: [{type, tp, cp, count, samples, ranks, state_shares}], recompute: {operator: layers},
sequence_parallel, ep}``.
Layers are counted from 0 and half-open; ``layers`` says of how many, so that it shows whether embedding and head are
among them. ``mbs`` of a pipeline is its whole micro-batch, that of the plan what each copy takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from xsim.errors import SpecError, short
from xsim.interop.plans.as_json import SWITCHES
from xsim.interop.plans.metis import metis_values
from xsim.interop.plans.nodes import (
    HINT,
    Node,
    layers_said,
    node_of,
    pair_of,
    predicted_said,
    recompute_said,
    shares_of,
    truth,
)
from xsim.interop.plans.target import (
    Counting,
    Imported,
    Target,
    batch_of,
    imported,
    kind_of,
    layers_between,
    recompute_of,
    rounds,
    whole,
)
from xsim.interop.plans.texts import from_json, ordinal, plain_name, shown
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage

__all__ = ["read_plan"]

_PIPELINE = ("count", "mbs", "lbs", "micro_batches", "n_microbatches", "stages")
_STAGE = (
    "layers",
    "replicas",
    "recompute",
    "sequence_parallel",
    "ep",
    *("type", "tp", "cp", "dp", "devices", "ranks", "dg"),
)
_REPLICA = ("type", "tp", "cp", "count", "samples", "ranks", "state_shares")
LONGEST_LIST = 20  # names in a message
MOST_ZERO = 3
LARGEST_BUCKET = 2**63  # bytes


def read_plan(text: str, target: Target, path: str) -> Imported:
    """The plan in a text; of a list of plans the one that ``target.which`` names (``id``, ``name``) or numbers.

    Raises:
        SpecError: It is no such plan, or none of this model and cluster.
    """
    try:
        found = from_json(text, path)
    except SpecError:
        raise
    except (ValueError, RecursionError) as error:
        raise SpecError(path, text[:40], f"it is no JSON: {error}", HINT) from None
    plan = node_of(_chosen(found, target, path), path)
    if "top" in plan or "node_sequence" in plan:
        return _of_metis(plan, target, path)
    notes: list[str] = []
    listed = plan.get("pipelines")
    if not isinstance(listed, list) or not listed:
        raise SpecError(f"{path}.pipelines", listed, "it lists no pipelines", HINT)
    _compare(plan, target, path, notes)
    counting = _counting(plan, target, f"{path}.layers")
    own = _batches(plan, len(listed), path, notes)
    shaped = [_pipeline(each, plan, counting, target, f"{path}.pipelines[{n}]", notes) for n, each in enumerate(listed)]
    counts = _counts(plan, shaped, own, target, path, notes)
    pipelines = tuple(
        replace(pipeline, micro_batches=count) for (_, pipeline), count in zip(shaped, counts, strict=True)
    )
    name = plain_name(plan.get("name"), f"{path}.name") or plain_name(plan.get("id"), f"{path}.id")
    source, predicted = plain_name(plan.get("source"), f"{path}.source"), predicted_said(plan, path)
    switches = {name: truth(plan.get(name, False), f"{path}.{name}") for name in SWITCHES}
    sketch = Sketch(pipelines, name, source, predicted, _zero(plan, path), bucket_bytes=_bucket(plan, path), **switches)
    return imported(sketch, target, notes)


def _zero(plan: Node, path: str) -> int:
    zero = whole(plan.get("zero", 0), f"{path}.zero", 0)
    if zero > MOST_ZERO:
        raise SpecError(f"{path}.zero", zero, "there is no such stage of ZeRO", "choose 0, 1, 2 or 3")
    return zero


def _bucket(plan: Node, path: str) -> int | None:
    bucket = plan.get("bucket_bytes")
    return None if bucket is None else whole(bucket, f"{path}.bucket_bytes", below=LARGEST_BUCKET)


def _chosen(found: object, target: Target, path: str) -> Node:
    if isinstance(found, list) and found:
        names = [str(each.get("id", each.get("name", ""))) if isinstance(each, dict) else "" for each in found]
        if target.which in names:
            found = found[names.index(target.which)]
        else:
            try:
                found = found[ordinal(target.which, len(found))]
            except SpecError as error:
                known = ", ".join(map(shown, filter(None, names[:LONGEST_LIST])))
                raise SpecError("which", target.which, error.problem, f"{error.fix}, or one of {known}") from None
    elif isinstance(found, dict) and target.which not in (str(found.get(key)) for key in ("id", "name")):
        ordinal(target.which, 1)
    if not isinstance(found, dict):
        raise SpecError(path, found, "it is no plan", HINT)
    return found


def _of_metis(plan: Node, target: Target, path: str) -> Imported:
    top = plan.get("top", [plan])
    if not isinstance(top, list) or not top or not isinstance(top[0], dict):
        raise SpecError(f"{path}.top", top, "it lists no plan", HINT)
    values = {"gbs": plan.get("gbs"), "cost_ms": plan.get("predicted_ms")} | top[0]
    found = metis_values(values, target, path)
    name = plain_name(plan.get("id"), f"{path}.id") or "metis"
    return Imported(replace(found.sketch, name=name), found.notes)


def _compare(plan: Node, target: Target, path: str, notes: list[str]) -> None:
    model = target.scenario.model
    for key, own in (("hidden", model.hidden), ("seq", model.seq_len)):
        if plan.get(key) not in (None, own):
            notes.append(f"it was planned for {key} = {short(plan[key])}, and {model.name} has {own}")
    named = plain_name(plan.get("model"), f"{path}.model")
    if named and _bare(named) != _bare(model.name):
        notes.append(f"it was planned for the model {shown(named)}, and this is {model.name}")


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _counting(plan: Node, target: Target, path: str) -> Counting:
    layers = target.scenario.model.layers
    said = whole(plan.get("layers", layers), path)
    known: dict[int, Counting] = {layers: "transformer", layers + 2: "ends"}
    if said not in known:
        problem = f"{target.scenario.model.name} has {layers}, or {layers + 2} with embedding and head"
        raise SpecError(path, said, problem, "choose the model that was planned for")
    return known[said]


def _batches(plan: Node, pipelines: int, path: str, notes: list[str]) -> list[int]:
    """Samples of each pipeline, where the plan lists them apart."""
    found = plan.get("batches")
    if found is None:
        return []
    if not isinstance(found, list) or len(found) != pipelines:
        raise SpecError(f"{path}.batches", found, f"there are {pipelines} pipelines", "give one for each")
    notes.append("samples of pipelines are listed apart from them: they are taken in the same order")
    return [whole(each, f"{path}.batches") for each in found]


def _pipeline(
    found: object, plan: Node, counting: Counting, target: Target, path: str, notes: list[str]
) -> tuple[Node, Pipeline]:
    """What the file has, with ``micro_batches`` or ``lbs`` if it says them, and the pipeline with one micro-batch."""
    entry = node_of(found, path, _PIPELINE)
    listed = entry.get("stages")
    if not isinstance(listed, list) or not listed:
        raise SpecError(f"{path}.stages", listed, "it lists no stages", HINT)
    nodes = [node_of(stage, f"{path}.stages[{s}]", _STAGE) for s, stage in enumerate(listed)]
    cuts = [0]
    for s, node in enumerate(nodes):
        first, last = pair_of(node.get("layers"), f"{path}.stages[{s}].layers")
        if first != cuts[-1]:
            problem, fix = f"the stage before it ends at {cuts[-1]}", f"start it at {cuts[-1]}"
            raise SpecError(f"{path}.stages[{s}].layers", [first, last], problem, fix)
        cuts.append(last)
    layers = layers_between(cuts, counting, target, f"{path}.stages.layers", notes)
    stages = tuple(
        _stage(node, part, counting, target, f"{path}.stages[{s}]", notes)
        for s, (node, part) in enumerate(zip(nodes, layers, strict=True))
    )
    micro_batch = _micro_batch(entry, plan, stages, target, path, notes)
    count = whole(entry.get("count", 1), f"{path}.count")
    batches = entry.get("micro_batches", entry.get("n_microbatches"))
    try:
        return {**entry, "micro_batches": batches}, Pipeline(stages, micro_batch, 1, count)
    except SpecError as error:
        raise error.under(path) from None


def _micro_batch(
    entry: Node, plan: Node, stages: tuple[SketchStage, ...], target: Target, path: str, notes: list[str]
) -> int:
    if "mbs" in entry:
        return whole(entry["mbs"], f"{path}.mbs")
    each = plan.get("mbs")
    if each is None:
        notes.append(f"it does not say the size of micro-batches: each copy takes {target.micro_batch}")
        each = target.micro_batch
    return whole(each, f"{path}.mbs") * max(stage.width for stage in stages)


def _counts(
    plan: Node, shaped: Sequence[tuple[Node, Pipeline]], own: Sequence[int], target: Target, path: str, notes: list[str]
) -> list[int]:
    """Micro-batches of each pipeline; those that do not say how many they work on share what is left of the batch."""
    samples = [_samples(entry, pipeline, own[n : n + 1], path) for n, (entry, pipeline) in enumerate(shaped)]
    told = sum(each * pipeline.count for each, (_, pipeline) in zip(samples, shaped, strict=True) if each)
    said = plan.get("gbs", plan.get("global_batch_size"))
    lacking = [pipeline for each, (_, pipeline) in zip(samples, shaped, strict=True) if not each]
    shared = 0
    if lacking:
        rest = batch_of(target, said, f"{path}.gbs") - told
        if rest < 1:
            problem = f"pipelines that say how many they take have {told} samples, and none is left for others"
            raise SpecError(f"{path}.gbs", rest + told, problem, "correct the numbers")
        shared = rounds(rest, sum(pipeline.micro_batch * pipeline.count for pipeline in lacking), notes, "rounds")
    elif said is not None or target.batch is not None:
        _check_told(told, batch_of(target, said, f"{path}.gbs"), notes)
    return [
        rounds(each, pipeline.micro_batch, notes) if each else shared
        for each, (_, pipeline) in zip(samples, shaped, strict=True)
    ]


def _samples(entry: Node, pipeline: Pipeline, listed: Sequence[int], path: str) -> int:
    """Of one pipeline in an iteration; 0 if it does not say."""
    if entry.get("micro_batches") is not None:
        return pipeline.micro_batch * whole(entry["micro_batches"], f"{path}.pipelines.micro_batches")
    if listed:
        return listed[0]
    return 0 if entry.get("lbs") is None else whole(entry["lbs"], f"{path}.pipelines.lbs")


def _check_told(told: int, batch: int, notes: list[str]) -> None:
    if told < batch:
        problem = f"the pipelines of the plan train {told} samples"
        raise SpecError("batch", batch, problem, "leave it out, or correct the plan")
    if told > batch:
        notes.append(f"its pipelines train {told} samples, more than its batch of {batch}")


def _stage(node: Node, part: range, counting: Counting, target: Target, path: str, notes: list[str]) -> SketchStage:
    listed = node.get("replicas")
    if listed is None:
        tp, cp, dp = (whole(node.get(key, 1), f"{path}.{key}") for key in ("tp", "cp", "dp"))
        if whole(node.get("devices", tp * cp * dp), f"{path}.devices") != tp * cp * dp:
            problem = f"{f'tp {tp} x cp {cp}' if cp > 1 else f'tp {tp}'} x dp {dp} are not as many"
            raise SpecError(f"{path}.devices", node["devices"], problem, "correct it")
        ranks = {"ranks": node["ranks"]} if "ranks" in node else {}
        listed = [{"type": node.get("type"), "tp": tp, "cp": cp, "count": dp, **ranks}]
    if not isinstance(listed, list) or not listed:
        raise SpecError(f"{path}.replicas", listed, "it lists no copies", HINT)
    copies = tuple(
        _copies(node_of(each, f"{path}.replicas[{r}]", _REPLICA), target, f"{path}.replicas[{r}]")
        for r, each in enumerate(listed)
    )
    held = len(range(max(part.start, 1), min(part.stop, target.scenario.model.layers + 1)))
    said, listed_in = layers_said(node.get("recompute"), 0 if counting == "ends" else 1, f"{path}.recompute")
    again = recompute_of(recompute_said(said, held, f"{path}.recompute"), target, notes)
    first = max(part.start, 1)
    where = tuple(listed_in.get(name, tuple(range(first, first + count))) for name, count in again)
    cut = truth(node.get("sequence_parallel", False), f"{path}.sequence_parallel")
    ep = whole(node.get("ep", 1), f"{path}.ep")
    return SketchStage(part, copies, again, cut, ep, where if any(name in listed_in for name, _ in again) else ())


def _copies(node: Node, target: Target, path: str) -> Copies:
    tp, cp, count = (whole(node.get(key, 1), f"{path}.{key}") for key in ("tp", "cp", "count"))
    ranks = node.get("ranks") or []
    if not isinstance(ranks, list):
        raise SpecError(f"{path}.ranks", ranks, "it is no list", HINT)
    flat = [whole(r, f"{path}.ranks", 0) for each in ranks for r in (each if isinstance(each, list) else [each])]
    own = tuple(tuple(flat[start : start + tp * cp]) for start in range(0, len(flat), tp * cp))
    samples = whole(node.get("samples", 0), f"{path}.samples", 0)
    kind = kind_of(target, node.get("type"), f"{path}.type")
    return Copies(kind, tp, count, samples, own, shares_of(node.get("state_shares"), f"{path}.state_shares"), cp)
