from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.test_baselines import FAST, SLOW, UNLIKE, found
from tests.plan.toy import cluster
from tests.planning import site_of
from xsim.errors import SpecError
from xsim.plan.memory import deployment_memory
from xsim.plan.planner.metis import Metis
from xsim.plan.search.contracts import Seat
from xsim.plan.search.device_rows import TiedStage, Tying
from xsim.plan.search.metis_published import Published, dealt, shifted
from xsim.plan.search.stage_runs import StageRuns
from xsim.plan.search.tables import tables
from xsim.spec.cluster import LinkSpec
from xsim.spec.scenario import Scenario


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_cuts_ascend_and_may_end_too_early(layers: list[int], shares: list[int]) -> None:
    cuts = dealt([each / sum(layers) for each in layers], [each / sum(shares) for each in shares])

    assert len(cuts) == len(shares) + 1
    assert cuts[0] == 0
    assert all(a <= b for a, b in pairwise(cuts))
    assert cuts[-1] <= len(layers)


def test_few_stages_hold_all_layers_and_many_leave_some_out() -> None:
    assert dealt([0.1] * 10, [0.5] * 2) == (0, 5, 10)
    assert dealt([1 / 42] * 42, [1 / 33] * 33)[-1] < 42


def test_a_plan_of_two_stages_is_priced_by_its_first_if_kinds_are_in_their_second_order() -> None:
    """So few micro-batches look good: the second stage waits and nobody counts it."""
    published, exact = (found(Metis(faithful=faithful)).replicas[0] for faithful in (True, False))

    assert len(published.stages) == 2
    assert published.stages[0].groups[0].ranks == (4,)
    assert published.micro_batches < exact.micro_batches


def published(asked: Scenario) -> Published:
    priced = tables(asked, site_of(asked))
    return Published(Tying(StageRuns(priced), 0, 8), priced)


def test_samples_of_a_copy_beside_unlike_ones_count_as_sums_of_powers_of_two() -> None:
    """Of five that of four and that of one, where a stage of like devices takes what five take at once."""
    search, fast, slow = published(UNLIKE), Seat("fast", 1, 5, 1), Seat("slow", 1, 1, 1)

    def takes(samples: int) -> list[int]:
        (found,) = search.passes(TiedStage(1, (Seat("fast", 1, samples, 1),)))
        return [int(each) for each in found]

    of_both, _ = search.passes(TiedStage(1, (fast, slow)))

    assert of_both.tolist() == [a + b for a, b in zip(takes(4), takes(1), strict=True)]
    assert of_both.tolist() != takes(5)


def test_a_hand_over_counts_the_links_of_the_two_stages_that_it_is_between() -> None:
    links = {"fast": 2e11, "slow": 1e11}
    fabric = tuple(
        replace(host, devices=tuple(replace(s, scale_up=_link(links[s.device.name])) for s in host.devices))
        for host in UNLIKE.cluster.hosts
    )
    asked = replace(UNLIKE, cluster=replace(UNLIKE.cluster, hosts=fabric))
    search, cuts = published(asked), (0, 3, 6, 10)
    fast, slow = (TiedStage(1, (Seat(kind, 1, 1, 1),)) for kind in ("fast", "slow"))
    elements = asked.model.seq_len * asked.model.hidden

    def beside_passes(*stages: TiedStage) -> float:
        times = [int(search.passes(own)[0][a:b].sum()) for own, (a, b) in zip(stages, pairwise(cuts), strict=False)]
        cost = search.cost_ps(stages, cuts, asked.batch) - (asked.batch - 1) * max(times) - sum(times)
        return cost - max(
            search.priced.update_ps(own.seats[0].kind, 1, range(a, b))
            for own, (a, b) in zip(stages, pairwise(cuts), strict=False)
        )

    assert beside_passes(fast, fast) == pytest.approx(elements / 2e11 * 1e12)
    assert beside_passes(fast, fast, slow) == pytest.approx(elements * (1 / 2e11 + 1 / 1e11) * 1e12)


def test_what_a_full_stage_loses_goes_to_those_with_room() -> None:
    shares = shifted(np.array([0.5, 0.3, 0.2]), np.array([0.5, 1.0, 1.0]), np.array([False, True, False]))
    nobody = shifted(np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.array([False, False]))

    assert shares == pytest.approx([0.25, 0.55, 0.2])
    assert nobody == pytest.approx([0.5, 0.5])


def _link(bytes_per_s: float) -> LinkSpec:
    return LinkSpec(bandwidth_bytes_per_s=bytes_per_s, latency_ps=0)


def test_memory_is_not_looked_at_as_the_simulation_has_it() -> None:
    little = replace(SLOW, memory_bytes=500_000_000)
    tight = replace(UNLIKE, batch=8, cluster=cluster(4, 4, devices=(FAST, little)))
    site = site_of(tight)

    fits = [
        deployment_memory(tight, found(Metis(faithful=faithful), tight), site.schedule.order).fits
        for faithful in (False, True)
    ]

    assert fits == [True, False]


@pytest.mark.parametrize(
    ("counts", "layers", "batch", "message"),
    [
        ((4, 4, 1), 4, 16, "no plan fits by five times the weights and activations of a micro-batch; write"),
        ((4, 4, 1), 11, 16, "stage 6 of 7 of the plan that it chooses has no layers; write faithful: false"),
    ],
)
def test_a_plan_that_nobody_can_train_is_refused(
    counts: tuple[int, ...], layers: int, batch: int, message: str
) -> None:
    hardware = cluster(*counts, devices=(FAST, FAST, SLOW))
    asked = replace(UNLIKE, cluster=hardware, model=replace(UNLIKE.model, layers=layers), batch=batch)

    with pytest.raises(SpecError, match=f"^planner.faithful = True: {message}"):
        found(Metis(faithful=True), asked)
