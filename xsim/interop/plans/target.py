"""What plans of other tools are read for, and what all of their readers share."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from typing import Any, Literal

from xsim.errors import SpecError
from xsim.interop.plans.texts import from_json, shown
from xsim.interop.profiles import device_name
from xsim.plan.forms import merged
from xsim.plan.recompute import recomputable
from xsim.plan.sketch import Copies, Sketch, check
from xsim.spec.cluster import rank_kinds
from xsim.spec.deployment import MOST_ACTIONS
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S

__all__ = [
    "Counting",
    "Imported",
    "Target",
    "batch_of",
    "check_ranks",
    "copies_on",
    "imported",
    "kind_of",
    "kinds_in_turn",
    "layers_between",
    "literal",
    "parsed",
    "predicted",
    "recompute_of",
    "rounds",
    "whole",
]

Counting = Literal["transformer", "ends", "pseudo", "operators"]
LONGEST_S = 10**6
OPERATORS_PER_LAYER = 13  # Aceso's rows of a layer: interop.aceso.OPERATORS


@dataclass(frozen=True, slots=True)
class Target:
    """The scenario that a plan is for, and what its file may leave open.

    Attributes:
        scenario: Its batch and deployment do not matter.
        batch: Samples per iteration; None: as the plan says.
        micro_batch: Samples of a micro-batch where a plan does not say it.
        devices: Which kind of the cluster each name in the plan means; others are guessed from their names.
        which: Of several plans in a file: its name, or its number from 1.
    """

    scenario: Scenario
    batch: int | None = None
    micro_batch: int = 1
    devices: Mapping[str, str] = field(default_factory=dict)
    which: str = "1"


@dataclass(frozen=True, slots=True)
class Imported:
    """A plan, and in sentences what it says otherwise than its file."""

    sketch: Sketch
    notes: tuple[str, ...] = ()


def imported(sketch: Sketch, target: Target, notes: Sequence[str]) -> Imported:
    """The plan in its shortest form, checked against the target; its own samples are the batch.

    Raises:
        SpecError: It is none of this model and cluster, or a micro-batch has more samples than passes are simulated.
    """
    for number, pipeline in enumerate(sketch.pipelines):
        if pipeline.micro_batch > MOST_ACTIONS:
            problem, fix = "no micro-batch is as large", f"write at most {MOST_ACTIONS}"
            raise SpecError(f"plan.pipelines[{number}].micro_batch", pipeline.micro_batch, problem, fix)
    scenario = replace(target.scenario, batch=sketch.samples, deployment=None)
    check(sketch, scenario)
    return Imported(merged(sketch, scenario.model.layers), tuple(dict.fromkeys(notes)))


def parsed(text: str, path: str) -> object:
    """The JSON, or the value in Python's notation, in a text.

    Raises:
        SpecError: It is neither, or has a key twice.
    """
    try:
        return from_json(text, path)
    except SpecError:
        raise
    except (ValueError, RecursionError):
        pass
    try:
        return literal(text)
    except ValueError:
        problem = "it is neither JSON nor a value in Python's notation"
        raise SpecError(path, text[:40], problem, "name a file as that tool writes it") from None


def literal(text: str) -> Any:
    """The value in Python's notation in a text. Raises ValueError if it is none."""
    if re.search(r"0[xXoObB]\w{100}", text):  # Python reads, and cannot print, such numbers of any length
        raise ValueError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            return ast.literal_eval(text.strip())
        except (SyntaxError, RecursionError, MemoryError, TypeError):
            raise ValueError from None


def whole(value: object, path: str, least: int = 1, below: int = 10**9) -> int:
    """A whole number of at least ``least`` and less than ``below``.

    Raises:
        SpecError: It is none.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SpecError(path, value, f"it is no whole number of {least} or more", "correct it")
    if value >= below:
        raise SpecError(path, value, f"it is no number below {below}", "correct it")
    return value


def predicted(value: object, unit_s: float = 1.0) -> int | None:
    """What a tool predicts in picoseconds, which says it in units of ``unit_s``; None where it is no time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LONGEST_S / unit_s:
        return None
    return round(value * unit_s * PS_PER_S) or None


def kind_of(target: Target, name: object, path: str) -> str:
    """The kind of device of the cluster that a plan calls ``name``.

    It is the one that the target says, or one of that name, or the library's name for it, or the only kind in whose
    name this one occurs (``B2`` in ``ascend_910b2``).

    Raises:
        SpecError: There is none, or several.
    """
    kinds = tuple(dict.fromkeys(rank_kinds(target.scenario.cluster)))
    foreign = str(name)
    for each in (target.devices.get(foreign), foreign, device_name(foreign)):
        if each in kinds:
            return str(each)
    bare = re.sub(r"[^a-z0-9]", "", foreign.lower())
    near = [kind for kind in kinds if bare and bare in re.sub(r"[^a-z0-9]", "", kind.lower())]
    if len(near) == 1:
        return near[0]
    problem = f"the cluster has {', '.join(kinds)}" + (f", and it may be any of {', '.join(near)}" if near else "")
    raise SpecError(path, foreign, problem, f"say which it is: devices={shown(foreign)}:{kinds[0]}")


