"""Which activations are dropped after the forward pass, and what is computed again for them.

Neighbouring operators that are recomputed form a run. Only what it reads is kept of it, and what it gives if its last
operator is a product or attention: of an element-wise one the result is dropped too, and made again before its reader
needs it. These are the two kinds that Megatron-LM has: whole checkpoints, and checkpoints that discard their output
(``--recompute-modules`` in megatron/training/arguments.py of https://github.com/NVIDIA/Megatron-LM). A layer that is
recomputed as a whole keeps its input alone (https://arxiv.org/abs/1604.06174); https://arxiv.org/abs/2205.05198
section 5 recomputes attention alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.attention import CORE
from xsim.plan.operator import Exchange, ShardedOperator, Tensor
from xsim.plan.operators import layer_operators
from xsim.plan.shard import CAST
from xsim.spec.deployment import DeploymentPlan, Recompute
from xsim.spec.scenario import Scenario

__all__ = [
    "FULL",
    "SELECTIVE",
    "Run",
    "check_operator",
    "check_recompute",
    "kept_tensors",
    "recomputable",
    "recomputed",
    "runs",
]

FULL, SELECTIVE = "full", "selective"

Part = ShardedOperator | Exchange


@dataclass(frozen=True, slots=True)
class Run:
    """Operators that are computed again together.

    Attributes:
        span: Their positions in the layer, and those of the exchanges between them.
        before: Position of the operator whose backward pass needs them.
        gives: The last one's name, if its result is kept; else empty.
    """

    span: range
    before: int
    gives: str


def recomputed(entries: Iterable[Recompute], layer: int, parts: Sequence[Part]) -> frozenset[str]:
    """Names of the operators of ``layer``, whose ``parts`` are given, that ``entries`` say to compute again.

    In fp8 what a norm or an activation has made is kept as it is cast: the cast goes with its maker. What products and
    attention make stays.
    """
    asked = {entry.operator for entry in entries if layer in entry.layers}
    own = {part.name: part for part in parts if isinstance(part, ShardedOperator)} if asked else {}
    if FULL in asked:
        return frozenset(own)
    if SELECTIVE in asked:
        asked.update(CORE)
    light = {name for name in asked if name in own and own[name].bound in {"memory", "norm"}}
    casts = {name for name, part in own.items() if name.endswith(CAST) and part.reads[0].maker in light}
    return frozenset(name for name in own if name in asked or name in casts)


def recomputable(scenario: Scenario) -> tuple[str, ...]:
    """What an entry can name: all of a layer, attention alone, or one operator, in forward order."""
    parts = layer_operators(scenario, 1, samples=1, tp=1, index=0, sequence_parallel=False)
    return (FULL, SELECTIVE, *(part.name for part in parts if isinstance(part, ShardedOperator)))


def check_recompute(scenario: Scenario, plan: DeploymentPlan) -> None:
    """Refuse operators that the layers of the model do not have.

    Raises:
        SpecError: Names the entry and what can be written.
    """
    names = recomputable(scenario)
    for r, replica in enumerate(plan.replicas):
        for s, stage in enumerate(replica.stages):
            for number, entry in enumerate(stage.recompute):
                path = f"deployment.replicas[{r}].stages[{s}].recompute[{number}].operator"
                check_operator(path, entry.operator, names)


def check_operator(path: str, name: str, names: Sequence[str]) -> None:
    """Refuse an operator that is not among ``names``, which are ``recomputable``.

    Raises:
        SpecError: The field is ``path``.
    """
    if name not in names:
        fix = f"choose {FULL}, {SELECTIVE} or one of {', '.join(names[2:])}"
        raise SpecError(path, name, "no layer of this model has such an operator", fix)


def runs(parts: Sequence[Part], again: Collection[str]) -> Iterator[Run]:
    """The longest runs of neighbouring operators in ``again``, in forward order."""
    held: list[int] = []
    for position, part in enumerate(parts):
        if isinstance(part, Exchange):
            continue
        if part.name in again:
            held.append(position)
        elif held:
            yield _run(parts, held[0], held[-1], position)
            held = []
    if held:
        yield _run(parts, held[0], held[-1], len(parts) - 1)


def _run(parts: Sequence[Part], first: int, last: int, reader: int) -> Run:
    closing = parts[last]
    name = closing.name if isinstance(closing, ShardedOperator) and closing.bound in ("matmul", "attention") else ""
    if name:
        return Run(range(first, last + 1), last, name)
    between = [part for part in parts[last + 1 : reader] if isinstance(part, Exchange)]
    sent = any(part.over != "tensor" for part in between)  # the reader's input has come through them
    return Run(range(first, reader if sent else last + 1), reader, "")


def kept_tensors(parts: Sequence[Part], again: Collection[str] = ()) -> tuple[Tensor, ...]:
    """What a layer keeps from its forward to its backward pass, each tensor once, if ``again`` is recomputed."""
    given = {run.gives for run in runs(parts, again)}
    kept: dict[tuple[str, str], Tensor] = {}
    for part in parts:
        if isinstance(part, Exchange):
            continue
        for tensor in (*part.keeps, *part.reads) if part.name in again else part.keeps:
            lost = tensor.maker in again and (tensor.inner or tensor.maker not in given)
            at = (tensor.maker, tensor.part)
            if not lost and (at not in kept or tensor.size_bytes > kept[at].size_bytes):
                kept[at] = tensor
    return tuple(kept.values())
