"""What the search of ETH costs, and what each of its shortcuts saves: CPU time, and states and pipelines looked at."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.plan.search.small import PlanningSite
from xsim.fabric.topology.clos import Clos
from xsim.plan.planner.eth import Eth
from xsim.plan.search.groupings import groupings
from xsim.spec.cluster import ClusterSpec
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.spec.spellings import read_text

CONF = Path(__file__).parents[2] / "conf"
PAPER_S = 217  # ETH with all optimisations, 13B on 64 devices (arxiv.org/abs/2610.22035, section 7.4)
STEPS: tuple[dict[str, Any], ...] = (
    {},
    {"cache": True},
    {"skip": True},
    {"order": True},
    {"dynamic": "orders"},
    {"adaptive": True},
    {"bound": True},
    {"starts": 300},
)
PLAIN = Eth(cache=False, skip=False, order=False, dynamic="none", bound=False, starts=0, adaptive=False)


def scenario() -> Scenario:
    """GPT-3 13B on 32 x 910B2 and 32 x 910B4, a batch of 1024, as the grid eth_fig9 has it."""
    cluster = read_text(ClusterSpec, (CONF / "cluster/eth_rates_b2_b4.yaml").read_text(encoding="utf-8"))
    model = read_text(ModelSpec, (CONF / "model/gpt3_13b.yaml").read_text(encoding="utf-8"))
    return Scenario(cluster=cluster, model=replace(model, dropout=True), batch=1024, attention="unfused")


def cost(planner: Eth) -> tuple[float, int, int, int]:
    """CPU seconds, states, pipelines configured, and the iteration."""
    asked = scenario()
    site = PlanningSite(Clos().build(asked.cluster), asked.dtype_bytes)
    started = time.process_time()
    problem = planner.problem(asked, site)
    found = planner.search(problem)
    spent_s = time.process_time() - started
    return spent_s, problem.choice.balance.spent.states, found.configured, found.iteration_ps


def test_it_takes_a_tenth_of_the_papers_time(benchmark: Any) -> None:
    cost(Eth(unit=32))  # compiles
    spent_s, states, configured, iteration_ps = benchmark.pedantic(cost, args=(Eth(),), rounds=1)

    print(f"{spent_s:.1f} CPU s, {states} states, {configured} pipelines, {iteration_ps / 1e12:.3f} s an iteration")
    assert spent_s <= PAPER_S / 10


def test_shortcuts_save_forty_times_the_work(benchmark: Any) -> None:
    """Without them, units of four devices would take hours.

    Each kind of pipeline is configured once here, and counted as often as the 8,406 groupings have it.
    """
    asked = scenario()
    site = PlanningSite(Clos().build(asked.cluster), asked.dtype_bytes)
    problem = replace(PLAIN, unit=4).problem(asked, site)
    times: Counter[tuple[int, ...]] = Counter()
    for count in range(1, sum(problem.counts) + 1):
        for grouping in groupings(problem.counts, count):
            times.update(grouping)
    plain_s, plain_states = 0.0, 0
    spent = problem.choice.balance.spent
    for pipeline, often in times.items():
        started, states = time.process_time(), spent.states
        problem.configured(pipeline)
        plain_s += often * (time.process_time() - started)
        plain_states += often * (spent.states - states)
    spent_s, states, configured, _ = benchmark.pedantic(cost, args=(Eth(unit=4),), rounds=1)

    print(f"{plain_s:.0f} against {spent_s:.1f} CPU s, {plain_states} against {states} states, ", end="")
    print(f"{times.total()} against {configured} pipelines")
    assert plain_states >= 40 * states
    assert plain_s >= 40 * spent_s


def test_what_the_papers_shortcuts_alone_take(benchmark: Any) -> None:
    """Without ``bound`` and ``starts``, which the paper has not."""
    _, states, configured, iteration_ps = cost(Eth(unit=4))
    spent_s, more, as_many, same_ps = benchmark.pedantic(cost, args=(Eth(unit=4, bound=False, starts=0),), rounds=1)

    print(f"{spent_s:.1f} CPU s, {more} states, {as_many} pipelines, {same_ps / 1e12:.3f} s an iteration")
    assert more > 2 * states
    assert as_many == configured
    assert same_ps == iteration_ps


def test_each_shortcut_at_eight_devices_to_a_unit(benchmark: Any) -> None:
    iterations = benchmark.pedantic(_steps, rounds=1)
    assert max(iterations[:4]) == min(iterations[:4])


def _steps() -> list[int]:
    planner, iterations = replace(PLAIN, unit=8), []
    for change in STEPS:
        planner = replace(planner, **change)
        spent_s, states, configured, iteration_ps = cost(planner)
        print(change, f"{spent_s:.1f} CPU s, {states} states, {configured} pipelines, {iteration_ps / 1e12:.3f} s")
        iterations.append(iteration_ps)
    return iterations
