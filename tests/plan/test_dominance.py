from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.dealing import can_stand_in
from xsim.plan.search.dominance import dominates

kinds = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4)
B2, B3, B4 = (64, 376.0), (64, 313.0), (32, 280.0)


def devices(kinds: list[tuple[int, float]], counts: tuple[int, ...]) -> Iterator[tuple[int, float]]:
    for kind, count in zip(kinds, counts, strict=True):
        yield from (kind,) * count


@given(st.data(), kinds)
def test_it_is_a_matching(data: st.DataObject, kinds: list[tuple[int, int]]) -> None:
    rates = [(memory, float(flops)) for memory, flops in kinds]
    count = st.tuples(*(st.integers(0, 2) for _ in kinds)).filter(lambda c: sum(c) <= 6)
    larger, smaller = data.draw(count), data.draw(count)

    found = dominates(larger, smaller, [m for m, _ in rates], [f for _, f in rates])

    assert found == can_stand_in(list(devices(rates, larger)), list(devices(rates, smaller)))


def test_more_of_the_same_or_better_stand_in() -> None:
    memory, flops = [k[0] for k in (B2, B3, B4)], [k[1] for k in (B2, B3, B4)]

    assert dominates((2, 0, 0), (0, 1, 1), memory, flops)
    assert dominates((1, 1, 0), (1, 1, 0), memory, flops)
    assert not dominates((0, 2, 0), (1, 0, 0), memory, flops)
    assert not dominates((0, 0, 8), (0, 1, 0), memory, flops)
