from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.search.small import question, tables_of
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage, whole_layers
from xsim.plan.memory import deployment_memory
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.plan.search.contracts import Seat
from xsim.plan.search.price import fits, price
from xsim.plan.search.sync import holdings, in_one_host
from xsim.plan.sketch import place
from xsim.spec.cluster import LinkSpec

LAYERS = 6
ASKED = question(("fast", 4), ("slow", 4), layers=LAYERS)
SCHEDULES: tuple[type[OneFOneB | GPipe | ZbH1], ...] = (OneFOneB, GPipe, ZbH1)
TABLES = {cls: tables_of(ASKED, cls()) for cls in SCHEDULES}
OPERATORS = ("core", "activation", "mlp_norm", "full")


@st.composite
def sketches(draw: st.DrawFn) -> Sketch:
    """One or two pipelines of two stages, a kind each."""
    pipelines = draw(st.integers(1, 2))
    tp, count = draw(st.sampled_from([(1, 1), (1, 2), (2, 1)] + ([(2, 2), (4, 1)] if pipelines == 1 else [])))
    samples = draw(st.sampled_from([1, 2]))
    cut = draw(st.integers(2, LAYERS))
    kinds = draw(st.permutations(["fast", "slow"]))
    stages = []
    for kind, layers in zip(kinds, (range(1, cut), range(cut, LAYERS + 1)), strict=True):
        again = draw(st.lists(st.sampled_from(OPERATORS), max_size=2, unique=True))
        recompute = tuple((name, draw(st.integers(1, len(layers)))) for name in again)
        stages.append(SketchStage(layers, (Copies(kind, tp, count),), recompute))
    micro_batch = samples * count
    each = ASKED.batch // micro_batch // pipelines
    return Sketch((Pipeline(tuple(stages), micro_batch, each, count=pipelines),))


@settings(max_examples=20)
@given(sketches(), st.sampled_from([OneFOneB, GPipe]))
def test_memory_is_that_of_the_placed_plan(sketch: Sketch, cls: type[OneFOneB | GPipe]) -> None:
    needs, found = _both(sketch, cls)

    assert needs == found


@settings(max_examples=5)
@given(sketches())
def test_memory_is_never_below_where_backward_passes_are_cut(sketch: Sketch) -> None:
    needs, found = _both(sketch, ZbH1)

    assert all(own >= need for own, need in zip(found, needs, strict=True))


def _both(sketch: Sketch, cls: type[OneFOneB | GPipe | ZbH1]) -> tuple[list[int], list[int]]:
    """What the memory model and the tables say of each copy, in order of the ranks."""
    known = TABLES[cls]
    plan = place(sketch, ASKED)
    by_rank = dict(deployment_memory(ASKED, plan, cls().order).needs)
    needs = [max(by_rank[rank].total_bytes for rank in group.ranks) for _, group in plan.groups()]
    found = []
    for pipeline in sketch.pipelines:
        for _ in range(pipeline.count):
            for s, (stage, held) in enumerate(zip(pipeline.stages, whole_layers(pipeline, LAYERS), strict=True)):
                flying = known.in_flight(s, len(pipeline.stages), pipeline.micro_batches)
                for copies, samples in zip(stage.copies, stage.samples(pipeline.micro_batch), strict=True):
                    own = known.memory_bytes(copies.device, copies.tp, samples, held, flying, stage.recompute)
                    found += [own] * copies.count
    return needs, found


def test_a_column_of_memory_is_that_of_each_number_of_layers() -> None:
    known = TABLES[OneFOneB]

    for ends, start in (((True, False), 0), ((False, False), 1)):
        column = known.memory_column("slow", 2, 2, ends, 3)
        each = [known.memory_bytes("slow", 2, 2, range(start, 1 + n), 3) for n in range(1, LAYERS)]
        assert column[1:LAYERS].tolist() == each


def test_fitting_is_the_verdict_of_the_memory_model() -> None:
    tight = question(("fast", 2), ("slow", 2), layers=LAYERS, memory=0.15)
    known = tables_of(tight)
    verdicts = set()
    for cut in range(2, LAYERS + 1):
        stages = (SketchStage(range(1, cut), (Copies("fast", 2),)), SketchStage(range(cut, 7), (Copies("slow", 2),)))
        sketch = Sketch((Pipeline(stages, 1, 16),))
        fitting = deployment_memory(tight, place(sketch, tight), OneFOneB().order).fits
        assert fits(sketch, known) == fitting
        verdicts.add(fitting)
    assert verdicts == {True, False}


def test_one_stage_takes_all_its_micro_batches_one_after_the_other() -> None:
    known = TABLES[OneFOneB]
    own = SketchStage(range(1, LAYERS + 1), (Copies("fast", 2),))
    passing = int(known.forward_ps("fast", 2, 2).sum() + known.backward_ps("fast", 2, 2).sum())
    update = known.update_ps("fast", 2, range(LAYERS + 2))

    found = price(Sketch((Pipeline((own,), 2, 8),)), known)

    assert found.pipelines == ((passing, passing, 8 * passing),)
    assert found.iteration_ps == 8 * passing + update
    assert found.sync_ps == 0


