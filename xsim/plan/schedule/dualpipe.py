"""Both ends at once: half of the micro-batches enter at the first stage, half at the last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xsim.errors import SpecError
from xsim.plan.route import by_direction
from xsim.plan.turns import check_one_chunk
from xsim.plan.workload import Action

__all__ = ["DualPipe"]


@dataclass(frozen=True, slots=True)
class DualPipe:
    """DualPipe: micro-batches enter at both ends, each stage holds two parts: half the bubble for twice the weights.

    Stage s of p also holds the layers of stage p - 1 - s, which the second half of the micro-batches passes from the
    last stage to the first. A stage keeps at most p + 1 micro-batches (DeepSeek-V3, https://arxiv.org/abs/2412.19437
    section 3.2.1; the steps are those of https://github.com/deepseek-ai/DualPipe).

    The forward and the backward that share a step there and overlap run one after the other here, and each hands on
    when it ends. On equal stages the bubble is then (p / 2 - 1) (F + I - W), where W <= I <= F <= I + W. The published
    (p / 2 - 1) (F&B + B - 3 W) is that of steps which hand on both results at their end, with F&B = F + B and F = I.
    """

    def order(self, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> tuple[Action, ...]:
        check_one_chunk("dualpipe", chunks)
        _check_shape(stages, micro_batches)
        inner = min(stage, stages - 1 - stage)  # stages between it and the nearer end
        outer = stages // 2 - 1 - inner  # and between it and the middle
        last = ["1", "0"] * (inner + 1)
        steps = (
            *["F0"] * (2 * outer),
            *["F0", "F1"] * (inner + 1),
            *["I1", "W", "F1"] * outer,
            *["F0", "B1", "F1", "B0"] * (micro_batches // 2 - stages + inner + 1),
            *["B1", "F1", "B0"] * outer,
            *(f"B{direction}" for direction in last[: inner + 1]),
            *(f"I{direction}" for direction in last[inner + 1 :]),
            *["W", "I0"] * outer,
            *["W"] * (inner + 1),
        )
        nearer_first = 1 if stage < stages // 2 else -1
        passing = [[(m, chunk) for m in half] for chunk, half in enumerate(by_direction(micro_batches, 2))]
        return tuple(_numbered(steps, passing[::nearer_first]))


def _check_shape(stages: int, micro_batches: int) -> None:
    """Refuse what cannot be halved, and fewer micro-batches than the first steps take."""
    if stages % 2:
        problem = "dualpipe pairs every stage with the one opposite, and the one in the middle has none"
        raise SpecError("stages", stages, problem, "cut the model into an even number of stages")
    least = 2 * (stages - 1)
    if micro_batches % 2 or micro_batches < least:
        problem = f"dualpipe sends half of them each way, and {stages} stages need {least} or more"
        raise SpecError("micro_batches", micro_batches, problem, f"make it an even number, {least} or more")


def _numbered(steps: Iterable[str], passing: Sequence[Sequence[tuple[int, int]]]) -> Iterator[Action]:
    """The steps as actions. Direction 0 is that of the nearer end; weights' gradients follow in the order of their I.

    Args:
        passing: Of each direction the (micro-batch, chunk) that pass the stage, in order.
    """
    forward, backward = ([iter(half) for half in passing] for _ in range(2))
    put_off: deque[Action] = deque()
    for step in steps:
        if step == "W":
            yield put_off.popleft()
            continue
        kind, direction = step[0], int(step[1])
        micro_batch, chunk = next((forward if kind == "F" else backward)[direction])
        yield Action(kind, micro_batch, chunk)
        if kind == "I":
            put_off.append(Action("W", micro_batch, chunk))
