"""What the options of the planners of other systems change, and what each does that the others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.plan.toy import cluster, device, model
from tests.planning import random_scenario, scenarios, site_of
from xsim.errors import NoPlanError, SpecError
from xsim.families import build
from xsim.plan.memory import deployment_memory
from xsim.plan.planner.amp import Amp
from xsim.plan.planner.cephalo import Cephalo
from xsim.plan.planner.hexiscale import Hexiscale
from xsim.plan.planner.malleus import Malleus
from xsim.plan.planner.metis import Metis
from xsim.plan.planner.sailor import Sailor
from xsim.plan.planner.uniform import Uniform
from xsim.plan.planner.xsim import Xsim
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.search.price import price
from xsim.plan.search.tables import tables
from xsim.plan.sketch import sketch_of
from xsim.spec.cluster import DeviceSpec, rank_devices
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

FAST, SLOW = device("fast", 200.0, 16.0), device("slow", 50.0, 4.0)
UNLIKE = Scenario(
    cluster=cluster(4, 4, devices=(FAST, SLOW)),
    model=model(layers=8, hidden=1024, heads=16, ffn=4096, seq_len=512, vocab=32000),
    batch=32,
)


def found(planner: object, asked: Scenario = UNLIKE) -> DeploymentPlan:
    return planner.plan(asked, site_of(asked))  # type: ignore[attr-defined, no-any-return]


def free(own: DeviceSpec) -> DeviceSpec:
    return replace(own, price_usd_per_hour=0.0)


def tps(plan: DeploymentPlan) -> set[int]:
    return {group.tp for _, group in plan.groups()}


def layers(plan: DeploymentPlan) -> list[list[int]]:
    return [[len(stage.layers[0]) for stage in replica.stages] for replica in plan.replicas]


def test_the_best_grid_is_the_shortest_of_all() -> None:
    best = found(Uniform(search=True))

    priced = tables(UNLIKE, site_of(UNLIKE))
    for tp in (1, 2, 4):
        for pp in (1, 2, 4, 8):
            for micro_batch in (1, 2, 4):
                try:
                    other = found(Uniform(tp=tp, pp=pp, micro_batch=micro_batch))
                except SpecError:
                    continue
                times = [price(sketch_of(plan, UNLIKE), priced).iteration_ps for plan in (best, other)]
                assert times[0] <= times[1]


def test_a_searched_grid_is_not_told_its_degrees() -> None:
    for name in ("tp", "pp", "micro_batch"):
        with pytest.raises(SpecError, match=rf"^planner.{name} = 2: search: true finds it; leave it out"):
            build("planner", {"name": "uniform", "search": True, name: 2})
    with pytest.raises(SpecError, match=r"^chunks = 2: with search: true stages are not virtual"):
        Uniform(search=True, chunks=2)


def test_grids_that_cannot_be_are_passed_over_and_if_none_can_it_is_said_why() -> None:
    assert {len(found(Uniform(search=True, zero=3, cp=cp)).replicas[0].stages) for cp in (0, 1)} == {1}
    mixture = replace(UNLIKE, model=replace(UNLIKE.model, bias=False, experts=4, experts_per_token=2))
    with pytest.raises(NoPlanError, match=r"\.ep = 8: the model has 4 experts; write ep: 4 or less"):
        found(Uniform(search=True, ep=8), mixture)


def test_the_cheapest_plan_needs_prices() -> None:
    with pytest.raises(
        SpecError, match=r"^planner.objective = 'cost': no device of fast, slow has a price_usd_per_hour"
    ):
        found(
            Sailor(objective="cost"), cheap := replace(UNLIKE, cluster=cluster(4, 4, devices=(free(FAST), free(SLOW))))
        )
    with pytest.raises(
        SpecError, match=r"^planner.objective = 'cost': no device of fast, slow has a price_usd_per_hour"
    ):
        found(Xsim(objective="cost"), cheap)


def test_a_searched_grid_keeps_what_else_it_is_told() -> None:
    plan = found(Uniform(search=True, zero=1, recompute="full", bucket="10 MB"))

    assert (plan.zero, plan.bucket_bytes) == (1, 10_000_000)
    assert all(stage.recompute for replica in plan.replicas for stage in replica.stages)


def test_degrees_and_micro_batches_are_limited() -> None:
    """A wide model is cut over tensor ranks unless that is forbidden."""
    tight = replace(UNLIKE, cluster=cluster(4, 4, devices=(replace(FAST, memory_bytes=10**9), SLOW)))
    for planner in (Amp(), Metis()):
        assert max(tps(found(planner, tight))) > 1
    for planner in (Amp(largest_tp=1), Metis(largest_tp=1)):
        with pytest.raises(SpecError, match=r"lacks \d+\.\d\d GB"):
            found(planner, replace(tight, model=replace(UNLIKE.model, hidden=2048, ffn=8192)))
    assert tps(found(Hexiscale(largest_tp=1))) == {1}
    for planner in (Amp(largest_micro_batch=1), Metis(largest_micro_batch=1)):
        assert {group.samples for _, group in found(planner).groups()} == {1}


def test_metis_tries_more_if_stages_may_be_smaller_and_fewer_orders_if_they_are_tied() -> None:
    odd = replace(
        UNLIKE,
        cluster=cluster(4, 4, 4, 2, devices=(FAST, FAST, FAST, SLOW)),
        model=replace(UNLIKE.model, layers=5),
        batch=16,
    )
    plans = [found(planner, odd) for planner in (Metis(variance=0.0), Metis(), Metis(blocks=1))]

    priced = tables(odd, site_of(odd))
    smaller, usual, tied = (price(sketch_of(plan, odd), priced).iteration_ps for plan in plans)
    assert smaller < usual < tied
    with pytest.raises(SpecError, match="variance = 2"):
        Metis(variance=2.0)


def test_sailor_is_cheap_or_fast() -> None:
    """By cost it lets the dear slow devices idle."""
    dear = replace(UNLIKE, cluster=cluster(4, 4, devices=(FAST, replace(SLOW, price_usd_per_hour=9.0))))

    used = [
        {rank for _, group in found(Sailor(objective=objective), dear).groups() for rank in group.ranks}
        for objective in ("time", "cost")
    ]

    assert used[0] > used[1]
    assert used[1] <= {0, 1, 2, 3}
    with pytest.raises(SpecError, match="objective = 'joy'"):
        Sailor(objective="joy")


def test_sailor_has_even_stages_and_no_more_than_told() -> None:
    plan = found(Sailor())

    assert {len(held) for held in layers(plan)} != {2}
    assert len(found(Sailor(stages=2)).replicas[0].stages) <= 2


def test_malleus_gives_fast_pipelines_more_micro_batches() -> None:
    plan = found(Malleus(tp=1, dp=2, micro_batch=1))

    assert len(plan.replicas) == 2
    assert tps(plan) == {1}
    assert {replica.micro_batch for replica in plan.replicas} == {1}
    assert all(replica.micro_batches >= len(replica.stages) for replica in plan.replicas)
    assert found(Malleus(tp=2, dp=1, micro_batch=2)).replicas[0].micro_batch == 2


def test_malleus_looks_at_few_deals_if_told() -> None:
    once, often = (found(Malleus(tp=1, dp=3, micro_batch=1, evaluations=count)) for count in (1, 50))

    priced = tables(UNLIKE, site_of(UNLIKE))
    assert once != often
    times = [max(end for _, _, end in price(sketch_of(p, UNLIKE), priced).pipelines) for p in (often, once)]
    assert times[0] < times[1]


def test_hexiscale_is_seeded_and_starts_where_told() -> None:
    assert found(Hexiscale(evaluations=3, seed=1)) == found(Hexiscale(evaluations=3, seed=1))
    assert len({found(Hexiscale(evaluations=1, seed=seed)) for seed in range(8)}) > 1
    assert len(found(Hexiscale(pipelines=4, evaluations=1)).replicas) == 4
    assert found(Hexiscale(micro_batch=2)).replicas[0].micro_batch == 2


def test_hexiscale_deals_layers_by_memory() -> None:
    (stages,) = layers(found(Hexiscale(pipelines=1, evaluations=1, micro_batch=1)))

    assert sorted(stages)[0] < sorted(stages)[-1]


def test_cephalo_shares_samples_by_speed_and_states_by_memory() -> None:
    (replica,) = found(Cephalo()).replicas
    groups = replica.stages[0].groups

    fast, slow = groups[0], groups[-1]
    assert fast.samples > slow.samples
    assert fast.state_shares > slow.state_shares
    assert (replica.micro_batches, sum(group.samples for group in groups)) == (1, 32)


def test_cephalo_cuts_the_batch_where_told_or_where_memory_is_short() -> None:
    assert found(Cephalo(steps=4)).replicas[0].micro_batches == 4
    little = replace(UNLIKE, batch=512)
    assert found(Cephalo(), little).replicas[0].micro_batches > 1
    with pytest.raises(SpecError, match=r"planner.steps = 3: it does not divide the batch of 32"):
        found(Cephalo(steps=3))


def test_cephalo_deals_states_out_by_what_all_else_leaves() -> None:
    """So that memory is used to the last: no rank is fuller than another of what its samples, the buckets that are
    whole at a time and the framework leave, with the gaps between tensors."""
    tight = replace(UNLIKE, framework_bytes=10**9, fragmentation=0.2)
    plan = found(Cephalo(), tight)

    devices = rank_devices(tight.cluster)
    full = []
    for rank, need in deployment_memory(tight, plan, OneFOneB().order).needs:
        states = need.weight_bytes + need.gradient_bytes + need.optimizer_bytes
        others = need.activation_bytes + need.workspace_bytes + need.buffer_bytes
        full.append(states / ((devices[rank].memory_bytes - 10**9) * 0.8 - others))
    assert max(full) == pytest.approx(min(full), rel=1e-3)


@pytest.mark.parametrize(("seed", "part"), [(29, 2), (93, 4), (109, 4), (131, 4)])
def test_cephalo_leaves_room_for_the_layers_that_are_whole_beside_samples(seed: int, part: int) -> None:
    """Memory that all ranks together have is enough: then what no share of states mends is not taken as samples."""
    asked = random_scenario(seed)
    hosts = [
        replace(own, devices=tuple(replace(slot, device=_smaller(slot.device, part)) for slot in own.devices))
        for own in asked.cluster.hosts
    ]

    (replica,) = found(Cephalo(), replace(asked, cluster=replace(asked.cluster, hosts=tuple(hosts)))).replicas

    assert replica.micro_batches == 1


def _smaller(whole: DeviceSpec, part: int) -> DeviceSpec:
    return replace(whole, memory_bytes=whole.memory_bytes // part)


def test_cephalo_fits_more_if_it_computes_again() -> None:
    small = [replace(own, memory_bytes=1_500_000_000) for own in (FAST, SLOW)]
    tight = replace(UNLIKE, batch=256, cluster=cluster(4, 4, devices=tuple(small)))

    kept, again = found(Cephalo(), tight), found(Cephalo(recompute="full"), tight)

    assert again.replicas[0].micro_batches < kept.replicas[0].micro_batches
    assert {entry.operator for entry in again.replicas[0].stages[0].recompute} == {"full"}


def test_metis_looks_no_further_than_told() -> None:
    priced = tables(UNLIKE, site_of(UNLIKE))
    few, many = (found(Metis(evaluations=count)) for count in (1, 150_000))

    assert len(few.replicas[0].stages) == 1
    times = [price(sketch_of(plan, UNLIKE), priced).iteration_ps for plan in (many, few)]
    assert times[0] < times[1]
    assert found(Metis(evaluations=1, faithful=True)) != found(Metis(faithful=True))


@settings(max_examples=max(3, settings().max_examples // 10))
@given(scenarios())
def test_metis_misses_nothing_by_what_it_leaves_out(asked: Scenario) -> None:
    def plan() -> DeploymentPlan | None:
        try:
            return found(Metis(), asked)
        except SpecError:
            return None

    pruned = plan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xsim.plan.planner.metis._Search._bound_ps", lambda *_: 0)
        assert plan() == pruned
