"""Graphs and lists of flows to write and read again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from xsim.fabric.flows import CLASS, MOST_CLASS, PORT, FlowList, rows_in_csr
from xsim.fabric.graph import Cable, Graph

__all__ = ["barriers", "chains", "columns", "crossed", "graphs", "parts"]

RATES = st.one_of(st.sampled_from([100 * 10**9, 2880 * 10**9, 1500 * 10**3]), st.integers(1, 10**13))
HOSTS = 9


def parts(graph: Graph) -> tuple[object, ...]:
    """What makes two graphs the same."""
    return graph.vertices, graph.switches, graph.cables


def columns(flows: FlowList) -> tuple[object, ...]:
    """What makes two lists the same."""
    arrays = (flows.number, flows.src, flows.dst, flows.size_bytes, flows.start_ps, flows.port, flows.classes)
    return (*(own.tolist() for own in (*arrays, flows.after_ptr, flows.after)), flows.awaited)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    vertices = draw(st.integers(2, 8))
    numbers = st.integers(0, vertices - 1)
    pairs = draw(st.lists(st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1]), max_size=14))
    losses = st.one_of(st.just(0.0), st.floats(0, 1))
    cables = tuple(Cable(a, b, draw(RATES), draw(st.integers(0, 10**9)), draw(losses)) for a, b in pairs)
    return Graph(vertices, frozenset(draw(st.sets(numbers))), cables)


@st.composite
def chains(draw: st.DrawFn, hosts: int = HOSTS) -> FlowList:
    """Each flow waits for at most one other, which may be listed after it."""
    count = draw(st.integers(0, 8))
    place = draw(st.permutations(range(count)))
    after = [
        draw(st.sampled_from([None, *(other for other in range(count) if place[other] < place[row])]))
        for row in range(count)
    ]
    return _flows(draw, hosts, [() if own is None else (own,) for own in after])


@st.composite
def barriers(draw: st.DrawFn, hosts: int = HOSTS) -> FlowList:
    """In blocks, of which each waits for some flows of the one before: without a delay, and at either end."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=4))
    after: list[tuple[int, ...]] = []
    block: list[int] = []
    for size in sizes:
        awaited = sorted(draw(st.sets(st.sampled_from(block)))) if block else []
        block = [*range(len(after), len(after) + size)]
        after += [tuple(awaited) if draw(st.booleans()) else () for _ in block]
    flows = _flows(draw, hosts, after)
    start_ps = np.where(np.diff(flows.after_ptr) > 0, 0, flows.start_ps)
    at_receivers = bool(len(flows.after)) and draw(st.booleans())
    return replace(flows, start_ps=start_ps, awaited="receiver" if at_receivers else "sender")


def _flows(draw: st.DrawFn, hosts: int, after: list[tuple[int, ...]]) -> FlowList:
    count = len(after)
    numbers = draw(st.lists(st.integers(1, 10**6), min_size=count, max_size=count, unique=True))
    ends = [draw(st.lists(st.integers(0, hosts - 1), min_size=2, max_size=2, unique=True)) for _ in after]
    sizes = [draw(st.integers(0, 2**31 - 1)) for _ in after]
    starts = [draw(st.one_of(st.just(0), st.integers(0, 10**15))) for _ in after]
    table = np.array([*zip(numbers, *zip(*ends, strict=True), sizes, starts, strict=True)] if count else [])
    number, src, dst, size_bytes, start_ps = table.astype(np.int64).reshape(-1, 5).T
    usual = draw(st.booleans())
    classes = np.array([CLASS if usual else draw(st.integers(0, MOST_CLASS)) for _ in after], dtype=np.int64)
    port = np.full(count, PORT)
    return FlowList(number, src, dst, size_bytes, start_ps, port, *rows_in_csr(after), classes=classes)


def crossed(graph: Graph, links: list[int], start: int) -> int:
    """Where a walk over directed links ends; fails if one does not begin where the one before ends."""
    for link in links:
        cable = graph.cables[link // 2]
        begins, ends = (cable.b, cable.a) if link % 2 else (cable.a, cable.b)
        assert begins == start
        start = ends
    return start
