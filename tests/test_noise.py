"""Noise in whole runs: what it may change, and that several iterations are told as statistics has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import SMALL, experiments
from xsim.errors import SpecError
from xsim.experiment import Experiment, Result, run
from xsim.fabric.fabric import Fabric
from xsim.families import build
from xsim.iterations import Iterations
from xsim.plan.contracts import Noise
from xsim.plan.draw import Draw, Stall
from xsim.spec.cluster import rank_devices
from xsim.tables import iteration_table, operator_table, rank_table

NOISY = {"name": "devices", "stalls_per_hour": 100_000.0, "stall": "1 ms"}


FEW = settings(max_examples=settings().max_examples // 5)  # each takes several runs; all in soak


@dataclass(frozen=True, slots=True)
class Given:
    """A draw of one's own: speeds by rank, and (instant, duration) of stalls by rank."""

    speeds: tuple[float, ...] = ()
    stalls: tuple[tuple[tuple[int, int], ...], ...] = ()

    def draw(self, fabric: Fabric, seed: int, iteration: int) -> Draw:
        return Draw(self.speeds, stalls=self._stalls)

    def varies(self) -> bool:
        return False

    def _stalls(self, rank: int) -> Iterator[Stall]:
        own = self.stalls[rank] if rank < len(self.stalls) else ()
        return (Stall(*stall) for stall in sorted(own))


def given_speeds(low: float, high: float) -> st.SearchStrategy[tuple[float, ...]]:
    """One for each rank of ``experiments``, many of them alike."""
    values = st.one_of(st.just(1.0), st.floats(low, high))
    return st.lists(values, min_size=32, max_size=32).map(tuple)


# experiments take some milliseconds, in which a rank computes some hundreds of microseconds
STALLS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**9)), max_size=3).map(tuple)
ALL_STALLS = st.lists(STALLS, min_size=32, max_size=32).map(tuple)


def noisy(experiment: Experiment, noise: Given) -> Result:
    ranks = experiment.scenario.cluster.ranks
    return run(replace(experiment, noise=replace(noise, speeds=noise.speeds[:ranks]), memory="report"))


def same(one: Result, other: Result) -> bool:
    """Whether two results have the same account, times of operators and figures, to the last digit."""
    accounts = (one.account, other.account)
    causes, operators = ([getattr(a, name) for a in accounts] for name in ("causes_ps", "operators_ps"))
    return (
        one.metrics.row() == other.metrics.row()
        and all(np.array_equal(*pair) for pair in (causes, operators))
        and np.array_equal(one.timeline.end_ps, other.timeline.end_ps)
    )


@FEW
@given(experiment=experiments())
def test_speeds_of_one_and_no_stalls_change_nothing(experiment: Experiment) -> None:
    usual = run(replace(experiment, memory="report"))

    assert same(noisy(experiment, Given(speeds=(1.0,) * 32)), usual)
    still = build("noise", {"name": "devices", "spread": 0.0, "jitter": 0.0})
    assert same(run(replace(experiment, noise=still, memory="report")), usual)


@FEW
@given(experiment=experiments("analytic"), speeds=given_speeds(0.2, 1.0), stalls=ALL_STALLS)
def test_slower_devices_and_stalls_never_make_an_iteration_shorter_where_nothing_contends(
    experiment: Experiment, speeds: tuple[float, ...], stalls: tuple[tuple[tuple[int, int], ...], ...]
) -> None:
    usual = run(replace(experiment, memory="report")).timeline.makespan_ps
    slow = noisy(experiment, Given(speeds)).timeline.makespan_ps

    assert slow >= usual
    assert noisy(experiment, Given(speeds, stalls)).timeline.makespan_ps >= slow


@FEW
@given(experiment=experiments(), speeds=given_speeds(0.2, 3.0), stalls=ALL_STALLS)
def test_folding_changes_no_number_of_a_noisy_iteration(
    experiment: Experiment, speeds: tuple[float, ...], stalls: tuple[tuple[tuple[int, int], ...], ...]
) -> None:
    """And its account is checked as every account of a run is."""
    folded, walked = (noisy(replace(experiment, fold=fold), Given(speeds, stalls)) for fold in (True, False))

    assert same(folded, walked)


@FEW
@given(stalls=st.lists(st.tuples(st.integers(0, 10**11), st.integers(1, 10**10)), max_size=4), rank=st.integers(0, 9))
def test_a_stall_is_work_of_the_rank_alone(stalls: list[tuple[int, int]], rank: int) -> None:
    experiment = Experiment(scenario=SMALL, memory="report")
    usual = run(experiment)
    found = run(replace(experiment, noise=Given(stalls=((),) * rank + (tuple(stalls),))))
    position = found.account.ranks.tolist().index(rank)
    computed_ps = int((usual.account.cause_ps("compute") + usual.account.cause_ps("optimizer"))[position])
    stalled_ps = sum(for_ps for at_ps, for_ps in stalls if at_ps < computed_ps)

    column = found.account.operators_ps[:, found.account.operators.index("stall")].tolist()
    assert column == [stalled_ps if place == position else 0 for place in range(len(column))]
    for cause in ("compute", "optimizer"):
        more_ps = found.account.cause_ps(cause) - usual.account.cause_ps(cause)
        assert more_ps.tolist() == [time if cause == "compute" else 0 for time in column]
    ranks = rank_table(SMALL, found.workload, found.timeline, found.account, found.memory)
    assert np.asarray(ranks["speed"]).tolist() == [device.speed for device in rank_devices(SMALL.cluster)]
    assert ranks["compute_ps"][position] == found.account.cause_ps("compute")[position]
    assert ("stall" in operator_table(found.account)["operator"]) is (stalled_ps > 0)


