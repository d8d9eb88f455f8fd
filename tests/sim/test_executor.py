"""The executor on workloads made by hand: closed forms, order, deadlock."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tests.account_checker import check_timeline
from xsim.errors import PlanError
from xsim.fabric.fabric import Fabric, Link
from xsim.fabric.transfers import TransferGraph, concatenate, line
from xsim.families import build
from xsim.plan.route import directions, routes
from xsim.plan.workload import Action, Body, Compute, Move, Program, Ready, Sync, Workload
from xsim.sim.executor import execute
from xsim.sim.timeline import Timeline
from xsim.spec.deployment import DeviceGroup

FORWARD_PS, BACKWARD_PS = 1_000, 2_000
INPUT_PS, WEIGHT_PS = 1_200, 800


def fabric(ranks: int, latency_ps: int = 0) -> Fabric:
    """A link per ordered pair of neighbours, both ways, at 1 byte per picosecond."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    number = {pair: index for index, pair in enumerate(pairs)}
    return Fabric(
        bandwidth_bytes_per_s=np.full(len(pairs), 1e12),
        latency_ps=np.full(len(pairs), latency_ps, dtype=np.int64),
        links=tuple(Link(f"{a}>{b}", "nic") for a, b in pairs),
        hosts=tuple(range(ranks)),
        router=lambda a, b: () if a == b else (number[a, b],),
    )


def send(src: int, dst: int, size: int) -> TransferGraph:
    return concatenate([(line(src, dst, range(size)), [()])], [[src, dst]])


