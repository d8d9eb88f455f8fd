"""Faults in configs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.faults import plain_faults, read_faults
from runners.run import main
from xsim.errors import SpecError
from xsim.sim.contracts import Fault


@given(st.lists(st.tuples(st.integers(0, 10**15), st.text(min_size=1), st.none() | st.integers(1, 10**15))))
def test_what_is_written_out_is_read_again(written: list[tuple[int, str, int | None]]) -> None:
    faults = tuple(Fault(at, link, None if lasts is None else at + lasts) for at, link, lasts in written)

    assert read_faults(plain_faults(faults)) == faults


def test_a_fault_is_as_it_is_written() -> None:
    found = read_faults([{"at": "10 ms", "link": "tor0 -> spine1", "until": "20 ms"}])

    assert found == (Fault(10 * 10**9, "tor0 -> spine1", 20 * 10**9),)
    assert read_faults(None) == read_faults([]) == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tor0", "faults = 'tor0': it is no list; write"),
        ([3], r"faults\[0\] = 3: it is no fault; write"),
        ([{"at": "1 ms", "link": "a", "off": 1}], r"faults\[0\].off = 1: a fault has no such key; it takes at, link"),
        ([{"at": "1 ms"}], r"faults\[0\].link = None: it is no name of a link"),
        ([{"link": "a"}], r"faults\[0\].at = None: it is not a quantity"),
        ([{"at": 5, "link": "a"}], r"faults\[0\].at = 5: a quantity needs its unit"),
        ([{"at": "2 ms", "link": "a", "until": "1 ms"}], r"faults\[0\].until = 1 ms: it is no later than the"),
    ],
)
def test_a_mistake_is_named(value: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_faults(value)


def test_a_dry_run_refuses_what_the_run_would(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["network=packet", "faults=[{at: 10 ms, link: tor0 -> spine77}]", "dry_run=true"]

    assert main(words) == 2
    assert "spine77" in "".join(capsys.readouterr())
