"""Replays that would take hours are refused before they begin."""

from __future__ import annotations

import numpy as np
import pytest

from runners.hard_work import check_work
from xsim.errors import SpecError
from xsim.fabric.flows import PORT, FlowList
from xsim.fabric.graph import Cable, Graph
from xsim.fabric.hashed_paths import Paths
from xsim.sim.congestion.dcqcn import Dcqcn
from xsim.sim.congestion.dctcp import Dctcp
from xsim.sim.packets.settings import Settings

HOSTS = 16
STAR = Graph(HOSTS + 1, frozenset({HOSTS}), tuple(Cable(host, HOSTS, 10**11, 1_000_000) for host in range(HOSTS)))
DCQCN = Settings(congestion=Dcqcn())


def star(count: int, into: bool, size_bytes: int, classes: int = 1, apart_ps: int = 0) -> tuple[FlowList, Paths]:
    """Flows between the first host of the star and the others, into it or out of it."""
    rows, zero = np.arange(count), np.zeros(count, dtype=np.int64)
    others = 1 + rows % (HOSTS - 1)
    src, dst = (others, zero) if into else (zero, others)
    waits, starts = np.zeros(count + 1, dtype=np.int64), rows * apart_ps
    flows = FlowList(
        rows, src, dst, zero + size_bytes, starts, zero + PORT, waits, zero[:0], classes=1 + rows % classes
    )
    return flows, Paths(2 * np.arange(count + 1), np.stack((2 * src, 2 * dst + 1), axis=1).ravel())


def test_timers_of_too_many_flows_that_wait_for_one_host() -> None:
    with pytest.raises(SpecError, match=r"congestion = 'dcqcn': 1000000 flows queue for 16->0.* 2e\+11 times") as found:
        check_work(STAR, *star(10**6, True, 3000), DCQCN)

    assert found.value.fix.endswith("such as dctcp or hpcc")


@pytest.mark.parametrize(
    ("count", "into", "size_bytes", "apart_ps", "settings"),
    [
        (100_000, True, 3000, 0, DCQCN),
        (10**6, True, 1000, 0, DCQCN),  # ends at its first acknowledgement
        (10**6, False, 3000, 0, DCQCN),  # queues at its host, where nothing is marked
        (10**6, True, 3000, 300_000, DCQCN),  # each is over when the next one starts
        (10**6, True, 3000, 0, Settings(congestion=Dcqcn(), ecn={})),
        (10**6, True, 3000, 0, Settings(congestion=Dctcp())),
    ],
)
def test_what_ends_in_time_is_not_refused(
    count: int, into: bool, size_bytes: int, apart_ps: int, settings: Settings
) -> None:
    check_work(STAR, *star(count, into, size_bytes, apart_ps=apart_ps), settings)


def test_turns_of_too_many_flows_of_several_classes() -> None:
    with pytest.raises(SpecError, match=r"flows = 1000000: 66667 of them take turns at 1->16 for packets of several"):
        check_work(STAR, *star(10**6, True, 3000, classes=2), Settings())

    check_work(STAR, *star(10**6, False, 3000, classes=2), Settings())
    check_work(STAR, *star(10**5, True, 3000, classes=2), Settings())


def test_the_timers_are_as_many_as_run_out() -> None:
    """Of 10,000 flows of three packets into one host 17 million events were counted, all but half a million timers'."""
    flows, paths = star(10_000, True, 3000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runners.hard_work.MOST_ALARMS", 2e7)
        check_work(STAR, flows, paths, DCQCN)
        patch.setattr("runners.hard_work.MOST_ALARMS", 1.2e7)
        with pytest.raises(SpecError, match="congestion"):
            check_work(STAR, flows, paths, DCQCN)