def iterated(count: int, **options: object) -> Result:
    noise: Noise = build("noise", NOISY | options)
    return run(Experiment(scenario=SMALL, memory="report", noise=noise, iterations=count, seed=3))


def test_more_iterations_begin_with_the_same() -> None:
    four, seven = iterated(4), iterated(7)

    assert seven.iterations.times_ps[:4] == four.iterations.times_ps
    assert len(set(seven.iterations.times_ps)) == 7
    assert iterated(1).timeline.makespan_ps == four.iterations.times_ps[0]


@pytest.mark.parametrize("count", [4, 5])
def test_a_run_shows_the_iteration_with_the_median_time(count: int) -> None:
    told: list[int] = []
    noise = build("noise", NOISY)
    experiment = Experiment(scenario=SMALL, memory="report", noise=noise, iterations=count, seed=3)
    found = run(experiment, told.append)
    times_ps, row = found.iterations.times_ps, found.metrics.row()

    assert found.timeline.makespan_ps == sorted(times_ps)[(count - 1) // 2] == found.account.makespan_ps
    assert np.asarray(iteration_table(found.iterations)["iteration_ps"]).tolist() == list(times_ps)
    drawn = noise.draw(found.fabric, 3, times_ps.index(found.timeline.makespan_ps))
    assert found.speeds == tuple(device.speed for device in drawn.devices(rank_devices(SMALL.cluster)))
    assert told[:count] == list(range(count))
    assert told[count:] in ([], [times_ps.index(found.timeline.makespan_ps)])
    assert row["training_time_s"] == row["training_time_p50_s"] == found.timeline.makespan_ps / 10**12
    assert (row["iterations"], row["training_time_p99_s"]) == (count, max(times_ps) / 10**12)
    low, mean, high = (float(row[f"training_time_mean{part}_s"]) for part in ("_low", "", "_high"))
    assert min(times_ps) / 10**12 < mean < max(times_ps) / 10**12
    assert mean - low == pytest.approx(high - mean)
    assert low < mean


def test_background_traffic_alone_makes_iterations_unlike() -> None:
    load = build("background", {"name": "load", "load": 0.5, "size": "2 MB"})
    busy = Experiment(scenario=SMALL, memory="report", background=load)
    found = run(replace(busy, iterations=3))

    assert len(set(found.iterations.times_ps)) == 3
    assert found.iterations.times_ps[0] == run(busy).timeline.makespan_ps


@pytest.mark.parametrize(
    ("iterations", "noise", "message"),
    [
        (0, {"name": "none"}, "iterations = 0: it must be 1 or more; write 1 or more"),
        (
            2,
            {"name": "none"},
            "iterations = 2: neither noise nor background traffic makes one unlike another; "
            "write 1, or choose noise=devices, say",
        ),
        (
            2,
            {"name": "devices", "jitter": 0.0},
            "iterations = 2: neither noise nor background traffic makes one unlike another; "
            "write 1, or choose noise=devices, say",
        ),
    ],
)
def test_iterations_that_are_all_alike_are_refused(iterations: int, noise: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        Experiment(scenario=SMALL, iterations=iterations, noise=build("noise", noise))

    assert str(caught.value) == message


def test_slow_nics_make_syncs_longer() -> None:
    slow = build("noise", {"name": "devices", "spread": 0.0, "jitter": 0.0, "slow_nics": 1.0, "slow_rate": 0.1})
    usual = run(Experiment(scenario=SMALL, memory="report"))
    found = run(Experiment(scenario=SMALL, memory="report", noise=slow))

    assert found.timeline.makespan_ps > usual.timeline.makespan_ps
    assert found.metrics.compute_time_s == usual.metrics.compute_time_s
    nics = np.array([link.kind == "nic" for link in found.fabric.links])
    rates = found.fabric.bandwidth_bytes_per_s / usual.fabric.bandwidth_bytes_per_s
    assert rates.tolist() == pytest.approx(np.where(nics, 0.1, 1.0).tolist())


@pytest.mark.parametrize("schedule", ["one_f_one_b", "dualpipe"])
def test_samples_that_come_late_delay_the_iteration_by_that(schedule: str) -> None:
    """However many ranks wait for them."""
    chosen = Experiment(scenario=SMALL, memory="report", schedule=build("schedule", {"name": schedule}))
    usual, late = run(chosen), run(replace(chosen, data_loading_ps=10**10))

    assert late.timeline.makespan_ps == usual.timeline.makespan_ps + 10**10
    assert late.timeline.start_ps.min() == 0
    assert 0 < dict(late.metrics.operator_time_s)["data_loading"] <= 0.01


def test_the_interval_of_a_mean_is_that_of_students_t() -> None:
    """t of 0.975 with one and four degrees of freedom is 12.7062 and 2.7764."""
    two, five = Iterations((10**12, 3 * 10**12)), Iterations(tuple(number * 10**12 for number in (5, 3, 4, 1, 2)))

    assert (two.mean_s, five.mean_s) == (2.0, 3.0)
    assert two.half_width_s == pytest.approx(12.7062 * math.sqrt(2) / math.sqrt(2), rel=1e-5)
    assert five.half_width_s == pytest.approx(2.7764 * math.sqrt(2.5) / math.sqrt(5), rel=1e-4)
    assert (two.median, five.median) == (0, 1)
    assert (five.percentile_s(50), five.percentile_s(99), five.percentile_s(20)) == (3.0, 5.0, 1.0)
    assert Iterations((7,)).half_width_s == 0
