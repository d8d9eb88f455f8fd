"""Shortest paths over cables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xsim.fabric.graph import Cable, Graph, Hop


def cable(a: int, b: int) -> Cable:
    return Cable(a, b, 100_000_000_000, 1_000_000)


def test_two_switches_between_two_leaves_are_taken_by_descending_number() -> None:
    leaf_spine = Graph(6, frozenset({2, 3, 4, 5}), tuple(map(cable, (0, 1, 2, 2, 3, 3), (2, 3, 4, 5, 4, 5))))

    assert leaf_spine.next_hops(0, 1) == (Hop(0, 2),)
    assert leaf_spine.next_hops(2, 1) == (Hop(6, 5), Hop(4, 4))
    assert leaf_spine.next_hops(4, 1) == (Hop(9, 3),)


def test_hosts_do_not_forward_and_what_is_apart_has_no_path() -> None:
    row = Graph(3, frozenset(), (cable(0, 1), cable(1, 2)))

    assert row.next_hops(0, 1) == (Hop(0, 1),)
    assert row.next_hops(0, 2) == ()


def test_parallel_cables_are_all_next_hops() -> None:
    twice = Graph(2, frozenset(), (cable(0, 1), cable(0, 1)))

    assert {hop.link for hop in twice.next_hops(0, 1)} == {0, 2}


@given(st.integers(2, 9).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_every_next_hop_is_one_step_closer(case: tuple[int, set[tuple[int, int]]]) -> None:
    vertices, pairs = case
    cables = tuple(cable(a, b) for a, b in sorted(pairs) if a < b)
    graph = Graph(vertices, frozenset(range(vertices)), cables)

    def steps(vertex: int, target: int) -> int | None:
        """Of one path, always taking the first hop; None if there is none."""
        count = 0
        while vertex != target:
            hops = graph.next_hops(vertex, target)
            if not hops:
                return None
            vertex, count = hops[0].end, count + 1
        return count

    for source in range(vertices):
        for target in range(vertices):
            if source != target:
                far = steps(source, target)
                assert all(steps(hop.end, target) == (far or 0) - 1 for hop in graph.next_hops(source, target))
