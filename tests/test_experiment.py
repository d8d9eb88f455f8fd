"""The whole: every combination finishes and is accounted for, and what is wrong is told."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.account_checker import check_account
from tests.examples import FIG4, SMALL, load
from tests.topologies import TOPOLOGIES
from xsim.errors import PlanError, SpecError
from xsim.experiment import DoesNotFitError, Experiment, Result, run
from xsim.families import build, names
from xsim.plan.comm import CommPlan, Transfer
from xsim.plan.contracts import Estimate, Site
from xsim.plan.halves import RingHalves
from xsim.plan.layout import Layout
from xsim.plan.reshard.lcm import Lcm
from xsim.spec.cluster import ClusterSpec, NicSpec
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.trace import trace_events

BUSY: dict[str, dict[str, object]] = {  # so that much is sent within its tens of milliseconds
    "none": {},
    "load": {"load": 0.6, "size": "4 MB"},
    "job": {"pause": "1 ms"},
    "incast": {"period": "1 ms"},
}

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SWITCHED = ("reshard", "collective", "schedule", "network")


def all_pairs(families: Sequence[str]) -> list[tuple[str, ...]]:
    """Choices of a member of each family, so few that any two members of two families are in one together."""
    open_pairs = {
        frozenset(((a, x), (b, y)))
        for a, b in itertools.combinations(families, 2)
        for x, y in itertools.product(names(a), names(b))
    }

    choices = []
    while open_pairs:
        choice = dict(min(map(sorted, open_pairs)))
        for family in families:
            if family not in choice:
                fresh = {
                    name: sum(frozenset((other, (family, name))) in open_pairs for other in choice.items())
                    for name in names(family)
                }
                choice[family] = max(fresh, key=fresh.__getitem__)
        choices.append(tuple(choice[family] for family in families))
        open_pairs -= {frozenset(pair) for pair in itertools.combinations(choice.items(), 2)}
    return choices


@pytest.mark.parametrize(
    ("choice", "topology"),
    [
        pytest.param(*one, id="-".join((*one[0], one[1])))
        for one in list(zip(all_pairs(SWITCHED), itertools.cycle(TOPOLOGIES)))[:: 1 if SOAK else 3]
    ],
)
def test_every_pair_of_members_finishes_and_is_accounted_for(choice: tuple[str, ...], topology: str) -> None:
    """The pairs of four families, on one topology after another; without a soak every third of these choices."""
    members = {family: _member(family, name) for family, name in zip(SWITCHED, choice, strict=True)}

    wired = TOPOLOGIES[topology]
    result = run(Experiment(scenario=SMALL, memory="report", verify=True, topology=wired, **members))

    check_account(result.workload, result.timeline)
    assert result.account.causes_ps.sum(axis=1).tolist() == [result.timeline.makespan_ps] * 10


def _member(family: str, name: str) -> Any:
    """With packets as large as they may be: a simulation takes its time by their number."""
    return build(family, {"name": name} | ({"payload_bytes": 1 << 20} if name == "packet" else {}))


@pytest.mark.parametrize("collective", names("collective"))
@pytest.mark.parametrize("network", names("network"))
def test_every_collective_is_proven_in_a_whole_run(collective: str, network: str) -> None:
    members = {"collective": build("collective", {"name": collective}), "network": _member("network", network)}

    result = run(Experiment(scenario=SMALL, memory="report", verify=True, **members))

    check_account(result.workload, result.timeline)
    assert result.account.causes_ps.sum(axis=1).tolist() == [result.timeline.makespan_ps] * 10


@pytest.mark.parametrize("background", names("background"))
@pytest.mark.parametrize("network", names("network"))
def test_background_traffic_delays_the_training_where_links_are_shared(background: str, network: str) -> None:
    alone = Experiment(scenario=SMALL, memory="report", network=_member("network", network))
    quiet, shared = (
        run(alone),
        run(replace(alone, background=build("background", {"name": background} | BUSY[background]))),
    )

    check_account(shared.workload, shared.timeline)
    assert shared.optimality == quiet.optimality
    if background == "none":
        assert shared.metrics == quiet.metrics
    else:
        assert sum(size for _, size in shared.metrics.link_bytes) > sum(size for _, size in quiet.metrics.link_bytes)
        assert shared.metrics.flows > quiet.metrics.flows
    if background == "none" or network == "analytic":
        assert shared.timeline.makespan_ps == quiet.timeline.makespan_ps
        assert np.array_equal(shared.account.causes_ps, quiet.account.causes_ps)
    else:
        assert shared.timeline.makespan_ps > quiet.timeline.makespan_ps
        assert np.array_equal(shared.account.cause_ps("compute"), quiet.account.cause_ps("compute"))


def test_background_traffic_repeats_with_its_seed() -> None:
    busy = build("background", {"name": "load"} | BUSY["load"])
    experiments = [Experiment(scenario=SMALL, memory="report", background=busy, seed=seed) for seed in (1, 1, 2)]
    first, again, other = (run(experiment).metrics for experiment in experiments)

    assert first == again
    assert first.training_time_s != other.training_time_s


def test_memory_is_enforced_or_reported() -> None:
    huge = replace(FIG4, model=replace(FIG4.model, hidden=16384, ffn=65536))

    with pytest.raises(DoesNotFitError, match=r"rank \d+ .* needs .* and has .* too little"):
        run(Experiment(scenario=huge))
    assert not run(Experiment(scenario=huge, memory="report")).metrics.fits


def test_shares_in_proportion_to_speed_take_the_wait_out_of_an_unlike_group() -> None:
    """Ranks 0 and 1 are A100 of 312 TFLOPS, 2..5 are H100 of 756: an even cut lets the faster wait."""
    cluster = load(ClusterSpec, "xsim_testbed_pcie")
    found = []
    for shares in ((), (312.0, 312.0, 756.0, 756.0, 756.0, 756.0)):
        group = DeviceGroup(ranks=tuple(range(6)), samples=1, tp_shares=shares)
        stage = Stage(groups=(group,), layers=(range(1, 33),))
        plan = DeploymentPlan(replicas=(Replica(stages=(stage,), micro_batch=1, micro_batches=4),))
        model = load(ModelSpec, "llama2_7b")
        question = Scenario(cluster=cluster, model=model, batch=4, deployment=plan)
        found.append(run(Experiment(scenario=question, memory="report", verify=True)).account)
    even, shared = found

    assert shared.makespan_ps < even.makespan_ps
    assert shared.cause_ps("straggler_wait")[2:].mean() < even.cause_ps("straggler_wait")[2:].mean() / 2


def test_every_strategy_moves_the_same_gradients() -> None:
    sizes = []
    for reshard, network in itertools.product(names("reshard"), names("network") if SOAK else ["analytic"]):
        members = {"reshard": build("reshard", {"name": reshard}), "network": _member("network", network)}
        workload = run(Experiment(scenario=SMALL, memory="report", **members)).workload
        sizes.append([(sync.layers, sync.size_bytes) for sync in workload.syncs])
    assert all(size == sizes[0] for size in sizes)


@pytest.mark.parametrize("network", names("network"))
@pytest.mark.parametrize("fold", [True, False])
def test_slow_links_are_slow_or_refused(network: str, fold: bool) -> None:
    """A wrapped integer would make them fast."""
    members = {"network": _member("network", network)}

    def run_with(nic: NicSpec) -> Result:
        hosts = tuple(replace(host, nic=nic) for host in FIG4.cluster.hosts)
        slow = replace(FIG4, cluster=replace(FIG4.cluster, hosts=hosts))
        return run(Experiment(scenario=slow, memory="report", fold=fold, **members))

    far = run_with(NicSpec(bandwidth_bytes_per_s=5e10, latency_ps=10**15))
    assert far.metrics.training_time_s > 2 * 2 * 1000
    with pytest.raises(SpecError, match=r"scenario = 'one iteration': it takes longer than 6\.7 days"):
        run_with(NicSpec(bandwidth_bytes_per_s=1e3, latency_ps=0))


class _Asks:
    """A planner that tries the given deployment before it proposes it, and prices a transfer."""

    def __init__(self) -> None:
        self.estimates: list[Estimate] = []
        self.prices_ps: list[int] = []

    def plan(self, scenario: Scenario, site: Site) -> DeploymentPlan:
        assert scenario.deployment is not None
        self.estimates.append(site.simulate(scenario.deployment))
        self.prices_ps.append(site.price(CommPlan((Transfer(0, 5, range(1000)),)), element_bytes=2))
        return scenario.deployment


def test_a_planner_may_simulate_and_price() -> None:
    planner = _Asks()

    result = run(Experiment(scenario=SMALL, planner=planner, memory="report"))

    assert planner.estimates == [Estimate(training_time_ps=result.timeline.makespan_ps, fits=True)]
    slowest = result.fabric.path_bandwidth_bytes_per_s(0, 5)
    assert planner.prices_ps == [int(2000 / (slowest * 1e-12) + 0.5) + result.fabric.path_latency_ps(0, 5)]


@dataclass(frozen=True)
class _Forgets(RingHalves):
    """A strategy that loses the last transfer of every hand-over."""

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        return CommPlan(Lcm().move(source, target, site).steps[:-1])

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        return Lcm().reduce(layouts, site)


def test_a_choice_is_in_the_result() -> None:
    best = build("reshard", {"name": "best", "among": ["lcm", "hetauto"]})

    result = run(Experiment(scenario=FIG4, reshard=best, memory="report"))

    moves, syncs = result.workload.moves, result.workload.syncs
    assert {move.strategy for move in moves} == {sync.strategy for sync in syncs} == {"lcm"}
    shown = [event["args"] for event in trace_events(result.workload, result.timeline) if event["ph"] == "b"]
    assert [args["strategy"] for args in shown] == ["lcm" for sync in syncs for _ in sync.programs]


def test_a_wrong_strategy_is_blamed() -> None:
    with pytest.raises(PlanError, match=r"_Forgets.move between ranks \[0, 1, 2\] and \[5, 6\]: .* rank \d+"):
        run(Experiment(scenario=SMALL, reshard=_Forgets(), memory="report", verify=True))
