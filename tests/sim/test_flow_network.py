"""``flow``: fair sharing against plain twins, and shortcuts that change nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.network_twin import max_min, simulate
from tests.sim.traffic import Timetable, play, point_to_point, same_stats, timetables, fabric_of
from xsim.sim.kernels import events as k
from xsim.sim.network.flow import Flow
from xsim.sim.traffic.compiled import Compiler
from xsim.sim.traffic.events import Events


@given(timetables())
def test_shortcuts_change_no_bit(timetable: Timetable) -> None:
    quick, quick_stats = play(Flow().open(timetable.fabric, 0), timetable)
    plain, plain_stats = play(Flow(reuse=False).open(timetable.fabric, 0), timetable)

    assert quick == plain
    assert same_stats(quick_stats, plain_stats)


@given(timetables(most=4))
def test_completions_are_those_of_the_plain_twin(timetable: Timetable) -> None:
    found, _ = play(Flow().open(timetable.fabric, 0), timetable)
    expected = simulate(timetable)

    assert {(handle, party) for handle, party, _ in found} == set(expected)
    assert all(abs(at_ps - expected[handle, party]) <= 4 for handle, party, at_ps in found)