def pipeline(
    schedule: str, stages: int, micro_batches: int, size: int = 0, *, sync: bool = False, chunks: int = 1
) -> Workload:
    """One rank per stage, all alike; ``sync`` lets the stages meet in a chain of transfers at the end."""
    member = build("schedule", {"name": schedule})
    orders = [member.order(s, stages, micro_batches, chunks) for s in range(stages)]
    ways = directions(orders[0], chunks)
    bodies: dict[tuple[str, int], Body] = {("U", 0): Body(())}
    for chunk in range(chunks * ways):
        ready = (Ready(0),) if sync and chunk == 0 else ()
        bodies["F", chunk] = Body((Compute("mlp", (FORWARD_PS // chunks,)),))
        bodies["B", chunk] = Body((Compute("mlp", (BACKWARD_PS // chunks,)), *ready))
        bodies["I", chunk] = Body((Compute("mlp", (INPUT_PS // chunks,)),))
        bodies["W", chunk] = Body((Compute("mlp", (WEIGHT_PS // chunks,)), *ready))
    programs = tuple(
        Program(0, s, 0, DeviceGroup(ranks=(s,), samples=1), order, bodies) for s, order in enumerate(orders)
    )
    moves = []
    for (s, chunk), (t, following) in (hop for way in routes(stages, chunks, ways) for hop in pairwise(way)):
        if s != t:
            moves.append(Move(s, t, "F", chunk, following, send(s, t, size)))
            moves.append(Move(t, s, "B", following, chunk, send(t, s, size)))
    chain = concatenate([(line(s, s + 1, range(size)), [()]) for s in range(stages - 1)], [[s] for s in range(stages)])
    syncs = (Sync(tuple(range(stages)), "dense", range(1, 2), size, chain),) if sync else ()
    return Workload(programs, tuple(moves), syncs)


def run(workload: Workload, network: str, latency_ps: int = 0) -> Timeline:
    wires = fabric(len(workload.programs), latency_ps)
    return execute(workload, build("network", {"name": network}).open(wires, 0), wires)


@pytest.mark.parametrize("network", ["analytic", "flow"])
@pytest.mark.parametrize("schedule", ["gpipe", "one_f_one_b", "eager_1f1b", "interleaved"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (2, 1), (2, 8), (4, 4), (4, 16), (7, 3)])
def test_bubble_share_of_equal_stages(network: str, schedule: str, stages: int, micro_batches: int) -> None:
    timeline = run(pipeline(schedule, stages, micro_batches), network)

    busy_ps = micro_batches * (FORWARD_PS + BACKWARD_PS)
    bubble = Fraction(timeline.makespan_ps - busy_ps, timeline.makespan_ps)
    assert bubble == Fraction(stages - 1, micro_batches + stages - 1)


@pytest.mark.parametrize("network", ["analytic", "flow"])
@pytest.mark.parametrize("chunks", [2, 4])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 2), (2, 5), (4, 4), (4, 6), (4, 16), (7, 9)])
def test_interleaving_divides_the_bubble(network: str, chunks: int, stages: int, micro_batches: int) -> None:
    """(p - 1) / (m v + p - 1); https://arxiv.org/abs/2104.04473 section 2.2 has it as (p - 1) / (m v) of the rest."""
    timeline = run(pipeline("interleaved", stages, micro_batches, chunks=chunks), network)

    busy_ps = micro_batches * (FORWARD_PS + BACKWARD_PS)
    bubble = Fraction(timeline.makespan_ps - busy_ps, timeline.makespan_ps)
    assert bubble == Fraction(stages - 1, micro_batches * chunks + stages - 1)


@pytest.mark.parametrize("network", ["analytic", "flow"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 6), (4, 12)])
def test_eager_1f1b_hides_slow_transfers(network: str, stages: int, micro_batches: int) -> None:
    """Only the first activation and the last gradient are waited for; in 1F1B every round trip is."""
    size = FORWARD_PS // 2
    eager, lazy = (
        run(pipeline(name, stages, micro_batches, size), network).makespan_ps for name in ("eager_1f1b", "one_f_one_b")
    )

    assert eager == (micro_batches + stages - 1) * (FORWARD_PS + BACKWARD_PS) + 2 * (stages - 1) * size
    assert lazy > eager


@pytest.mark.parametrize("network", ["analytic", "flow"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (2, 2), (4, 4), (4, 5), (4, 12), (7, 7), (7, 20)])
def test_zero_bubble_fills_the_waits(network: str, stages: int, micro_batches: int) -> None:
    """(p - 1) (F + I - W): https://arxiv.org/abs/2401.10241 table 2; 1F1B has (p - 1) (F + I + W)."""
    timeline = run(pipeline("zb_h1", stages, micro_batches), network)

    bubble_ps = timeline.makespan_ps - micro_batches * (FORWARD_PS + INPUT_PS + WEIGHT_PS)
    assert bubble_ps == (stages - 1) * (FORWARD_PS + INPUT_PS - WEIGHT_PS)


@pytest.mark.parametrize("network", ["analytic", "flow"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 2), (2, 8), (4, 6), (4, 8), (6, 10), (8, 20), (12, 40)])
def test_two_directions_halve_the_bubble(network: str, stages: int, micro_batches: int) -> None:
    """(p / 2 - 1) (F + I - W), also where I > F up to (p / 2 - 1) (I - F) = F; ``test_dualpipe`` has the published."""
    timeline = run(pipeline("dualpipe", stages, micro_batches), network)

    bubble_ps = timeline.makespan_ps - micro_batches * (FORWARD_PS + INPUT_PS + WEIGHT_PS)
    assert bubble_ps == (stages // 2 - 1) * (FORWARD_PS + INPUT_PS - WEIGHT_PS)


def test_in_two_directions_both_ends_wait_for_each_other() -> None:
    """A micro-batch from each end of two stages: each waits for the other's activation, then for the gradient."""
    timeline = run(pipeline("dualpipe", 2, 2, size=300), "flow", latency_ps=50)

    assert timeline.makespan_ps == 2 * (FORWARD_PS + BACKWARD_PS) + 2 * (300 + 50)
    assert timeline.reached_ps[0] == timeline.reached_ps[1]


def test_gradients_are_ready_after_their_last_half() -> None:
    workload = pipeline("zb_h1", 2, 2, size=100, sync=True)

    timeline = run(workload, "flow")

    assert [str(action) for action in workload.programs[1].actions][-2:] == ["W0", "W1"]
    assert timeline.released_ps[0].tolist() == timeline.reached_ps.tolist()
    check_timeline(workload, timeline)


@pytest.mark.parametrize("network", ["analytic", "flow"])
def test_a_transfer_delays_the_next_stage(network: str) -> None:
    timeline = run(pipeline("gpipe", 2, 1, size=300), network, latency_ps=50)

    assert timeline.makespan_ps == 2 * (FORWARD_PS + BACKWARD_PS) + 2 * (300 + 50)


@pytest.mark.parametrize("network", ["analytic", "flow"])
def test_a_sync_waits_for_its_last_member(network: str) -> None:
    timeline = run(pipeline("one_f_one_b", 2, 1, size=100, sync=True), network)

    forward_and_back = 2 * (FORWARD_PS + BACKWARD_PS) + 2 * 100
    assert timeline.reached_ps.tolist() == [forward_and_back, forward_and_back - BACKWARD_PS - 100]
    assert timeline.released_ps[0].tolist() == timeline.reached_ps.tolist()
    assert timeline.synced_ps.tolist() == [forward_and_back + 100] * 2
    assert timeline.done_ps[0].tolist() == [forward_and_back + 100] * 2


def test_a_schedule_that_waits_for_itself_is_named() -> None:
    good = pipeline("gpipe", 2, 1)
    first = good.programs[0]
    backward_first = (Action("B", 0), Action("F", 0))
    bad = Program(0, 0, 0, first.devices, backward_first, first.bodies)

    with pytest.raises(PlanError, match="program 0 waits for ever in B0; 2 programs hang"):
        run(Workload((bad, good.programs[1]), good.moves, ()), "analytic")
