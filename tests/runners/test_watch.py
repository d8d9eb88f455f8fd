"""A long simulation says how far it is, and is the same as one that nobody watches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

import pytest

from runners import watch
from runners.watch import Watched, watching
from runners.worker import attempted
from tests.examples import load
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.plan.contracts import Site
from xsim.plan.planner.uniform import Uniform
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S


def experiment() -> Experiment:
    scenario = Scenario(
        cluster=load(ClusterSpec, "fig4"),
        model=replace(load(ModelSpec, "llama2_7b"), seq_len=64),
        batch=24,
        deployment=load(DeploymentPlan, "fig4_7b"),
    )
    return Experiment(scenario=scenario, network=build("network", {"name": "flow"}), memory="report")


def test_who_watches_changes_nothing_and_sees_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    plain = run(experiment())

    with watching(experiment().network) as network:
        seen = run(replace(experiment(), network=network))

    assert seen.timeline.makespan_ps == plain.timeline.makespan_ps
    assert isinstance(network, Watched)
    assert network.opened is not None
    assert 0 < network.opened.now_ps <= plain.timeline.makespan_ps
    assert capsys.readouterr().err == ""


def test_of_several_iterations_it_is_told_which() -> None:
    watched = Watched(experiment().network, 3)
    assert watched.state(-1) == ("preparing iteration 1 of 3", -1)

    network = watched.open(experiment().topology.build(experiment().scenario.cluster), 0)
    assert watched.opened is network
    watched.begins(1)
    assert watched.opened is None
    assert watched.state(-1)[0] == "preparing iteration 2 of 3"


@dataclass(frozen=True, slots=True)
class Searching:
    """A planner that says how far it is."""

    def plan(self, scenario: Scenario, site: Site) -> DeploymentPlan:
        site.progress(3, 40, "orders")
        assert scenario.deployment is not None
        return replace(scenario.deployment, name="found", predicted_ps=2 * PS_PER_S)


def test_a_planner_says_how_far_it_is_and_what_it_predicts() -> None:
    watched, order = Watched(experiment().network), list[object]()

    def heard(done: int, of: int, what: str) -> None:
        watched.progress(done, of, what)
        order.append(watched.state(-1)[0])

    def begins(number: int) -> None:
        watched.begins(number)
        order.append(watched.state(-1)[0])

    def plans(begin: bool) -> None:
        watched.plans(begin)
        order.append(watched.state(-1)[0])

    found = run(replace(experiment(), planner=Searching()), begins, plans, heard)

    told = "preparing the iteration"
    assert order == ["planning", "the planner is at 3 of 40 orders", told, told]
    assert (found.metrics.plan, found.metrics.predicted_s) == ("found", 2.0)
    plain = run(experiment()).metrics
    assert (plain.plan, plain.predicted_s) == ("fig4_7b", None)
    assert plain.training_time_s == found.metrics.training_time_s


def test_what_the_planner_took_is_part_of_the_time() -> None:
    result, outcome = attempted(lambda: replace(experiment(), planner=Searching()))

    assert result is not None
    assert 0 < outcome["search_s"] < outcome["wall_s"]
    _, refused = attempted(lambda: replace(experiment(), planner=Uniform(tp=3)))
    assert refused["status"] == "invalid"
    assert "search_s" not in refused


def test_lines_tell_the_instant_or_that_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched(experiment().network)
    instants, answers = iter((3 * 10**9, 3 * 10**9, 7 * 10**9)), chain(repeat(False, 3), [True])

    class Standing:
        @property
        def now_ps(self) -> int:
            return next(instants)

    opened: Any = Standing()
    watched.opened = opened

    watch._in_lines(watched, lambda _: next(answers))

    lines = [line.split("] ")[1] for line in capsys.readouterr().err.splitlines()]
    still = ", exchanges are simulated alone"
    assert lines == ["3.000 ms of the iteration", f"3.000 ms of the iteration{still}", "7.000 ms of the iteration"]


def test_what_comes_before_the_simulation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(experiment().network)

    assert watched.state(-1) == ("preparing the iteration", -1)
    monkeypatch.setattr("xsim.sim.kernels.turn.compiles", lambda: True)
    assert watched.state(-1) == ("compiling the simulator, once", -1)