def test_a_pipeline_fills_and_goes_at_the_pace_of_its_slowest_stage_with_what_it_sends() -> None:
    known = TABLES[OneFOneB]
    layers = (range(0, 4), range(4, LAYERS + 2))
    seats = (Seat("fast", 1, 2), Seat("slow", 2, 2))
    stages = tuple(SketchStage(own, (Copies(seat.kind, seat.tp),)) for own, seat in zip(layers, seats, strict=True))
    times = [
        int((known.forward_ps(s.kind, s.tp, 2) + known.backward_ps(s.kind, s.tp, 2))[own.start : own.stop].sum())
        for own, s in zip(layers, seats, strict=True)
    ]
    sends = [known.boundary_ps(*seats), known.boundary_ps(*seats[::-1])]

    ((fill, straggler, end),) = price(Sketch((Pipeline(stages, 2, 8),)), known).pipelines

    assert fill == sum(times) + sum(sends)
    assert straggler == max(time + sent for time, sent in zip(times, sends, strict=True))
    assert end == fill + 7 * straggler
    assert min(sends) > 0


def test_recomputing_takes_time_and_saves_bytes() -> None:
    known = TABLES[OneFOneB]
    for name, (time_ps, saved) in known.operator_ps("fast", 1, 1)["transformer"].items():
        plain, again = (known.backward_ps("fast", 1, 1, frozenset(own)) for own in ((), (name,)))
        assert again[1] - plain[1] == time_ps > 0
        assert saved > 0
        assert np.array_equal(again[[0, -1]], plain[[0, -1]])


def test_gradients_are_summed_in_rings_of_the_narrowest_shards() -> None:
    known = TABLES[OneFOneB]
    whole = range(1, LAYERS + 1)
    pipelines = tuple(
        Pipeline((SketchStage(whole, (Copies(kind, tp),)),), 1, 8) for kind, tp in (("fast", 4), ("slow", 2))
    )
    parameters = ASKED.model.parameters

    found = known.sync_ps(Sketch(pipelines))

    bytes_each = 2 * (2 - 1) / 2 * parameters * ASKED.gradient_dtype_bytes / 2
    assert abs(found - bytes_each / 32e9 * 1e12) < 0.02 * found  # PCIe is slower than the NIC
    assert known.sync_ps(Sketch(pipelines[:1])) == 0


def test_pipelines_that_sit_apart_share_a_host_as_a_whole_or_not_at_all() -> None:
    def stages(*counts: int) -> tuple[SketchStage, ...]:
        spans = (range(1, 4), range(4, LAYERS + 1)) if len(counts) == 2 else (range(1, LAYERS + 1),)
        return tuple(SketchStage(span, (Copies("fast", 1, n),)) for span, n in zip(spans, counts, strict=True))

    def shared(*pipelines: Pipeline, apart: bool) -> bool:
        held = holdings(Sketch(pipelines), LAYERS)
        return in_one_host([each for each in held if 1 in each.layers], 4, apart=apart)

    alone, two = Pipeline(stages(4, 2), 4, 4), Pipeline(stages(2, 2), 2, 8)
    small = Pipeline(stages(2), 2, 8)

    assert shared(alone, apart=True)  # its first stage has a host of its own
    assert (shared(two, two, apart=False), shared(two, two, apart=True)) == (True, False)
    assert (shared(replace(two, count=2), apart=False), shared(replace(two, count=2), apart=True)) == (True, False)
    assert shared(small, small, apart=True)  # both together are no more than a host
    assert not shared(two, two, two, apart=False)


def test_a_ring_is_as_slow_as_its_hops_inside_hosts() -> None:
    """A pair of a full mesh of eight has a seventh of a port: 10 GB/s, where the network has 32."""
    thin = LinkSpec(bandwidth_bytes_per_s=70e9, latency_ps=0)
    asked = question(("fast", 8), ("slow", 8), layers=LAYERS)
    hosts = tuple(
        replace(host, scale_up="full_mesh", devices=tuple(replace(s, scale_up=thin) for s in host.devices))
        for host in asked.cluster.hosts
    )
    asked = replace(asked, cluster=replace(asked.cluster, hosts=hosts))

    def sync_s(copies: int, tp: int) -> float:
        stage = (range(1, LAYERS + 1),)
        both = (Pipeline((SketchStage(*stage, (Copies(kind, tp, copies),)),), copies, 4) for kind in ("fast", "slow"))
        return tables_of(asked).sync_ps(Sketch(tuple(both))) / 1e12

    size = asked.model.parameters * asked.gradient_dtype_bytes

    assert abs(sync_s(2, 1) - 2 * 3 / 4 * size / 10e9) < 0.01 * sync_s(2, 1)
    assert abs(sync_s(1, 8) - 2 * 1 / 2 * size / 8 / 32e9) < 0.05 * sync_s(1, 8)
