"""No small damage to a right plan escapes the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.plan.test_judge import TP2, rejects
from tests.strategies import SITE, disjoint_layouts, with_rings
from xsim.errors import PlanError
from xsim.fabric.transfers import TransferGraph, concatenate, line
from xsim.families import members
from xsim.plan import judge
from xsim.plan.comm import CommPlan, Step, Transfer
from xsim.plan.contracts import Reshard
from xsim.plan.judge import verify_gather, verify_move, verify_reduce, verify_reduce_scatter
from xsim.plan.layout import Layout
from xsim.plan.reshard.devicewise import Devicewise
from xsim.plan.reshard.hetauto import HetAuto
from xsim.plan.shards import shard_layout

Verify = Callable[[CommPlan | TransferGraph, Sequence[Layout]], None]

STRATEGIES = st.sampled_from([cls() for _, cls in members("reshard")])


class TestMutations:
    """A right plan with one thing wrong."""

    @given(many=disjoint_layouts(2, 3), data=st.data())
    def test_padding_forgotten(self, many: Sequence[Layout], data: st.DataObject) -> None:
        """Without it there is nothing to sum, or a replica's copy counts twice."""
        plan = Devicewise().reduce(many, SITE)
        assume(plan.zeros)
        forgotten = data.draw(st.sampled_from(plan.zeros))
        refused(replace(plan, zeros=tuple(part for part in plan.zeros if part != forgotten)), verify_reduce, many)

    @given(strategy=STRATEGIES, many=disjoint_layouts(2, 3), data=st.data())
    def test_a_step_dropped(self, strategy: Reshard, many: Sequence[Layout], data: st.DataObject) -> None:
        for plan, verify in judged(strategy, many):
            number = data.draw(st.integers(0, len(plan.steps) - 1))
            refused(without(plan, number), verify, many)

    @given(strategy=STRATEGIES, many=disjoint_layouts(2, 3), data=st.data())
    def test_a_transfer_added_again(self, strategy: Reshard, many: Sequence[Layout], data: st.DataObject) -> None:
        for plan, verify in judged(strategy, many):
            number, step = a_transfer(plan, data)
            if step is not None:
                again = replace(step, add=True, after=(*step.after, number))
                refused(with_inserted(plan, number + 1, again), verify, many)

    @given(strategy=STRATEGIES, many=disjoint_layouts(2, 3), data=st.data())
    def test_sender_and_receiver_swapped(self, strategy: Reshard, many: Sequence[Layout], data: st.DataObject) -> None:
        for plan, verify in judged(strategy, many):
            number, step = a_transfer(plan, data)
            if step is not None:
                refused(with_step(plan, number, replace(step, src=step.dst, dst=step.src)), verify, many)

    @given(strategy=STRATEGIES, many=disjoint_layouts(2, 3), data=st.data())
    def test_a_span_shifted(self, strategy: Reshard, many: Sequence[Layout], data: st.DataObject) -> None:
        for plan, verify in judged(strategy, many):
            number, step = a_transfer(plan, data)
            if step is not None:
                shifted = range(step.span.start + 1, step.span.stop + 1)
                refused(with_step(plan, number, replace(step, span=shifted)), verify, many)

    @pytest.mark.parametrize("number", range(4, 8))
    def test_a_wait_removed(self, number: int) -> None:
        """TP 6 to TP 4 over two leaders: steps 4 to 7 cross over and scatter; each needs what came before."""
        pair = Layout.even(tuple(range(6)), 12), Layout.even((6, 7, 8, 9), 12)
        plan = HetAuto().move(*pair, SITE)
        verify_move(plan, *pair)

        assert "neither waits for the other" in rejects(
            with_step(plan, number, replace(plan.steps[number], after=())), *pair
        )

    @pytest.mark.parametrize("row", range(4, 8))
    def test_a_wait_removed_from_a_graph(self, row: int) -> None:
        pair = Layout.even(tuple(range(6)), 12), Layout.even((6, 7, 8, 9), 12)
        graph = with_rings(HetAuto().move(*pair, SITE))
        free = replace(graph, pred_ptr=graph.pred_ptr.copy(), pred=graph.pred.copy())
        width = graph.pred_ptr[row + 1] - graph.pred_ptr[row]
        free.pred_ptr[row + 1 :] -= width

        kept = np.r_[graph.pred[: graph.pred_ptr[row]], graph.pred[graph.pred_ptr[row + 1] :]]
        assert "neither waits for the other" in rejects(replace(free, pred=kept), *pair)


class TestLarge:
    """Beyond the limit of exact proof, adversarial orders find what order was left to luck."""

    @pytest.fixture(autouse=True)
    def _small_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(judge, "EXACT", 0)

    @given(strategy=STRATEGIES, many=disjoint_layouts(2, 3))
    def test_right_plans_pass(self, strategy: Reshard, many: Sequence[Layout]) -> None:
        for plan, verify in judged(strategy, many):
            verify(with_rings(plan), many)

    def test_a_missing_wait_is_found(self) -> None:
        rows = [(line(0, 2, range(2)), [()]), (line(1, 2, range(2, 4)), [()]), (line(2, 3, range(4)), [()])]
        graph = concatenate(rows, ((0, 1, 2, 3),))

        assert "does not hold" in rejects(graph, TP2, Layout.even((3,), 4))


def judged(strategy: Reshard, many: Sequence[Layout]) -> list[tuple[CommPlan, Verify]]:
    """A move, a reduce and its halves with their judges; gradients that are summed in halves are cut."""
    move, reduce = strategy.move(many[0], many[1], SITE), strategy.reduce(many, SITE)
    cut = [replace(layout, replicated=False) for layout in many]
    shards = shard_layout(cut)
    return [
        (move, lambda plan, layouts: verify_move(plan, layouts[0], layouts[1])),
        (reduce, verify_reduce),
        (strategy.reduce_scatter(cut, shards, SITE), lambda plan, _: verify_reduce_scatter(plan, cut, shards)),
        (strategy.gather(shards, cut, SITE), lambda plan, _: verify_gather(plan, shards, cut)),
    ]


def refused(plan: CommPlan, verify: Verify, many: Sequence[Layout]) -> None:
    for form in (plan, with_rings(plan)):
        with pytest.raises(PlanError):
            verify(form, many)


def a_transfer(plan: CommPlan, data: st.DataObject) -> tuple[int, Transfer | None]:
    """Number and step of any transfer; None if the plan has none."""
    found = [(number, step) for number, step in enumerate(plan.steps) if isinstance(step, Transfer)]
    return data.draw(st.sampled_from(found)) if found else (0, None)


def with_step(plan: CommPlan, number: int, step: Step) -> CommPlan:
    return replace(plan, steps=(*plan.steps[:number], step, *plan.steps[number + 1 :]))


def without(plan: CommPlan, number: int) -> CommPlan:
    """Later steps keep waiting for the others."""
    steps = [step for i, step in enumerate(plan.steps) if i != number]
    renumbered = (replace(step, after=tuple(n - (n > number) for n in step.after if n != number)) for step in steps)
    return replace(plan, steps=tuple(renumbered))


def with_inserted(plan: CommPlan, number: int, step: Step) -> CommPlan:
    """``step`` becomes ``number``; who waited for the step before it waits for both."""
    later = [
        replace(old, after=tuple(n + (n >= number) for n in old.after) + ((number,) if number - 1 in old.after else ()))
        for old in plan.steps[number:]
    ]
    return replace(plan, steps=(*plan.steps[:number], step, *later))
