"""Arguments of Megatron-LM (megatron/training/arguments.py of https://github.com/NVIDIA/Megatron-LM), both ways.

Ranks that cut a layer are neighbours, then come contexts, then data-parallel ones, and stages are farthest apart; every
data-parallel rank is a pipeline of its own, or those that share out experts are one. All ranks of the cluster are used,
or ``--world-size`` of them.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate
from typing import NoReturn

from xsim.errors import SpecError
from xsim.interop.plans.arguments import Arguments, arguments
from xsim.interop.plans.target import (
    Imported,
    Target,
    batch_of,
    check_ranks,
    copies_on,
    imported,
    layers_between,
    recompute_of,
    rounds,
    whole,
)
from xsim.interop.plans.texts import digits, shown
from xsim.plan.sketch import Pipeline, Sketch, SketchStage
from xsim.spec.cluster import rank_kinds
from xsim.spec.scenario import Scenario

__all__ = ["megatron_plan", "megatron_words"]

_FIX = "name arguments of Megatron-LM"
_MODULES = {  # of --recompute-modules, for a layer without experts
    "core_attn": ("selective",),
    "layernorm": ("attention_norm", "mlp_norm"),
    "mlp": ("up", "activation", "down"),
}
_NEEDED = ("tensor-model-parallel-size", "pipeline-model-parallel-size")
_VALUED = (
    *_NEEDED,
    *("context-parallel-size", "expert-model-parallel-size"),
    *("world-size", "micro-batch-size", "global-batch-size", "num-layers", "decoder-first-pipeline-num-layers"),
    *("decoder-last-pipeline-num-layers", "recompute-granularity", "recompute-modules", "recompute-method"),
    "recompute-num-layers",
)
_FLAGS = ("sequence-parallel", "use-distributed-optimizer", "recompute-activations")
MOST_NAMED = 8  # of the options that are ignored
_REFUSED = {
    "num-layers-per-virtual-pipeline-stage": "virtual stages cannot be said in kinds and counts of devices",
    "num-virtual-stages-per-pipeline-rank": "virtual stages cannot be said in kinds and counts of devices",
    "pipeline-model-parallel-layout": "layers in a layout of their own are not read",
}


def megatron_plan(text: str, target: Target, path: str) -> Imported:
    """The plan that a command line says.

    Raises:
        SpecError: It says what is not read, or no plan of this model and cluster.
    """
    words = arguments(text, path)
    for key, problem in _REFUSED.items():
        if words.get(key, ("1",)) not in (("1",), ()):
            raise SpecError(f"{path}.{key}", " ".join(words[key]), problem, "choose a plan without it")
    notes = _checked(words, path)
    tp, pp, ep = (_number(words, f"{name}-model-parallel-size", 1, path) for name in ("tensor", "pipeline", "expert"))
    cp = _number(words, "context-parallel-size", 1, path)
    ranks = _number(words, "world-size", target.scenario.cluster.ranks, path)
    check_ranks(ranks, target, f"{path}.world-size")
    dp, rest = divmod(ranks, tp * cp * pp)
    if rest or not dp:
        contexts = f" x context {cp}" if cp > 1 else ""
        problem = f"tensor {tp}{contexts} x pipeline {pp} does not divide {ranks} ranks"
        raise SpecError(f"{path}.tensor-model-parallel-size", tp, problem, "choose the cluster that it is for")
    if dp % ep:
        problem = f"it does not divide the {dp} data-parallel ranks"
        raise SpecError(f"{path}.expert-model-parallel-size", ep, problem, "choose the cluster that it is for")
    layers = _layers(words, pp, target, path, notes)
    again = [_recomputed(words, part, target, path, notes) for part in layers]
    micro_batch = _number(words, "micro-batch-size", target.micro_batch, path)
    said = _number(words, "global-batch-size", 0, path) if "global-batch-size" in words else None
    count = rounds(batch_of(target, said, path), micro_batch * dp, notes, "rounds")
    cut = "sequence-parallel" in words
    pipelines = []
    size = tp * cp
    for replica in range(0, dp, ep):
        firsts = [(stage * dp + replica) * size for stage in range(pp)]
        stages = tuple(
            SketchStage(part, copies_on(range(first, first + ep * size), tp, target, path, cp), own, cut, ep)
            for part, first, own in zip(layers, firsts, again, strict=True)
        )
        pipelines.append(Pipeline(stages, ep * micro_batch, count))
    zero = 1 if "use-distributed-optimizer" in words else 0
    return imported(Sketch(tuple(pipelines), "megatron", "Megatron-LM", zero=zero), target, notes)


def _number(words: Arguments, key: str, usual: int, path: str) -> int:
    if key not in words:
        return usual
    text = words[key][0] if len(words[key]) == 1 else ""
    if not text.isdecimal():
        raise SpecError(f"{path}.{key}", " ".join(words[key]), "it is no whole number", _FIX)
    return whole(digits(text, f"{path}.{key}"), f"{path}.{key}")


def _checked(words: Arguments, path: str) -> list[str]:
    """What is ignored, once every option that is read has a value if it takes one."""
    if not any(key in words for key in _NEEDED):
        problem = "it has no --tensor-model-parallel-size and no --pipeline-model-parallel-size"
        raise SpecError(path, "", problem, _FIX)
    for key in (*_VALUED, *_REFUSED):
        if words.get(key) in ((), ("",)):
            raise SpecError(f"{path}.{key}", "", "it has no value", "write one, or leave it out")
    for key in _FLAGS:
        value = words.get(key, ())
        if value and re.match(r"\w|$", value[0]):  # and not a variable of a shell, or where its output goes
            raise SpecError(f"{path}.{key}", " ".join(value), "it takes no value", "write it alone, or leave it out")
    known = (*_VALUED, *_FLAGS, *_REFUSED)
    ignored = [f"--{shown(key)}" for key in words if key not in known]
    if not ignored:
        return []
    more = f" and {len(ignored) - MOST_NAMED} more" if len(ignored) > MOST_NAMED else ""
    return [f"what is no part of a plan is ignored: {', '.join(ignored[:MOST_NAMED])}{more}"]


def _layers(words: Arguments, pp: int, target: Target, path: str, notes: list[str]) -> tuple[range, ...]:
    layers = target.scenario.model.layers
    said = _number(words, "num-layers", layers, path)
    ends = {end: _number(words, f"decoder-{end}-pipeline-num-layers", 0, path) for end in ("first", "last")}
    inner = pp - sum(count > 0 for count in ends.values())
    left = said - sum(ends.values())
    if inner < 0 or (inner == 0 and left) or (inner and (left <= 0 or left % inner)):
        problem = f"{left} layers are not shared out equally over {inner} stages"
        raise SpecError(f"{path}.num-layers", said, problem, "Megatron-LM refuses that too: choose a divisor")
    counts = [left // inner] * inner if inner else []
    counts = [*([ends["first"]] if ends["first"] else []), *counts, *([ends["last"]] if ends["last"] else [])]
    return layers_between([0, *accumulate(counts)], "transformer", target, f"{path}.num-layers", notes)


def _recomputed(
    words: Arguments, part: range, target: Target, path: str, notes: list[str]
) -> tuple[tuple[str, int], ...]:
    kind = (words.get("recompute-granularity") or ("selective" if "recompute-activations" in words else "",))[0]
    if not kind:
        return ()
    if kind == "selective":
        asked = words.get("recompute-modules", ("core_attn",))
        for module in asked:
            if module not in _MODULES:
                fix = f"choose some of {', '.join(_MODULES)}"
                raise SpecError(f"{path}.recompute-modules", module, "it is not simulated", fix)
        found = {name: len(part) for module in asked for name in _MODULES[module]}
        return recompute_of(found, target, notes)
    method = (words.get("recompute-method") or ("uniform",))[0]
    count = _number(words, "recompute-num-layers", 1, path)
    if kind != "full" or method not in ("uniform", "block"):
        raise SpecError(f"{path}.recompute-granularity", f"{kind} {method}", "it is unknown", _FIX)
    if method == "uniform" and count > 1:
        notes.append(f"checkpoints of {count} layers each are taken as one of each layer: more is kept than there")
    return (("full", len(part) if method == "uniform" else min(count, len(part))),)


def megatron_words(sketch: Sketch, scenario: Scenario) -> tuple[str, ...]:
    """The arguments that say the same, as far as Megatron-LM can, whose ranks are numbered in order of hosts.

    Raises:
        SpecError: It cannot: pipelines or stages are unlike in more than the first and the last one's layers.
    """
    first = sketch.pipelines[0]
    stages = first.stages
    every = [stage for pipeline in sketch.pipelines for stage in pipeline.stages]
    tps = {copies.tp for stage in every for copies in stage.copies}
    cps = {copies.cp for stage in every for copies in stage.copies}
    eps = {stage.ep for stage in every}
    shapes = {
        (
            tuple(stage.layers for stage in pipeline.stages),
            tuple(stage.recompute for stage in pipeline.stages),
            pipeline.micro_batches,
        )
        for pipeline in sketch.pipelines
    }
    widths = {stage.width for stage in every}
    each = {
        own for pipeline in sketch.pipelines for stage in pipeline.stages for own in stage.samples(pipeline.micro_batch)
    }
    unlike = (
        *(("TP degrees", tps), ("CP degrees", cps), ("EP degrees", eps)),
        *(("pipelines", shapes), ("numbers of copies", widths), ("samples of copies", each)),
    )
    for what, found in unlike:
        if len(found) > 1:
            _cannot(f"it has unlike {what}")
    tp, cp, ep = tps.pop(), cps.pop(), eps.pop()
    _check_order(sketch, tp * cp, scenario)
    words = [
        *("--tensor-model-parallel-size", str(tp)),
        *("--pipeline-model-parallel-size", str(len(stages))),
        *(("--context-parallel-size", str(cp)) if cp > 1 else ()),
        *(("--expert-model-parallel-size", str(ep)) if ep > 1 else ()),
        *("--num-layers", str(scenario.model.layers)),
        *_counts([len(range(max(s.layers.start, 1), min(s.layers.stop, scenario.model.layers + 1))) for s in stages]),
        *("--micro-batch-size", str(each.pop())),
        *("--global-batch-size", str(sketch.samples)),
        *(("--sequence-parallel",) if all(stage.sequence_parallel for stage in stages) else ()),
        *_again(stages),
    ]
    if sketch.zero > 1:
        _cannot(f"zero {sketch.zero} is not among its arguments")
    return (*words, "--use-distributed-optimizer") if sketch.zero else tuple(words)


def _check_order(sketch: Sketch, size: int, scenario: Scenario) -> None:
    """Refuse a plan whose stages would get other devices than it says, as ranks are numbered there."""
    devices = rank_kinds(scenario.cluster)
    pp = len(sketch.pipelines[0].stages)
    dp = sum(pipeline.count * pipeline.stages[0].width for pipeline in sketch.pipelines)
    there = [Counter(devices[(stage * dp + r) * size] for r in range(dp)) for stage in range(pp)]
    ends = [devices[at * size] == devices[(at + 1) * size - 1] for at in range(pp * dp)]
    here: list[Counter[str]] = [Counter() for _ in range(pp)]
    for pipeline in sketch.pipelines:
        for stage, own in zip(pipeline.stages, here, strict=True):
            for copies in stage.copies:
                own[copies.device] += copies.count * pipeline.count
    if here != there or not all(ends):
        _cannot("in rank order its stages would get other devices")


def _cannot(problem: str) -> NoReturn:
    raise SpecError("plan", "", f"{problem}, and Megatron-LM has no argument for that", "write it as JSON or YAML")


def _counts(counts: list[int]) -> tuple[str, ...]:
    inner = counts[1:-1]
    if len(set(counts)) == 1:
        return ()
    if len(set(inner)) > 1 or min(counts) < 1:
        _cannot("its stages have unlike numbers of layers")
    ends = (("first", counts[0]), ("last", counts[-1]))
    return tuple(word for end, count in ends for word in (f"--decoder-{end}-pipeline-num-layers", str(count)))


def _again(stages: tuple[SketchStage, ...]) -> tuple[str, ...]:
    if any(stage.where for stage in stages):
        _cannot("it says which layers are computed again")
    asked = {stage.recompute for stage in stages}
    if asked == {()}:
        return ()
    names = {name for entries in asked for name, _ in entries}
    counts = {(count, len(stage.layers)) for stage in stages for _, count in stage.recompute}
    everywhere = all(stage.recompute for stage in stages)
    if names == {"full"} and everywhere and len({count for count, _ in counts}) == 1:
        count = str(counts.pop()[0])
        return ("--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", count)
    if names == {"selective"} and everywhere and all(count == held for count, held in counts):
        return ("--recompute-granularity", "selective")
    return _cannot("its stages recompute unlike operators")
