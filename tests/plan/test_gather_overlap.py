"""Parameters that are gathered beside the next forward pass: what of that is left to wait for, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest

from tests.account_checker import check_account
from tests.metrics.test_critical import check as check_path
from tests.plan.toy import GB_PER_S, US, cluster, device, model, plan, scenario, stage
from xsim.errors import SpecError
from xsim.experiment import Experiment, Result, run
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.workload import Action, Body, Compute, Fetch
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

SPEC = model(layers=4, hidden=64, heads=4, ffn=256, vocab=1000, seq_len=32, gated=True, tied=False)
ONE_STAGE = (stage((0,), layers=range(1, 5)),), (stage((1,), layers=range(1, 5)),)
TWO_STAGES = tuple((stage((a,), layers=range(1, 3)), stage((a + 1,), layers=range(3, 5))) for a in (0, 2))
ONE_LAYER = 2 * SPEC.layer_parameters(1)


def question(deployment: DeploymentPlan, *, tflops: float = 100.0, overlap: bool = True) -> Scenario:
    """``deployment`` with a bucket for each layer, one after the other, on a host for each rank."""
    asked = replace(deployment, zero=1, gather_overlap=overlap, bucket_bytes=ONE_LAYER, serial_sync=True)
    kinds = (device("toy", tflops),) * 4
    return scenario(cluster(1, 1, 1, 1, devices=kinds), SPEC, asked)


def simulated(asked: Scenario, *, fold: bool = True) -> Result:
    found = run(Experiment(scenario=asked, schedule=OneFOneB(), memory="report", verify=True, fold=fold))
    check_account(found.workload, found.timeline, found.account)
    check_path(found.workload, found.timeline)
    return found


def passes_ps(body: Body) -> list[int]:
    """What the group computes after each of its waits for parameters."""
    found: list[int] = []
    for step in body.steps:
        if isinstance(step, Fetch):
            found.append(0)
        elif isinstance(step, Compute):
            found[-1] += max(step.durations_ps)
    return found


@pytest.mark.parametrize(("tflops", "waits"), [(100.0, 6), (1.0, 6), (0.05, 2)])
def test_what_the_first_forward_pass_waits_for(tflops: float, waits: int) -> None:
    """Gathers follow one another from the beginning on; the pass through a layer begins when its own has come and the
    layers before it are through. Half a bucket goes each way, over six links of 1 us; PCIe is the narrowest. Where work
    is long there are waits for the embedding, which takes no time itself, and the first layer alone."""
    found = simulated(question(plan(*ONE_STAGE, micro_batches=2), tflops=tflops))

    workload, program = found.workload, found.workload.programs[0]
    ahead = [sync for sync in workload.syncs if sync.does == "ahead"]
    assert [sync.layers.start for sync in ahead] == [0, 1, 2, 3, 4, 5]
    comes_ps = list(accumulate(6 * US + round(sync.size_bytes / 2 / (32 * GB_PER_S) * 1e12) for sync in ahead))
    at_ps = waited_ps = waited = 0
    for come_ps, pass_ps in zip(comes_ps, passes_ps(program.body(Action("F", 0))), strict=True):
        waited_ps += max(0, come_ps - at_ps)
        waited += come_ps > at_ps
        at_ps = max(at_ps, come_ps) + pass_ps
    assert (int(found.timeline.end_ps[0]), waited) == (at_ps, waits)

    later = simulated(question(plan(*ONE_STAGE, micro_batches=2), tflops=tflops, overlap=False))
    assert later.timeline.makespan_ps - found.timeline.makespan_ps == comes_ps[-1] - waited_ps
    bare_ps, beside_ps = (each.account.cause_ps("dp_comm")[0] for each in (later, found))
    assert bare_ps - beside_ps == comes_ps[-1] - waited_ps
    assert not found.account.cause_ps("straggler_wait").any()


def test_a_later_stage_has_its_parameters_before_its_activations() -> None:
    found = simulated(question(plan(*TWO_STAGES)))

    last = found.workload.programs[1]
    assert last.stage == 1
    waits = [step.sync for step in last.body(Action("F", 0)).steps if isinstance(step, Fetch)]
    assert [found.workload.syncs[number].layers.start for number in waits] == [3, 4, 5]
    members = [found.workload.syncs[number].programs.index(1) for number in waits]
    done = [found.timeline.done_ps[n][m] for n, m in zip(waits, members, strict=True)]
    assert max(done) < found.timeline.start_ps[found.timeline.program == 1][0]


def test_only_the_first_pass_of_each_part_waits() -> None:
    """Each wait is of the first forward pass: the others, and backward passes, have all that they need."""
    found = simulated(question(plan(*TWO_STAGES)))

    for program in found.workload.programs:
        waiting = [action for action in program.actions for step in program.body(action).steps if type(step) is Fetch]
        assert set(waiting) == {Action("F", 0)}


@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_folding_changes_nothing(zero: int, serial: bool, tied: bool) -> None:
    wide = tuple((stage((a, a + 1), layers=range(1, 3)), stage((a + 2, a + 3), layers=range(3, 5))) for a in (0, 4))
    asked = replace(plan(*wide), zero=zero, serial_sync=serial, gather_overlap=True, bucket_bytes=ONE_LAYER)
    whole = scenario(cluster(4, 4), replace(SPEC, tied=tied), asked)

    folded, walked = (simulated(whole, fold=fold) for fold in (True, False))
    assert folded.timeline.makespan_ps == walked.timeline.makespan_ps
    assert folded.account.causes_ps.tolist() == walked.account.causes_ps.tolist()


def test_without_a_gather_it_is_refused() -> None:
    asked = replace(plan(*ONE_STAGE), gather_overlap=True)
    with pytest.raises(SpecError) as caught:
        scenario(cluster(1, 1), SPEC, asked)
    assert str(caught.value) == (
        "deployment.gather_overlap = True: with zero: 0 no parameters are gathered; leave it out, or write zero: 1, 2 "
        "or 3"
    )
