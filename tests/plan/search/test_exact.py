from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.plans import best_plan
from tests.plan.search.small import question, tables_of
from xsim.plan.search.exact import Proof, small_enough
from xsim.plan.search.hunt import Hunt
from xsim.plan.search.orders import Space
from xsim.plan.search.price import fits, price
from xsim.plan.search.relaxed import bound_ps
from xsim.spec.scenario import Scenario

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
DEVICES, LAYERS = (6, 8) if SOAK else (4, 6)


@st.composite
def questions(draw: st.DrawFn) -> Scenario:
    """Up to ``DEVICES`` devices of two or three kinds, with much memory or little."""
    kinds = draw(st.permutations(["fast", "slow", "wide"]))[: draw(st.integers(2, 3))]
    counts = [draw(st.integers(1, 2 if not SOAK else 4)) for _ in kinds]
    while sum(counts) > DEVICES:
        counts[counts.index(max(counts))] -= 1
    return question(
        *zip(kinds, counts, strict=True),
        layers=draw(st.integers(4, LAYERS)),
        batch=draw(st.sampled_from([4, 6, 8])),
        memory=draw(st.sampled_from([0.05, 0.1, 0.2, 1.0])),
        hidden=draw(st.sampled_from([256, 1024])),
    )


@settings(max_examples=300 if SOAK else 8)
@given(questions(), st.sampled_from([1, 2]), st.sampled_from([1, 2]))
def test_the_plan_of_a_small_cluster_is_the_best_that_there_is(asked: Scenario, width: int, micro_batch: int) -> None:
    known = tables_of(asked)
    hunt = Hunt(known, Space(stages=8, width=width, micro_batch=micro_batch))

    hunt.look()
    assert small_enough(hunt, 1_000_000)
    Proof.of(hunt).search()

    best = best_plan(known, stages=8, width=width, micro_batch=micro_batch)
    assert (hunt.best.time_ps if hunt.best else None) == best
    assert hunt.proven
    if hunt.best is not None:
        assert price(hunt.best.sketch, known) == hunt.best.priced
        assert fits(hunt.best.sketch, known)
        assert hunt.best.sketch.samples == asked.batch
        counts = [kind.count for kind in known.kinds]
        first = hunt.best.time_ps
        assert bound_ps(hunt.listed(), counts, asked.batch, hunt.caps(), 2 * first) <= first


def test_a_budget_that_is_too_small_still_has_a_plan() -> None:
    hunt = Hunt(tables_of(question(("fast", 2), ("slow", 2))), Space(stages=8, width=4, micro_batch=8), budget=2)

    hunt.look()
    Proof.of(hunt).search()

    assert hunt.truncated
    assert not hunt.proven
    assert hunt.best is not None
