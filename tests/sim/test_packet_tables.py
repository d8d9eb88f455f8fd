"""Tables that grow keep what they hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xsim.sim.packets.tables import FEW, Growing, in_lines


@given(sizes=st.lists(st.integers(1, 3 * FEW), min_size=1, max_size=5))
def test_a_table_keeps_its_rows_and_begins_with_zeros(sizes: list[int]) -> None:
    table, held = Growing(8), np.zeros((0, 8), dtype=np.int64)
    for size in sorted(sizes):
        cells = table.grow(size)

        assert np.array_equal(cells[: len(held)], held)
        assert not cells[len(held) :].any()
        cells[:] = np.arange(size)[:, None]
        held = cells.copy()


@given(rows=st.integers(0, 50), skipped=st.integers(0, 7))
def test_a_table_begins_with_a_line(rows: int, skipped: int) -> None:
    table = np.arange(8 * rows + skipped, dtype=np.int64)[skipped:].reshape(rows, 8)
    found = in_lines(table)

    assert np.array_equal(found, table)
    assert not found.size or found.ctypes.data % 64 == 0
