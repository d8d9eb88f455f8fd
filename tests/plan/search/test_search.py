"""The parts of the search against plain Python, and against each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.oracles.knapsack import best_cut, most_gained
from tests.plan.search.small import PlanningSite, question, tables_of
from xsim.errors import NoSeatError, SpecError
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.search.batches import Running, dealt, soonest
from xsim.plan.search.columns import Columns
from xsim.plan.search.contracts import NEVER_PS, Seat
from xsim.plan.search.emit import best_placed
from xsim.plan.search.hunt import Hunt
from xsim.plan.search.kernels import fill, partition
from xsim.plan.search.orders import Space, every_order, orders
from xsim.plan.search.price import pass_ps, price
from xsim.plan.search.relaxed import packed
from xsim.plan.search.shapes import shaped
from xsim.plan.search.shortage import Shortage
from xsim.plan.search.stock import Stock, undominated
from xsim.plan.search.worth import Worth, front, worth
from xsim.plan.sketch import place
from xsim.units import PS_PER_S

INTS = st.integers(0, 30)
SPACE = Space(stages=8, width=4, micro_batch=8)


@given(
    st.data(),
    st.integers(1, 4),
    st.integers(1, 7),
    st.sampled_from([1.0, 1.3, 100.0, 2.0**20]),
    st.sampled_from([1, 10**12]),
)
def test_cuts_of_the_layers(data: st.DataObject, stages: int, layers: int, slack: float, unit: int) -> None:
    columns = []
    for _ in range(stages):
        fitting = sorted(unit * each for each in data.draw(st.lists(INTS, min_size=1, max_size=layers + 1)))
        columns.append([*fitting, *[NEVER_PS] * (layers + 1 - len(fitting))])
    sends = data.draw(st.lists(INTS, min_size=stages, max_size=stages))
    fills, stragglers = np.zeros(1, np.int64), np.zeros(1, np.int64)
    parts = np.zeros((1, stages), np.int64)

    rows = np.arange(stages, dtype=np.int64)[None]
    partition(rows, np.array([sends]), np.array(columns), slack, fills, stragglers, parts)

    best = best_cut(columns, sends, layers, slack)
    if best is None:
        assert fills[0] >= NEVER_PS
        return
    each = [column[own] for column, own in zip(columns, parts[0], strict=True)]
    straggler = max(own + sent for own, sent in zip(each, sends, strict=True))
    assert parts.sum() == layers
    assert fills[0] == sum(each) + sum(sends) == best[0]
    assert best[1] <= straggler == stragglers[0] <= int(best[1] * slack)


@given(st.data(), st.integers(1, 3))
def test_the_knapsack_gains_most(data: st.DataObject, kinds: int) -> None:
    has = data.draw(st.lists(st.integers(0, 4), min_size=kinds, max_size=kinds))
    needs = data.draw(st.lists(st.lists(st.integers(0, 3), min_size=kinds, max_size=kinds).filter(any), max_size=4))
    gains = data.draw(st.lists(st.integers(1, 20), min_size=len(needs), max_size=len(needs)))
    stock = Stock.of(has)
    matrix = np.array(needs, dtype=np.int64).reshape(len(needs), kinds)
    found, chosen = np.zeros(len(stock.places), np.int64), np.zeros(len(stock.places), np.int64)

    fill(stock.places, matrix, np.array(gains, dtype=np.int64), matrix @ stock.strides, found, chosen)

    assert found[-1] == most_gained(has, needs, gains)
    own = undominated(matrix, np.array(gains, dtype=np.int64)).tolist()
    assert most_gained(has, [needs[i] for i in own], [gains[i] for i in own]) == found[-1]


@given(st.data(), st.integers(1, 3), st.integers(1, 6))
def test_the_relaxed_knapsack_is_a_linear_program(data: st.DataObject, kinds: int, items: int) -> None:
    has = data.draw(st.lists(st.integers(0, 40), min_size=kinds, max_size=kinds))
    row = st.lists(st.integers(0, 6), min_size=kinds, max_size=kinds).filter(any)
    needs = np.array(data.draw(st.lists(row, min_size=items, max_size=items)), dtype=np.float64)
    gains = np.array(data.draw(st.lists(st.integers(0, 50), min_size=items, max_size=items)), dtype=np.float64)

    most, prices = packed(needs, gains, np.array(has, dtype=np.float64))

    best = -linprog(-gains, A_ub=needs.T, b_ub=has).fun
    assert most == pytest.approx(best, abs=1e-6)
    assert (needs @ prices >= gains - 1e-6).all()
    assert np.dot(prices, has) == pytest.approx(best, abs=1e-6)


@given(
    st.lists(
        st.tuples(INTS, st.integers(1, 9), st.sampled_from([1, 2, 3, 4]), st.integers(1, 2)), min_size=1, max_size=3
    ),
    st.integers(1, 14),
)
def test_local_batches_end_as_soon_as_can_be(each: list[tuple[int, int, int, int]], batch: int) -> None:
    pipelines = [Running(*own) for own in each]

    found = soonest(pipelines, batch)

    alone = [own for own in pipelines for _ in range(own.count)]
    ends = [
        max(own.fill_ps + (n - 1) * own.straggler_ps for own, n in zip(alone, turns, strict=True))
        for turns in product(*(range(1, batch // own.micro_batch + 1) for own in alone))
        if sum(n * own.micro_batch for own, n in zip(alone, turns, strict=True)) == batch
    ]
    if found is None:
        assert not ends
        return
    end, counts = found
    assert end == min(ends)
    assert [sum(own.values()) for own in counts] == [own.count for own in pipelines]
    dealt_out = zip(pipelines, counts, strict=True)
    assert sum(own.micro_batch * n * times for own, turns in dealt_out for n, times in turns.items()) == batch
    assert dealt(pipelines, [own.turns(end - 1) for own in pipelines], batch) is None


def test_a_stage_that_does_not_fit_computes_operators_again() -> None:
    known = tables_of(question(("fast", 1), ("slow", 1), memory=0.6, layers=6))
    columns = Columns(known)
    seat = Seat("slow", 1, 4)
    row = columns.rows[columns.number(seat, (True, False), 8)]
    plain = Columns(known, recompute=False)

    without = plain.rows[plain.number(seat, (True, False), 8)]

    fitting, again = (np.flatnonzero(each.time_ps < NEVER_PS).max() for each in (without, row))
    assert again > fitting >= 1
    for layers in range(1, again + 1):
        held = range(layers + 1)
        assert known.memory_bytes("slow", 1, 4, held, 8, row.again[layers]) <= known.capacity_bytes("slow")
        assert row.time_ps[layers] == pass_ps(known, seat, held, row.again[layers])
        assert bool(row.again[layers]) == (layers > fitting)


def test_the_fastest_operators_to_compute_again_are_taken_and_no_more_than_needed() -> None:
    known = tables_of(question(("fast", 1), ("slow", 1), memory=0.6, layers=6))
    columns = Columns(known)
    row = columns.rows[columns.number(Seat("slow", 1, 4), (True, False), 8)]
    own = known.operator_ps("slow", 1, 4)["transformer"]
    order = sorted(own, key=lambda name: (own[name][0] / own[name][1], name))

    for layers, again in enumerate(row.again):
        if again:
            *_, (name, count) = again
            fewer = tuple(entry for entry in (*again[:-1], (name, count - 1)) if entry[1])
            held = range(layers + 1)
            assert known.memory_bytes("slow", 1, 4, held, 8, fewer) > known.capacity_bytes("slow")
            names = {each for each, _ in again if each != "full"}
            assert names == set(order[: len(names)])


def test_few_orders_are_listed_one_by_one_and_many_by_patterns() -> None:
    known = tables_of(question(("fast", 2), ("slow", 2)))
    every = list(every_order(known, SPACE))

    few, complete = orders(known, SPACE)
    some, partly = orders(known, replace(SPACE, limit=10))

    assert (few, complete) == (every, True)
    assert not partly
    assert set(some) < set(every)


def test_units_make_large_stocks_small() -> None:
    stock = Stock.of([512, 1536])

    assert len(stock.places) <= 5000
    assert (stock.places[-1] * stock.units <= [512, 1536]).all()


def test_the_plan_is_the_same_every_time() -> None:
    first, second = (Hunt(tables_of(question(("fast", 4), ("slow", 4))), replace(SPACE, stages=3)) for _ in range(2))

    first.look()
    second.look()

    assert list(first.found.items()) == list(second.found.items())
    assert first.best == second.best


def test_a_pareto_set_has_what_no_other_beats() -> None:
    each = [Worth(1, 5.0, 5.0), Worth(2, 3.0, 5.0), Worth(2, 4.0, 5.0), Worth(3, 9.0, 1.0), Worth(1, 5.0, 5.0)]

    assert front(each) == [0, 1, 3]


def test_a_plan_that_takes_longer_idles_for_the_rest() -> None:
    asked = question(("fast", 1), layers=4)
    plan = Sketch((Pipeline((SketchStage(range(1, 5), (Copies("fast", 1),)),), 1, 16),))
    known = tables_of(asked)
    (kind,) = known.kinds

    own = worth(plan, price(plan, known), known)
    longer = own.taking(own.time_ps + 2 * PS_PER_S)

    assert kind.device.idle_power_w > 0
    assert longer.energy_j == pytest.approx(own.energy_j + 2 * kind.device.idle_power_w)
    assert longer.usd == pytest.approx(own.usd * longer.time_ps / own.time_ps)


def test_sums_grow_with_the_ring_and_updates_do_not() -> None:
    known = tables_of(question(("fast", 2), ("fast", 2), layers=4))
    shapes = shaped(Hunt(known, replace(SPACE, stages=1, width=1)).listed())
    (row,) = np.flatnonzero((shapes.micro_batch == 1) & (shapes.needs.sum(axis=1) == 1))

    each = shapes.beyond_ps(np.array([[count] for count in (1, 2, 4)]) + 0 * shapes.number)[:, row].tolist()

    update_ps, floor_ps = known.update_ps("fast", 1, range(6)), int(known.sync_floor_ps("fast", 1, (True, True))[4])
    assert update_ps > 0
    assert each == [update_ps, floor_ps + update_ps, floor_ps * 3 // 2 + update_ps]


def test_only_a_lack_of_seats_is_passed_over() -> None:
    asked = question(("fast", 4), ("fast", 4), batch=6)
    site = PlanningSite(OneSwitch().build(asked.cluster), asked.dtype_bytes)
    room = Sketch((Pipeline((SketchStage(range(1, 7), (Copies("fast", 1),)),), 1, 6),))
    three = Copies("fast", 3)
    seatless = Sketch((Pipeline((SketchStage(range(1, 7), (three, Copies("fast", 2), three)),), 6, 1),))
    wrong = Sketch((Pipeline((SketchStage(range(1, 7), (Copies("fast", 1),)),), 1, 3),))

    with pytest.raises(NoSeatError, match="once the larger copies have theirs"):
        place(seatless, asked)
    assert best_placed([(1, seatless), (2, room)], "amp", asked, site, Shortage()).samples == 6
    with pytest.raises(SpecError, match=r"plan\.samples = 3"):
        best_placed([(1, wrong), (2, room)], "amp", asked, site, Shortage())
