from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.baselines import best_cuts
from xsim.plan.search.contracts import NEVER_PS
from xsim.plan.search.cuts import StageTimes, alike_times, least_maximum_cuts, stage_times


@st.composite
def stages(draw: st.DrawFn) -> list[StageTimes]:
    layers = draw(st.integers(1, 7))
    found = []
    for _ in range(draw(st.integers(1, min(layers + 1, 4)))):
        times = draw(st.lists(st.integers(0, 20), min_size=layers, max_size=layers))
        longest = [a + draw(st.integers(0, layers - a)) for a in range(layers)]
        extra = draw(st.integers(0, 9))
        found.append(stage_times(np.array(times), extra, np.array(longest)))
    return found


@given(stages())
def test_no_cuts_have_a_faster_slowest_stage_or_then_a_smaller_sum(times: list[StageTimes]) -> None:
    cuts = least_maximum_cuts(times)

    expected = best_cuts(times, int(NEVER_PS))
    if cuts is None:
        assert expected is None
    else:
        each = [int(own[a, b]) for own, a, b in zip(times, cuts, cuts[1:], strict=False)]
        assert (cuts[0], cuts[-1], len(cuts)) == (0, len(times[0]) - 1, len(times) + 1)
        assert (max(each), sum(each)) == expected


def test_a_stage_of_no_layers_or_too_many_cannot_be() -> None:
    times = stage_times(np.array([3, 4, 5]), 10, np.array([2, 3, 2]))

    assert times.tolist() == [
        [NEVER_PS, 13, 17, NEVER_PS],
        [NEVER_PS, NEVER_PS, 14, 19],
        [NEVER_PS, NEVER_PS, NEVER_PS, NEVER_PS],
        [NEVER_PS, NEVER_PS, NEVER_PS, NEVER_PS],
    ]


@given(st.integers(1, 9), st.integers(0, 20), st.integers(0, 9), st.data())
def test_runs_of_layers_that_are_alike_are_known_by_how_many_they_are(
    layers: int, layer: int, extra: int, data: st.DataObject
) -> None:
    most = data.draw(st.integers(0, layers))
    by_count = np.array([extra + n * layer if n <= most else NEVER_PS for n in range(layers + 1)])
    longest = np.minimum(np.arange(layers) + most, layers)

    expected = stage_times(np.full(layers, layer), extra, longest)
    assert alike_times(by_count).tolist() == expected.tolist()