def layers_between(
    cuts: Sequence[int], counting: Counting, target: Target, path: str, notes: list[str]
) -> tuple[range, ...]:
    """Our layers of the stages between ``cuts``, which begin with 0 and end with how many layers the tool counts.

    Args:
        counting: ``transformer``: the layers alone; ``ends``: embedding and head too; ``pseudo``: AMP's, which has six
            more, of which it gives weights to the first and the last but one; ``operators``: Aceso's, 1 + 13 L + 2.

    Raises:
        SpecError: They are not all layers of this model, each once, or leave a stage without any.
    """
    layers = target.scenario.model.layers
    total = {
        "transformer": layers,
        "ends": layers + 2,
        "pseudo": layers + 6,
        "operators": 3 + OPERATORS_PER_LAYER * layers,
    }[counting]
    if not cuts or cuts[0] != 0 or cuts[-1] != total:
        model = target.scenario.model.name
        problem = f"for the {layers} layers of {model} it would cover 0..{total} as this tool counts them"
        raise SpecError(path, list(cuts), problem, "choose the model that was planned for")
    for before, after in pairwise(cuts):
        if after <= before:
            raise SpecError(path, list(cuts), f"the stage between {before} and {after} has no layer", "leave it out")
    own = [_own_cut(cut, counting, layers) for cut in cuts]
    if counting == "operators" and any(_foreign_cut(mine, layers) != cut for cut, mine in zip(cuts, own, strict=True)):
        notes.append("stages were cut inside layers, and are cut here at the nearest end of one")
    for (before, after), foreign in zip(pairwise(own), pairwise(cuts), strict=True):
        if after <= before:
            problem = f"the stage between {foreign[0]} and {foreign[1]} has no whole layer"
            raise SpecError(path, list(cuts), problem, "leave it out")
    return tuple(range(a, b) for a, b in pairwise(own))


def _own_cut(cut: int, counting: Counting, layers: int) -> int:
    """How many of our layers, 0 the embedding, lie before a cut."""
    if counting == "transformer":
        return cut + 1
    if counting == "ends":
        return cut
    if counting == "pseudo":
        return min(cut, 1) + min(max(cut - 2, 0), layers) + (cut > layers + 4)
    if cut == 0:
        return 0
    if cut >= 1 + OPERATORS_PER_LAYER * layers:
        return layers + 1 + (cut == 3 + OPERATORS_PER_LAYER * layers)
    return 1 + (2 * (cut - 1) + OPERATORS_PER_LAYER) // (2 * OPERATORS_PER_LAYER)


def _foreign_cut(own: int, layers: int) -> int:
    """Where Aceso has the end of our layer ``own - 1``."""
    if own in (0, layers + 2):
        return 0 if own == 0 else 3 + OPERATORS_PER_LAYER * layers
    return 1 + OPERATORS_PER_LAYER * (own - 1)


def batch_of(target: Target, said: object, path: str) -> int:
    """Samples per iteration: as the target says, else as the plan says.

    Raises:
        SpecError: Neither does.
    """
    if target.batch is not None:
        return target.batch
    if said is None:
        raise SpecError("batch", None, "the plan does not say how many samples it trains", "write batch=1024, say")
    return whole(said, path)


def rounds(batch: int, each: int, notes: list[str], what: str = "micro-batches") -> int:
    """How many rounds of ``each`` samples train ``batch`` at least, and a note if they train more."""
    count = -(-batch // each)
    if count * each != batch:
        trained = f"rounded up to {count} of them, {count * each} samples"
        notes.append(f"{batch} samples do not divide into {what} of {each}: {trained}")
    return count


def copies_on(ranks: Sequence[int], tp: int, target: Target, path: str, cp: int = 1) -> tuple[Copies, ...]:
    """Copies that are cut over ``tp`` ranks each, or over so many of each of ``cp`` contexts, in their order.

    Raises:
        SpecError: A rank is not in the cluster, one copy has unlike devices, or they do not divide.
    """
    devices = rank_kinds(target.scenario.cluster)
    if tp < 1 or len(ranks) % (tp * cp):
        raise SpecError(path, tp, f"{len(ranks)} devices are not cut {tp} ways", "choose a divisor")
    if len(ranks) > len(devices):
        raise _other_cluster(path, len(ranks), target)
    found = []
    for start in range(0, len(ranks), tp * cp):
        own = tuple(ranks[start : start + tp * cp])
        stray = [rank for rank in own if not 0 <= rank < len(devices)]
        if stray:
            raise _other_cluster(path, stray[0], target)
        kinds = tuple(dict.fromkeys(devices[rank] for rank in own))
        if len(kinds) > 1:
            problem = f"a copy would be cut over {' and '.join(kinds)}"
            raise SpecError(path, list(own), problem, "choose the cluster that was planned for")
        found.append(Copies(kinds[0], tp, ranks=(own,), cp=cp))
    return tuple(found)


def _other_cluster(path: str, value: object, target: Target) -> SpecError:
    cluster = target.scenario.cluster
    problem = f"the cluster {cluster.name} has {cluster.ranks} devices"
    return SpecError(path, value, problem, "choose the cluster that was planned for")


def check_ranks(count: int, target: Target, path: str) -> None:
    """Refuse more ranks than the cluster has, before they are gone through."""
    if count > target.scenario.cluster.ranks:
        raise _other_cluster(path, count, target)


def kinds_in_turn(sizes: Sequence[int], kinds: Sequence[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Of stages of these sizes the (kind, count) that they get if all of one kind are dealt out before the next."""
    line = [kind for kind, count in kinds for _ in range(count)]
    ends = [0, *accumulate(sizes)]
    return [[(k, len(list(run))) for k, run in groupby(line[a:b])] for a, b in pairwise(ends)]


def recompute_of(asked: Mapping[str, int], target: Target, notes: list[str]) -> tuple[tuple[str, int], ...]:
    """Operators that are computed again, by our names, and in how many layers; those that no layer has are left out."""
    known = recomputable(target.scenario)
    strange = [name for name in asked if name not in known]
    if strange:
        named = ", ".join(map(shown, strange[:8]))
        attention = target.scenario.attention
        notes.append(
            f"layers of this scenario have no operator {named} (attention={attention}): that is not recomputed"
        )
    return tuple((name, count) for name, count in asked.items() if name in known and count)
