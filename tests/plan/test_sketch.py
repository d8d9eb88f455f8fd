from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import device, model
from xsim.errors import SpecError
from xsim.plan.forms import merged, unplaced
from xsim.plan.sketch import Copies, Pipeline, Sketch, SketchStage, check, place, sketch_of
from xsim.spec.cluster import (
    ClusterSpec,
    DeviceSlot,
    HostSpec,
    LinkSpec,
    NicSpec,
    ScaleOutSpec,
    rank_devices,
    rank_hosts,
)
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.scenario import Scenario

LINK = LinkSpec(bandwidth_bytes_per_s=5e10, latency_ps=1_000_000)
KINDS = {name: device(name, tflops) for name, tflops in (("fast", 200.0), ("slow", 50.0), ("odd", 80.0))}


def hosts(*counts: tuple[tuple[str, int], ...]) -> ClusterSpec:
    """A host per entry, which says how many of each kind it has."""
    nic = NicSpec(bandwidth_bytes_per_s=5e10, latency_ps=1_000_000)
    return ClusterSpec(
        name="toy",
        hosts=tuple(
            HostSpec(devices=tuple(DeviceSlot(device=KINDS[name], count=count) for name, count in own), nic=nic)
            for own in counts
        ),
        scale_out=ScaleOutSpec(uplink=LINK),
    )


def asked(cluster: ClusterSpec, batch: int, layers: int = 6) -> Scenario:
    return Scenario(cluster=cluster, model=model(layers=layers), batch=batch)


TWO_KINDS = hosts((("fast", 4),), (("fast", 4),), (("slow", 8),))


def pipeline(*stages: SketchStage, micro_batch: int = 4, micro_batches: int = 2, count: int = 1) -> Pipeline:
    return Pipeline(stages, micro_batch, micro_batches, count)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Sketch, Scenario]:
    """A plan that takes its copies from the hosts of a cluster of mixed and unequal ones, so that there is room."""
    own = st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 8)), min_size=1, max_size=2, unique_by=str)
    cluster = hosts(*(tuple(each) for each in draw(st.lists(own, min_size=1, max_size=5))))
    free = [[kind, count] for host in cluster.hosts for kind, count in ((s.device.name, s.count) for s in host.devices)]
    layers = draw(st.integers(1, 6))
    pipelines: list[Pipeline] = []
    while not pipelines or (len(pipelines) < 4 and free and draw(st.booleans())):
        cuts = [1, *sorted(draw(st.sets(st.integers(2, layers), max_size=3)) if layers > 1 else ()), layers + 1]
        stages = []
        for start, stop in pairwise(cuts):
            copies = _copies(draw, free)
            if not copies:
                break
            again = ((draw(st.sampled_from(("full", "selective", "qkv"))), draw(st.integers(1, stop - start))),)
            stages.append(SketchStage(range(start, stop), copies, again * draw(st.integers(0, 1)), draw(st.booleans())))
        if not stages:
            break
        stages[-1] = replace(stages[-1], layers=range(stages[-1].layers.start, layers + 1))
        width = prod(stage.width for stage in stages)
        pipelines.append(Pipeline(tuple(stages), width * draw(st.integers(1, 2)), draw(st.integers(1, 4))))
    sketch = Sketch(tuple(pipelines), name=draw(st.sampled_from(("", "drawn"))))
    return sketch, asked(cluster, sketch.samples, layers)


