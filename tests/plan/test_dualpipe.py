"""DualPipe against its publication: https://arxiv.org/abs/2412.19437 and https://github.com/deepseek-ai/DualPipe."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_walk import text
from xsim.errors import SpecError
from xsim.plan.route import by_direction, routes
from xsim.plan.schedule.dualpipe import DualPipe
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.plan.walk import walk
from xsim.plan.workload import Action

Block = tuple[Action, ...]
Costs = dict[str, int]

SHAPES = [(2, 2), (2, 8), (4, 6), (4, 8), (4, 20), (6, 12), (8, 14), (8, 20), (10, 24)]


def orders(stages: int, micro_batches: int) -> list[Block]:
    return [DualPipe().order(stage, stages, micro_batches) for stage in range(stages)]


def costs(forward: int, inputs: int, weights: int) -> Costs:
    return {"F": forward, "I": inputs, "W": weights, "B": inputs + weights}


def bubble(blocks: Sequence[Sequence[Block]], time: Costs, micro_batches: int) -> int:
    """What equal stages wait without communication, if a block begins with all its inputs and hands on at its end."""
    hops = [hop for route in routes(len(blocks), 1, 2) for hop in pairwise(route)]
    before, after = {b: a for a, b in hops}, dict(hops)
    ends: dict[tuple[int, str, int], int] = {}  # by stage, kind, micro-batch; B and I alike
    free, todo = [0] * len(blocks), [list(order) for order in blocks]
    while any(todo):
        for stage, order in enumerate(todo):
            while order:
                needs = [(stage, "B", a.micro_batch) for a in order[0] if a.kind == "W"]
                for action in order[0]:
                    kind, come_from = ("F", before) if action.kind == "F" else ("B", after)
                    if action.kind != "W" and (stage, action.chunk) in come_from:
                        needs.append((come_from[stage, action.chunk][0], kind, action.micro_batch))
                if not all(need in ends for need in needs):
                    break
                block = order.pop(0)
                free[stage] = max([free[stage], *(ends[need] for need in needs)]) + sum(time[a.kind] for a in block)
                for action in block:
                    ends[stage, action.kind.replace("I", "B"), action.micro_batch] = free[stage]
    return max(free) - micro_batches * (time["F"] + time["B"])


def one_by_one(order: Block) -> list[Block]:
    return [(action,) for action in order]


def overlapped(order: Block, stage: int, stages: int, micro_batches: int) -> list[Block]:
    """Every forward with the backward that overlaps it, as published: in the main steps, and in those that run out."""
    inner = min(stage, stages - 1 - stage)
    outer = stages // 2 - 1 - inner
    start = 2 * outer + 2 * (inner + 1) + 3 * outer
    alone, steps, rest = order[:start], order[start:], one_by_one(order[start:])
    blocks: list[Block] = []
    for _ in range(micro_batches // 2 - stages + inner + 1):
        blocks += [steps[:2], steps[2:4]]
        steps = steps[4:]
    for _ in range(outer):
        blocks += [steps[:1], steps[1:3]]
        steps = steps[3:]
    if not outer and blocks:  # the stages in the middle do not overlap their first two
        blocks[:1] = rest[:2]
    return [*one_by_one(alone), *blocks, *one_by_one(steps)]


def test_reads_like_the_published_steps() -> None:
    """Four stages, four micro-batches from each end."""
    assert [text(order) for order in orders(4, 8)] == [
        "F0 F1 F2 F4.1 I4.1 W4.1 F5.1 F3 B5.1 F6.1 B0 B6.1 F7.1 B1 B7.1 I2 W2 I3 W3",
        "F0 F4.1 F1 F5.1 F2 B4.1 F6.1 B0 F3 B5.1 F7.1 B1 B6.1 B2 I7.1 I3 W7.1 W3",
        "F4.1 F0 F5.1 F1 F6.1 B0 F2 B4.1 F7.1 B1 F3 B5.1 B2 B6.1 I3 I7.1 W3 W7.1",
        "F4.1 F5.1 F6.1 F0 I0 W0 F1 F7.1 B1 F2 B4.1 B2 F3 B5.1 B3 I6.1 W6.1 I7.1 W7.1",
    ]


def test_figure_5_of_the_report() -> None:
    """8 stages, 20 micro-batches in two directions; the first stage and one in the middle, direction by direction."""
    first, middle = orders(8, 20)[0], orders(8, 20)[3]

    assert text(first[:16]) == "F0 F1 F2 F3 F4 F5 F6 F10.1 I10.1 W10.1 F11.1 I11.1 W11.1 F12.1 I12.1 W12.1"
    assert text(first[16:29]) == "F13.1 F7 B13.1 F14.1 B0 F8 B14.1 F15.1 B1 F9 B15.1 F16.1 B2"
    assert text(first[29:38]) == "B16.1 F17.1 B3 B17.1 F18.1 B4 B18.1 F19.1 B5"
    assert text(first[38:]) == "B19.1 I6 W6 I7 W7 I8 W8 I9 W9"
    assert text(middle[:12]) == "F0 F10.1 F1 F11.1 F2 F12.1 F3 F13.1 F4 B10.1 F14.1 B0"
    assert text(middle[-16:]) == "F9 B15.1 F19.1 B5 B16.1 B6 B17.1 B7 I18.1 I8 I19.1 I9 W18.1 W8 W19.1 W9"


@pytest.mark.parametrize(("stages", "micro_batches"), SHAPES)
def test_the_two_halves_of_the_stages_mirror_each_other(stages: int, micro_batches: int) -> None:
    half = micro_batches // 2
    for stage, order in enumerate(orders(stages, micro_batches)):
        mirrored = [Action(a.kind, (a.micro_batch + half) % micro_batches, 1 - a.chunk) for a in order]
        assert tuple(mirrored) == DualPipe().order(stages - 1 - stage, stages, micro_batches)


@given(st.integers(1, 8), st.integers(0, 20))
def test_keeps_one_more_than_there_are_stages(pairs: int, more: int) -> None:
    """Table of the repository: activations PP + 1, from 2 PP micro-batches on; with fewer the ends keep PP."""
    stages = 2 * pairs
    enough = 2 * stages + 2 * more

    assert walk(orders(stages, enough), enough) == (stages + 1,) * stages
    if pairs > 1:
        assert walk(orders(stages, enough - 2 * more - 2), 2 * stages - 2) == (
            stages,
            *(stages + 1,) * (stages - 2),
            stages,
        )


@given(st.integers(1, 6), st.integers(0, 10), st.integers(1, 100), st.data())
def test_bubble_where_each_pass_hands_on_when_it_ends(pairs: int, more: int, forward: int, data: st.DataObject) -> None:
    """(p / 2 - 1) (F + I - W): what ZB-H1 has, for half of the stages."""
    inputs = data.draw(st.integers(-(-forward // 2), forward))
    weights = data.draw(st.integers(forward - inputs, inputs))
    stages, micro_batches = 2 * pairs, 4 * pairs - 2 + 2 * more
    time = costs(forward, inputs, weights)

    blocks = [one_by_one(order) for order in orders(stages, micro_batches)]

    assert bubble(blocks, time, micro_batches) == (pairs - 1) * (forward + inputs - weights)


@given(st.integers(1, 6), st.integers(0, 10), st.integers(1, 100), st.data())
def test_bubble_as_published_where_overlapped_passes_hand_on_together(
    pairs: int, more: int, forward: int, data: st.DataObject
) -> None:
    """(PP / 2 - 1) (F&B + B - 3 W), with F&B = F + B and F = I; else (PP / 2 - 1) (2 F + I - W).

    What a shared step keeps until its end costs (PP / 2 - 1) F against the test above.
    """
    inputs = data.draw(st.integers(-(-forward // 2), forward))
    weights = data.draw(st.integers(forward - inputs, inputs))
    stages, micro_batches = 2 * pairs, 4 * pairs - 2 + 2 * more

    def waited(time: Costs) -> int:
        blocks = [
            overlapped(order, stage, stages, micro_batches) for stage, order in enumerate(orders(stages, micro_batches))
        ]
        return bubble(blocks, time, micro_batches)

    time = costs(forward, forward, weights)
    both = time["F"] + time["B"]
    assert waited(time) == (pairs - 1) * (both + time["B"] - 3 * time["W"])
    assert waited(costs(forward, inputs, weights)) == (pairs - 1) * (2 * forward + inputs - weights)


def test_half_the_bubble_of_the_zero_bubble_schedule() -> None:
    """The table, at F = I = W = 1: ZB1P (PP - 1) (F + B - 2 W) = 7, DualPipe (PP / 2 - 1) (F&B + B - 3 W) = 6."""
    time = costs(1, 1, 1)
    zero_bubble = [one_by_one(ZbH1().order(stage, 8, 20)) for stage in range(8)]
    published = [overlapped(order, stage, 8, 20) for stage, order in enumerate(orders(8, 20))]

    assert bubble(zero_bubble, time, 20) == 7
    assert bubble(published, time, 20) == 6
    assert bubble([one_by_one(order) for order in orders(8, 20)], time, 20) == 3


@pytest.mark.parametrize(
    ("stages", "micro_batches", "chunks", "message"),
    [
        (
            5,
            12,
            1,
            "stages = 5: dualpipe pairs every stage with the one opposite, and the one in the middle has none; "
            "cut the model into an even number of stages",
        ),
        (
            4,
            7,
            1,
            "micro_batches = 7: dualpipe sends half of them each way, and 4 stages need 6 or more; "
            "make it an even number, 6 or more",
        ),
        (
            4,
            4,
            1,
            "micro_batches = 4: dualpipe sends half of them each way, and 4 stages need 6 or more; "
            "make it an even number, 6 or more",
        ),
        (
            4,
            8,
            2,
            "chunks = 2: dualpipe takes one chunk per stage, one range of layers; "
            "use one, or choose schedule=interleaved",
        ),
    ],
)
def test_what_it_cannot_serve_is_refused(stages: int, micro_batches: int, chunks: int, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        DualPipe().order(0, stages, micro_batches, chunks)

    assert str(caught.value) == message


def test_half_of_the_micro_batches_go_each_way() -> None:
    assert by_direction(8, 2) == (range(4), range(4, 8))
    assert routes(4, 1, 2) == (((0, 0), (1, 0), (2, 0), (3, 0)), ((3, 1), (2, 1), (1, 1), (0, 1)))
    assert routes(2, 2, 2)[1] == ((1, 2), (0, 2), (1, 3), (0, 3))
