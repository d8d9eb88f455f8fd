"""Syncs one after another, and sends that are waited for: closed forms, and that nobody waits for ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.account_checker import check_account
from tests.metrics.test_critical import check as check_path
from tests.sim.test_executor import BACKWARD_PS, FORWARD_PS, pipeline, run
from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.transfers import concatenate, line
from xsim.families import build, names
from xsim.plan.workload import Action, Body, Compute, Program, Ready, Sync, Workload
from xsim.sim.executor import execute
from xsim.sim.timeline import Timeline
from xsim.spec.deployment import DeviceGroup

SIZE = 100


def nics(ranks: int) -> Fabric:
    """A link out of each rank and one into it, at 1 byte per picosecond."""
    return Fabric(
        bandwidth_bytes_per_s=np.full(2 * ranks, 1e12),
        latency_ps=np.zeros(2 * ranks, dtype=np.int64),
        links=tuple(Link(f"{rank} {way}", "nic") for way in ("out", "in") for rank in range(ranks)),
        hosts=tuple(range(ranks)),
        router=lambda a, b: () if a == b else (a, ranks + b),
    )


def syncing(members: tuple[tuple[int, ...], ...], backward_ps: tuple[int, ...], *, serial: bool) -> Workload:
    """A program of one rank per entry of ``backward_ps``, and syncs in which the first member sends to all others."""
    programs = []
    for rank, duration_ps in enumerate(backward_ps):
        ready = tuple(Ready(number) for number, each in enumerate(members) if rank in each)
        bodies = {("B", 0): Body((Compute("mlp", (duration_ps,)), *ready)), ("U", 0): Body(())}
        programs.append(Program(rank, 0, 0, DeviceGroup(ranks=(rank,), samples=1), (Action("B", 0),), bodies))
    syncs = []
    for each in members:
        rows = [(line(each[0], other, range(SIZE)), [()]) for other in each[1:]]
        syncs.append(Sync(each, "dense", range(1, 2), SIZE, concatenate(rows, [[rank] for rank in each])))
    return Workload(tuple(programs), (), tuple(syncs), serial_sync=serial)


def executed(workload: Workload) -> Timeline:
    wires = nics(len(workload.programs))
    timeline = execute(workload, build("network", {"name": "flow"}).open(wires, 0), wires)
    check_account(workload, timeline)
    return timeline


def test_two_groups_share_a_nic_at_once_or_in_turn() -> None:
    """Rank 0 sends 100 bytes to rank 1 and to rank 2: at half the rate each, or to one after the other."""
    pairs = ((0, 1), (0, 2))
    at_once, in_turn = (executed(syncing(pairs, (10, 10, 10), serial=serial)) for serial in (False, True))

    assert at_once.synced_ps.tolist() == [10 + 200] * 3
    assert in_turn.synced_ps.tolist() == [10 + 200, 10 + 100, 10 + 200]
    assert [times.tolist() for times in in_turn.joined_ps] == [[10, 10], [110, 10]]


def test_one_who_is_missing_keeps_the_syncs_behind_waiting() -> None:
    """Rank 2 waits for rank 1, which first syncs with rank 0, which is late: it is a straggler for both."""
    workload = syncing(((0, 1), (1, 2)), (50, 10, 10), serial=True)
    timeline = executed(workload)
    found = check_account(workload, timeline)

    assert timeline.synced_ps.tolist() == [150, 250, 250]
    assert found.cause_ps("straggler_wait").tolist() == [250 - 150, 50 - 10, 50 - 10]
    assert found.cause_ps("dp_comm").tolist() == [100, 200, 200]


@given(
    st.lists(st.permutations(range(5)).map(lambda order: tuple(order[:3])), min_size=1, max_size=6),
    st.tuples(*[st.integers(0, 300)] * 5),
)
def test_whatever_the_groups_every_sync_ends(members: list[tuple[int, ...]], backward_ps: tuple[int, ...]) -> None:
    workload = syncing(tuple(members), backward_ps, serial=True)
    timeline = executed(workload)

    own = [[n for n, each in enumerate(members) if rank in each] for rank in range(5)]
    for rank, numbers in enumerate(own):
        ends = [int(timeline.done_ps[n][members[n].index(rank)]) for n in numbers]
        assert ends == sorted(ends)
        assert timeline.synced_ps[rank] == max(ends, default=backward_ps[rank])


@pytest.mark.parametrize("network", ["analytic", "flow"])
def test_a_blocking_sender_waits_until_its_transfer_has_arrived(network: str) -> None:
    """Two stages, two micro-batches, transfers of 300.

    Stage 0 computes F0 until 1000 and F1 from 1300 on, until 2300; stage 1 has F0 until 2300 and F1 from 2600 on.
    Without blocking F1 of stage 0 ends at 2000 and arrives at 2300.
    """
    free = pipeline("gpipe", 2, 2, size=300)
    blocking = replace(free, blocking_sends=True)
    starts = {}
    for name, workload in (("free", free), ("blocking", blocking)):
        timeline = run(workload, network)
        check_account(workload, timeline)
        starts[name] = [timeline.start_ps[timeline.program == stage].tolist() for stage in range(2)]

    assert starts["free"][0][:2] == [0, 1000]
    assert starts["free"][1][:4] == [1300, 2300, 3300, 5300]
    assert starts["blocking"][0][:2] == [0, 1300]
    # Stage 1 sends the gradient of B0 from 5600 until 5900, and so starts B1 then; B1 ends at 7900.
    assert starts["blocking"][1][:4] == [1300, 2600, 3600, 5900]
    assert starts["blocking"][0][2:4] == [5900, 8200]


def test_the_wait_of_a_blocking_sender_is_bubble() -> None:
    workload = replace(pipeline("gpipe", 2, 1, size=300), blocking_sends=True)
    timeline = run(workload, "flow")
    found = check_account(workload, timeline)

    assert timeline.makespan_ps == 2 * (FORWARD_PS + BACKWARD_PS + 300)
    assert timeline.reached_ps.tolist() == [timeline.makespan_ps, timeline.makespan_ps - BACKWARD_PS]
    assert found.cause_ps("bubble").tolist() == [timeline.makespan_ps - FORWARD_PS - BACKWARD_PS] * 2


@pytest.mark.parametrize(
    ("schedule", "stages", "micro_batches"),
    [
        (schedule, *shape)
        for schedule in names("schedule")
        for shape in ([(2, 2), (2, 6), (4, 6)] if schedule == "dualpipe" else [(1, 2), (2, 1), (2, 5), (4, 4), (5, 3)])
    ],
)
def test_no_schedule_deadlocks_and_none_gets_faster(schedule: str, stages: int, micro_batches: int) -> None:
    chunks = 2 if schedule == "interleaved" else 1
    free = pipeline(schedule, stages, micro_batches, size=300, chunks=chunks, sync=True)
    blocking = replace(free, blocking_sends=True)
    times = []
    for workload in (free, blocking):
        timeline = run(workload, "analytic")
        check_account(workload, timeline)
        times.append(timeline.makespan_ps)

    assert times[0] <= times[1]


@pytest.mark.parametrize("network", ["analytic", "flow"])
def test_both_sides_of_a_rendezvous_wait_and_the_gradient_goes_first(network: str) -> None:
    """Two stages, two micro-batches, transfers of 300.

    Stage 1 ends B0 at 4300, gives its gradient until 4600, and only then takes the second activations, until
    4900, though stage 0 has had them since 2300. Where only senders wait, they come while stage 1 computes.
    """
    blocking = replace(pipeline("one_f_one_b", 2, 2, size=300), blocking_sends=True)
    meeting = replace(blocking, rendezvous=True)
    starts = {}
    for name, workload in (("blocking", blocking), ("meeting", meeting)):
        timeline = run(workload, network)
        check_account(workload, timeline)
        check_path(workload, timeline)
        starts[name] = [timeline.start_ps[timeline.program == stage].tolist()[:4] for stage in range(2)]

    assert starts["blocking"] == [[0, 1300, 4600, 7900], [1300, 2300, 4600, 5600]]
    assert starts["meeting"] == [[0, 1300, 4900, 8200], [1300, 2300, 4900, 5900]]


@pytest.mark.parametrize("schedule", ["gpipe", "one_f_one_b", "zb_h1"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 2), (2, 1), (2, 5), (4, 2), (4, 4), (5, 9)])
def test_no_schedule_of_whole_stages_deadlocks_at_a_rendezvous(schedule: str, stages: int, micro_batches: int) -> None:
    blocking = replace(pipeline(schedule, stages, micro_batches, size=300, sync=True), blocking_sends=True)
    meeting = replace(blocking, rendezvous=True)
    times = []
    for workload in (blocking, meeting):
        timeline = run(workload, "analytic")
        check_account(workload, timeline)
        check_path(workload, timeline)
        times.append(timeline.makespan_ps)

    assert times[0] <= times[1]


def test_a_schedule_whose_stages_run_ahead_is_refused_a_rendezvous() -> None:
    workload = replace(pipeline("eager_1f1b", 2, 5, size=300), rendezvous=True)

    with pytest.raises(SpecError, match="programs 0 and 1 come to their exchanges in different orders"):
        run(workload, "analytic")


def test_a_scatter_an_update_and_a_gather_by_hand() -> None:
    """Ranks go backward for 10 and 30, swap 100 bytes, update for 5 and 9, and swap 100 bytes again."""
    swap = concatenate([(line(0, 1, range(SIZE)), [()]), (line(1, 0, range(SIZE)), [()])], [[0], [1]])
    programs = []
    for rank, (backward_ps, update_ps) in enumerate(((10, 5), (30, 9))):
        bodies = {
            ("B", 0): Body((Compute("mlp", (backward_ps,)), Ready(0))),
            ("U", 0): Body((Compute("optimizer", (update_ps,)),)),
        }
        programs.append(Program(rank, 0, 0, DeviceGroup(ranks=(rank,), samples=1), (Action("B", 0),), bodies))
    syncs = (
        Sync((0, 1), "dense", range(1, 2), SIZE, swap, does="scatter"),
        Sync((0, 1), "dense", range(1, 2), SIZE, swap, does="gather"),
    )
    workload = Workload(tuple(programs), (), syncs)
    timeline = executed(workload)
    found = check_account(workload, timeline)

    assert timeline.synced_ps.tolist() == [130, 130]
    assert timeline.released_ps[1].tolist() == [135, 139]
    assert timeline.ended_ps.tolist() == [239, 239]
    assert found.cause_ps("optimizer").tolist() == [5, 9]
    assert found.cause_ps("straggler_wait").tolist() == [20 + 4, 0]
    assert found.cause_ps("dp_comm").tolist() == [200, 200]
    assert found.operators_ps[:, found.operators.index("grad_gather")].tolist() == [100, 100]
    assert found.operators_ps[:, found.operators.index("grad_param_comm")].tolist() == [100, 100]