def _copies(draw: st.DrawFn, free: list[list[object]]) -> tuple[Copies, ...]:
    found = []
    for _ in range(draw(st.integers(1, 3))):
        if not free:
            break
        slot = draw(st.sampled_from(free))
        most = slot[1]
        assert isinstance(most, int)
        tp = draw(st.integers(1, most))
        count = draw(st.integers(1, most // tp))
        slot[1] = most - tp * count
        if not slot[1]:
            free.remove(slot)
        found.append(Copies(str(slot[0]), tp, count))
    return tuple(found)


@given(drawn())
def test_a_checked_plan_is_a_legal_deployment_and_comes_back(case: tuple[Sketch, Scenario]) -> None:
    sketch, scenario = case
    try:
        check(sketch, scenario)
    except SpecError as refusal:
        assert "free" in refusal.problem or "heads" in refusal.problem  # noqa: PT017
        return

    deployment = place(sketch, scenario)

    ranks = [rank for _, group in deployment.groups() for rank in group.ranks]
    assert len(set(ranks)) == len(ranks) == sum(sketch.devices.values())
    assert deployment.samples == scenario.batch
    hosts_of, devices = rank_hosts(scenario.cluster), rank_devices(scenario.cluster)
    for _, group in deployment.groups():
        assert len({hosts_of[rank] for rank in group.ranks}) == len({devices[rank].name for rank in group.ranks}) == 1
    for replica in deployment.replicas:
        assert [layer for stage in replica.stages for layer in stage.layers[0]] == list(
            range(scenario.model.layers + 2)
        )
    back = sketch_of(deployment, scenario)
    assert unplaced(back) == merged(sketch, scenario.model.layers)
    assert place(back, scenario) == deployment
    assert place(sketch, scenario) == deployment


def test_tensor_groups_share_hosts_and_pipelines_keep_together() -> None:
    """The plan of ETH's figure 5 in small: the wide pipeline first, then two narrow ones, side by side."""
    sketch = Sketch(
        (
            pipeline(SketchStage(range(1, 4), (Copies("fast", 4),)), SketchStage(range(4, 7), (Copies("fast", 2, 2),))),
            pipeline(
                SketchStage(range(1, 5), (Copies("slow", 2),)),
                SketchStage(range(5, 7), (Copies("slow", 1, 2),)),
                micro_batches=1,
                count=2,
            ),
        )
    )

    deployment = place(sketch, asked(TWO_KINDS, 16))

    found = [[[g.ranks for g in stage.groups] for stage in replica.stages] for replica in deployment.replicas]
    assert found == [
        [[(0, 1, 2, 3)], [(4, 5), (6, 7)]],
        [[(8, 9)], [(10,), (11,)]],
        [[(12, 13)], [(14,), (15,)]],
    ]
    assert [stage.samples for stage in deployment.replicas[0].stages] == [4, 4]


def test_copies_of_a_stage_keep_together_where_that_is_asked_for() -> None:
    """The stage with most copies first, in the host that it fills: the others share what is left."""
    uneven = hosts((("fast", 2),), (("fast", 4),))
    stages = (SketchStage(range(1, 4), (Copies("fast", 1),)), SketchStage(range(4, 7), (Copies("fast", 1, 2),)))
    sketch = Sketch((pipeline(*stages, micro_batches=1, count=2),))

    by_pipelines, by_copies = (place(sketch, asked(uneven, 8), together) for together in ("pipelines", "copies"))

    found = [
        [[g.ranks[0] for g in stage.groups] for replica in plan.replicas for stage in replica.stages]
        for plan in (by_pipelines, by_copies)
    ]
    assert found == [[[0], [1, 2], [3], [4, 5]], [[0], [2, 3], [1], [4, 5]]]


def test_groups_that_do_not_fit_in_order_are_packed_largest_first() -> None:
    """2, 1, 3, 2 on hosts of 4: in order the last finds two hosts with one free device each."""
    four = hosts((("fast", 4),), (("fast", 4),))
    stages = (
        SketchStage(range(1, 3), (Copies("fast", 2),)),
        SketchStage(range(3, 4), (Copies("fast", 1),)),
        SketchStage(range(4, 5), (Copies("fast", 3),)),
        SketchStage(range(5, 7), (Copies("fast", 2),)),
    )

    deployment = place(Sketch((pipeline(*stages),)), asked(four, 8))

    assert [stage.groups[0].ranks for stage in deployment.replicas[0].stages] == [(4, 5), (3,), (0, 1, 2), (6, 7)]


def test_ranks_that_are_given_are_kept() -> None:
    given_ranks = SketchStage(range(1, 4), (Copies("fast", 2, ranks=((6, 5),)),))
    rest = SketchStage(range(4, 7), (Copies("fast", 4),))

    deployment = place(Sketch((pipeline(given_ranks, rest),)), asked(TWO_KINDS, 8))

    assert [group.ranks for _, group in deployment.groups()] == [(6, 5), (0, 1, 2, 3)]


def test_an_end_may_be_a_stage_of_its_own() -> None:
    one = (Copies("fast", 1),)
    sketch = Sketch(
        (pipeline(SketchStage(range(1), one), SketchStage(range(1, 7), one), SketchStage(range(7, 8), one)),)
    )

    deployment = place(sketch, asked(TWO_KINDS, 8))

    assert [stage.layers[0] for stage in deployment.replicas[0].stages] == [range(1), range(1, 7), range(7, 8)]
    assert unplaced(sketch_of(deployment, asked(TWO_KINDS, 8))) == sketch


WHOLE = range(1, 7)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (
            (SketchStage(WHOLE, (Copies("h900", 1),)),),
            "plan.pipelines[0].stages[0].copies[0].device = 'h900': the cluster toy has none; choose one of fast, slow",
        ),
        (
            (SketchStage(WHOLE, (Copies("fast", 8),)),),
            "plan.pipelines[0].stages[0].copies[0].tp = 8: no host has more than 4 fast; write 4 or less",
        ),
        (
            (SketchStage(WHOLE, (Copies("fast", 3, 4),)),),
            "plan.devices[fast] = 12: the cluster toy has 8, 4 too few; use fewer of them, or another cluster",
        ),
        (
            (SketchStage(WHOLE, (Copies("fast", 3), Copies("fast", 2, 1), Copies("fast", 3), Copies("slow", 1))),),
            "plan.pipelines[0].stages[0].copies[1].tp = 2: the hosts have at most 1 free fast each once the larger ",
        ),
        (
            (SketchStage(range(1, 3), (Copies("fast", 1),)), SketchStage(range(4, 7), (Copies("fast", 1),))),
            "plan.pipelines[0].stages[1].layers = 4..6: the stage before it ends at layer 2; start it at layer 3",
        ),
        (
            (SketchStage(range(1, 6), (Copies("fast", 1),)),),
            "plan.pipelines[0].stages[0].layers = 1..5: the last layer is 6 (or 7, the head); end there",
        ),
        (
            (SketchStage(WHOLE, (Copies("fast", 1),), (("qkv", 7),)),),
            "plan.pipelines[0].stages[0].recompute = 'qkv in 7': the stage has 6 transformer layers; write 1 to 6",
        ),
        (
            (SketchStage(WHOLE, (Copies("fast", 1),), (("conv", 1),)),),
            "plan.pipelines[0].stages[0].recompute = 'conv': no layer of this model has such an operator; choose",
        ),
        (
            (SketchStage(WHOLE, (Copies("fast", 2, 2, ranks=((0, 1),)),)),),
            "plan.pipelines[0].stages[0].copies[0].ranks = [(0, 1)]: there are 2 copies; list the ranks of each",
        ),
        (
            (SketchStage(WHOLE, (Copies("fast", 2, ranks=((0, 9),)),)),),
            "plan.pipelines[0].stages[0].copies[0].ranks = [0, 9]: rank 9 is a slow; choose ranks of fast, or name",
        ),
        (
            (SketchStage(WHOLE, (Copies("fast", 2, ranks=((3, 4),)),)),),
            "plan.pipelines[0].stages[0].copies[0].ranks = [3, 4]: they are not all in one host; cut a copy over the",
        ),
    ],
)
def test_what_no_deployment_can_be(stages: tuple[SketchStage, ...], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        check(Sketch((pipeline(*stages),)), asked(TWO_KINDS, 8))

    assert str(caught.value).startswith(message)


def test_samples_sum_to_micro_batch_and_batch() -> None:
    unequal = SketchStage(WHOLE, (Copies("fast", 1, 2, samples=1), Copies("slow", 1, samples=2)))
    assert place(Sketch((pipeline(unequal),)), asked(TWO_KINDS, 8)).samples == 8
    with pytest.raises(SpecError, match=r"^plan.samples = 8: the scenario has a batch of 9; "):
        check(Sketch((pipeline(unequal),)), asked(TWO_KINDS, 9))
    with pytest.raises(SpecError, match=r"^stages\[0\].copies = .*: of a micro-batch of 3 they take 4; "):
        pipeline(unequal, micro_batch=3)
    with pytest.raises(SpecError, match=r"^stages\[0\].copies = 3: 3 copies cannot take equal parts of .* of 4; "):
        pipeline(SketchStage(WHOLE, (Copies("fast", 1, 3),)))


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (
            Stage(groups=(DeviceGroup(ranks=(7, 8), samples=1),), layers=(range(1, 7),)),
            "deployment.replicas[0].stages[0].groups[0].ranks = [7, 8]: it has fast and slow, and a plan in kinds of ",
        ),
        (
            Stage(groups=(DeviceGroup(ranks=(0, 1), samples=1, tp_shares=(2, 1)),), layers=(range(1, 7),)),
            "deployment.replicas[0].stages[0].groups[0].tp_shares = (2, 1): it cannot be said in kinds and counts of ",
        ),
        (
            Stage(groups=(DeviceGroup(ranks=(0,), samples=1),), layers=(range(1, 4), range(4, 7))),
            "deployment.replicas[0].stages[0].layers = [range(1, 4), range(4, 7)]: virtual stages cannot be said in ",
        ),
    ],
)
def test_what_kinds_and_counts_cannot_say(stage: Stage, message: str) -> None:
    deployment = DeploymentPlan(replicas=(Replica(stages=(stage,), micro_batch=1, micro_batches=8),))

    with pytest.raises(SpecError) as caught:
        sketch_of(deployment, asked(TWO_KINDS, 8))

    assert str(caught.value).startswith(message)


