"""The course of a plan against its plain twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.course import after_ps, ends_ps
from xsim.plan.contracts import Schedule
from xsim.plan.kinds import Copies, Pipeline, Sketch, SketchStage
from xsim.plan.schedule.eager_1f1b import EagerOneFOneB
from xsim.plan.schedule.gpipe import GPipe
from xsim.plan.schedule.one_f_one_b import OneFOneB
from xsim.plan.schedule.zb_h1 import ZbH1
from xsim.plan.search.contracts import Ints, Seat, Tables
from xsim.plan.search.course import course_ps

LAYERS = 4
TIMES = st.integers(0, 3)
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Any times; every stage has a kind of device of its own, named after its pipeline and number."""

    forward: Mapping[str, list[int]]
    backward: Mapping[str, list[int]]
    sends: Mapping[tuple[str, str], int]
    updates: Mapping[str, int]
    sums: tuple[tuple[tuple[Place, ...], int], ...]
    layers: int = LAYERS

    def forward_ps(self, kind: str, _tp: int, _samples: int) -> Ints:
        return np.array(self.forward[kind], dtype=np.int64)

    def backward_ps(self, kind: str, _tp: int, _samples: int) -> Ints:
        return np.array(self.backward[kind], dtype=np.int64)

    def boundary_ps(self, source: Seat, target: Seat, *, near: bool = False) -> int:
        return self.sends[source.kind, target.kind]

    def update_ps(self, kind: str, _tp: int, _held: range, _samples: int) -> int:
        return self.updates[kind]

    def sums_ps(self, _sketch: Sketch) -> tuple[tuple[tuple[Place, ...], int], ...]:
        return self.sums


@given(
    st.data(),
    st.lists(st.tuples(st.integers(1, LAYERS), st.integers(1, 5)), min_size=1, max_size=3),
    st.sampled_from([OneFOneB(), GPipe(), EagerOneFOneB(), ZbH1()]),
)
def test_it_takes_what_the_twin_says(data: st.DataObject, asked: list[tuple[int, int]], schedule: Schedule) -> None:
    held: dict[Place, range] = {}
    pipelines = []
    for p, (stages, micro_batches) in enumerate(asked):
        edges = [0, *range(1, stages), LAYERS]
        inner = [range(a + 1, b + 1) for a, b in pairwise(edges)]
        own = tuple(SketchStage(layers, (Copies(f"{p}.{s}", 1),)) for s, layers in enumerate(inner))
        pipelines.append(Pipeline(own, 1, micro_batches))
        for s, layers in enumerate(inner):
            held[p, s] = range(layers.start - (s == 0), layers.stop + (s == stages - 1))
    kinds = {place: f"{place[0]}.{place[1]}" for place in held}
    columns = st.lists(TIMES, min_size=LAYERS + 2, max_size=LAYERS + 2)
    some = st.lists(st.sampled_from(sorted(held)), min_size=2, max_size=4, unique=True)
    places = some.map(lambda each: tuple(sorted(each)))
    drawn = Drawn(
        forward={kind: data.draw(columns) for kind in kinds.values()},
        backward={kind: data.draw(columns) for kind in kinds.values()},
        sends={(a, b): data.draw(TIMES) for a in kinds.values() for b in kinds.values() if a[0] == b[0] and a != b},
        updates={kind: data.draw(TIMES) for kind in kinds.values()},
        sums=tuple(data.draw(st.lists(st.tuples(places, TIMES), max_size=4))) if len(held) > 1 else (),
    )

    found = course_ps(Sketch(tuple(pipelines)), cast(Tables, drawn), schedule.order)

    ends: dict[Place, int] = {}
    for p, (stages, micro_batches) in enumerate(asked):
        names = [kinds[p, s] for s in range(stages)]
        alone = ends_ps(
            [[a for a in schedule.order(s, stages, micro_batches, 1) if a.kind != "W"] for s in range(stages)],
            [sum(drawn.forward[name][layer] for layer in held[p, s]) for s, name in enumerate(names)],
            [sum(drawn.backward[name][layer] for layer in held[p, s]) for s, name in enumerate(names)],
            [0, *(drawn.sends[a, b] for a, b in pairwise(names))],
            [*(drawn.sends[b, a] for a, b in pairwise(names)), 0],
        )
        ends.update({(p, s): end for s, end in enumerate(alone)})
    assert found == after_ps(ends, drawn.sums, {place: drawn.updates[kind] for place, kind in kinds.items()})
