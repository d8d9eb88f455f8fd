"""What is left after devices have failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.search.small import PlanningSite, question, tables_of
from tests.plan.search.test_planner_xsim import ASKED, planned
from xsim.errors import SpecError
from xsim.fabric.topology.one_switch import OneSwitch
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.planner.repair import Repair
from xsim.plan.planner.xsim import Xsim
from xsim.plan.search.price import price
from xsim.plan.search.survivors import without
from xsim.plan.sketch import place, sketch_of
from xsim.spec.cluster import rank_devices, rank_kinds
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

BARE = question(("fast", 4), ("slow", 4), layers=4, batch=24)
WHOLE = range(1, 5)
GIVEN = replace(
    BARE,
    deployment=place(
        Sketch(
            (
                Pipeline((SketchStage(WHOLE, (Copies("fast", 2),)),), 1, 8, count=2),
                Pipeline((SketchStage(WHOLE, (Copies("slow", 4),)),), 1, 8),
            )
        ),
        BARE,
    ),
)


def repaired(planner: Repair, asked: Scenario = GIVEN) -> DeploymentPlan:
    return planner.plan(asked, PlanningSite(OneSwitch().build(asked.cluster), asked.dtype_bytes))


def test_without_a_loss_nothing_changes() -> None:
    assert repaired(Repair()) == GIVEN.deployment


def test_shrinking_leaves_the_other_ranks_of_the_group_with_less_of_the_batch() -> None:
    found = repaired(Repair(lost=(1,)))

    assert [group.ranks for _, group in found.groups()] == [(0,), (2, 3), (4, 5, 6, 7)]
    assert found.samples == 24
    narrow, wide, _ = (replica.micro_batches for replica in found.replicas)
    assert narrow < wide


def test_dropping_leaves_its_samples_to_the_other_replicas() -> None:
    found = repaired(Repair(lost=(1, 6), how="drop"))

    assert [group.ranks for _, group in found.groups()] == [(2, 3)]
    assert found.samples == found.replicas[0].micro_batches == 24


def test_the_batch_is_dealt_out_so_that_the_last_ends_soonest() -> None:
    found = repaired(Repair(lost=(1,)))

    known = tables_of(BARE)
    ends = [end for _, _, end in price(sketch_of(found, BARE), known).pipelines]
    paces = [straggler for _, straggler, _ in price(sketch_of(found, BARE), known).pipelines]
    assert max(ends) - min(ends) <= max(paces)


@pytest.mark.parametrize(
    ("planner", "told"),
    [
        (Repair(lost=(0, 1)), "no device left; write how: drop, or choose planner=xsim"),
        (Repair(lost=(0, 2, 4), how="drop"), "every replica has lost a device"),
        (Repair(lost=(8,)), r"planner.lost = 8: the cluster toy has 8 ranks"),
        (Repair(lost=tuple(range(8))), "no device is left"),
    ],
)
def test_what_cannot_be_repaired_is_told(planner: Repair, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        repaired(planner)


def altered(number: int, **change: object) -> Scenario:
    """What is given, with a change to the group of one replica."""
    assert GIVEN.deployment is not None
    replicas = list(GIVEN.deployment.replicas)
    (stage,) = replicas[number].stages
    groups = (replace(stage.groups[0], **change),)  # type: ignore[arg-type]
    replicas[number] = replace(replicas[number], stages=(replace(stage, groups=groups),))
    return replace(GIVEN, deployment=replace(GIVEN.deployment, replicas=tuple(replicas)))


@pytest.mark.parametrize("how", ["shrink", "drop"])
@pytest.mark.parametrize(("name", "value"), [("tp_shares", (2.0, 1.0, 1.0, 1.0)), ("cp", 2)])
def test_what_has_no_price_is_refused_by_the_path_of_the_deployment(how: str, name: str, value: object) -> None:
    with pytest.raises(SpecError, match=rf"^deployment.replicas\[2\].stages\[0\].groups\[0\].{name} = "):
        repaired(Repair(lost=(0,), how=how), altered(2, **{name: value}))  # type: ignore[arg-type]


def test_what_is_left_out_or_stays_as_it_is_needs_no_price() -> None:
    asked = altered(0, tp_shares=(2.0, 1.0))

    assert repaired(Repair(), asked) == asked.deployment
    assert len(repaired(Repair(lost=(0,), how="drop"), asked).replicas) == 2
    with pytest.raises(SpecError, match=r"replicas\[0\].stages\[0\].groups\[0\].tp_shares"):
        repaired(Repair(lost=(0,)), asked)


def test_there_must_be_a_deployment() -> None:
    with pytest.raises(SpecError, match="nothing to repair"):
        repaired(Repair(lost=(1,)), BARE)


def test_a_cluster_keeps_its_other_devices_in_order() -> None:
    left = without(BARE.cluster, {1, 4})

    devices = rank_devices(BARE.cluster)
    assert rank_devices(left) == tuple(devices[rank] for rank in (0, 2, 3, 5, 6, 7))
    assert [host.size for host in left.each_host()] == [3, 3]
    assert without(BARE.cluster, {0, 1, 2, 3}).ranks == 4


@pytest.mark.parametrize("lost", [(0,), (0, 3), (2, 3)])
def test_a_plan_from_scratch_uses_none_that_is_lost(lost: tuple[int, ...]) -> None:
    found = planned(Xsim(top=0, lost=lost))

    used = {rank for _, group in found.groups() for rank in group.ranks}
    assert used.isdisjoint(lost)
    assert found.samples == ASKED.batch
    smaller = replace(ASKED, cluster=without(ASKED.cluster, lost))
    assert found.predicted_ps is not None
    assert found.predicted_ps == pytest.approx(planned(Xsim(top=0), smaller).predicted_ps, rel=0.05)
    with pytest.raises(SpecError, match=r"planner.lost = 9"):
        planned(Xsim(lost=(9,)))


def slowed(asked: Scenario, speed: float) -> Scenario:
    """The first device at another speed."""
    first, *others = asked.cluster.hosts
    (slot,) = first.devices
    slow = replace(slot, device=replace(slot.device, speed=speed), count=1)
    hosts = (replace(first, devices=(slow, replace(slot, count=slot.count - 1))), *others)
    return replace(asked, cluster=replace(asked.cluster, hosts=hosts))


def test_slowed_devices_are_a_kind_of_their_own() -> None:
    assert rank_kinds(slowed(BARE, 0.5).cluster) == ("fast@0.5", "fast", "fast", "fast", *["slow"] * 4)
    assert rank_kinds(BARE.cluster) == tuple(device.name for device in rank_devices(BARE.cluster))


def test_a_replica_with_a_slow_device_is_left_less_of_the_batch() -> None:
    before = repaired(Repair(how="keep"))
    after = repaired(Repair(how="keep"), slowed(GIVEN, 0.5))

    assert [group.ranks for _, group in after.groups()] == [group.ranks for _, group in before.groups()]
    assert after.samples == before.samples == 24
    assert after.replicas[0].micro_batches < before.replicas[0].micro_batches
    assert after.replicas[1].micro_batches > after.replicas[0].micro_batches


def test_a_slow_device_is_left_out_like_a_failed_one() -> None:
    found = repaired(Repair(lost=(0,)), slowed(GIVEN, 0.5))

    assert [group.ranks for _, group in found.groups()] == [(1,), (2, 3), (4, 5, 6, 7)]


def test_what_is_lost_cannot_be_kept() -> None:
    with pytest.raises(SpecError, match=r"planner.lost = \[0\]: the deployment uses a rank of it; write how: shrink"):
        repaired(Repair(lost=(0,), how="keep"))


def test_a_plan_from_scratch_leaves_less_to_a_slow_device() -> None:
    asked = slowed(BARE, 0.1)
    found = Xsim(top=0, proof=0).plan(asked, PlanningSite(OneSwitch().build(asked.cluster), asked.dtype_bytes))

    alike = [replica for replica in found.replicas if any(0 in group.ranks for group in replica.stages[0].groups)]
    mixed = [group for _, group in found.groups() if 0 in group.ranks and len(group.ranks) > 1]
    assert not mixed
    assert all(replica.samples < 24 // len(found.replicas) or len(replica.stages) > 1 for replica in alike)


@pytest.mark.parametrize("lost", [(0,), (1, 2, 3)])
def test_slow_devices_or_the_others_of_their_name_may_all_be_lost(lost: tuple[int, ...]) -> None:
    asked = slowed(BARE, 0.5)
    planner = Xsim(top=0, proof=0, lost=lost)
    found = planner.plan(asked, PlanningSite(OneSwitch().build(asked.cluster), asked.dtype_bytes))

    assert {rank for _, group in found.groups() for rank in group.ranks}.isdisjoint(lost)
    assert found.samples == asked.batch