def test_what_states_are_kept_is_placed_and_comes_back() -> None:
    """Unequal batches and shares of states, as Cephalo has them."""
    copies = (
        Copies("fast", 1, 2, samples=3, state_shares=(2.5,)),
        Copies("slow", 1, 2, samples=1, state_shares=(1.0,)),
    )
    sharded = Sketch((pipeline(SketchStage(WHOLE, copies), micro_batch=8, micro_batches=1),), zero=3)

    deployment = place(sharded, asked(TWO_KINDS, 8))

    assert [group.state_shares for _, group in deployment.groups()] == [(2.5,), (2.5,), (1.0,), (1.0,)]
    assert unplaced(sketch_of(deployment, asked(TWO_KINDS, 8))) == sharded
    with pytest.raises(SpecError, match=r"state_shares = \[2.5\]: with zero: 0 every rank keeps all states of its own"):
        check(replace(sharded, zero=0), asked(TWO_KINDS, 8))
    wide = replace(copies[0], tp=2, count=1, samples=6)
    with pytest.raises(SpecError, match=r"state_shares = \[2.5\]: 1 shares for 2 ranks"):
        check(Sketch((pipeline(SketchStage(WHOLE, (wide, copies[1])), micro_batch=8),), zero=1), asked(TWO_KINDS, 16))


def test_recomputation_is_counted_by_operator() -> None:
    again = tuple(Recompute(operator="qkv", layers=part) for part in (range(1, 3), range(2, 4)))
    own = Stage(groups=(DeviceGroup(ranks=(0,), samples=1),), layers=(range(1, 7),), recompute=again)
    deployment = DeploymentPlan(replicas=(Replica(stages=(own,), micro_batch=1, micro_batches=8),))

    assert sketch_of(deployment, asked(TWO_KINDS, 8)).pipelines[0].stages[0].recompute == (("qkv", 3),)
