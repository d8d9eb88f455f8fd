"""Replays of flows that last longer than any simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runners.lasting import check_ends
from runners.network import main
from tests.runners.replays import STAR
from xsim.errors import SpecError
from xsim.fabric.flows import FlowList

SLOW = STAR.replace("100Gbps", "1bps", 1)
LATE = "400000000000000"


@pytest.mark.parametrize("network", ["packet", "flow", "analytic"])
@pytest.mark.parametrize(
    ("topology", "flows", "message"),
    [
        (STAR, "1 0 1 9 900000000000000 -1\n", "flow 1 = 900000000000000000: it starts 10.4 days late"),
        (SLOW, "1 1 2 9 0 -1\n2 1 0 1000000 0 -1\n", "flow 2 = 1000000: its bytes take 92.6 days at least, the sl"),
        (SLOW, "".join(f"{n} 0 1 60000 0 -1\n" for n in range(2)), "link = '0->3': the flows' bytes take it 11.1 d"),
        (STAR, f"1 0 1 9 0 -1\n2 0 1 9 {LATE} 1\n3 1 2 9 {LATE} 2\n", "flow 3 = 400000000000000000: with what it w"),
    ],
    ids=["start", "flow", "link", "chain"],
)
def test_what_lasts_too_long_is_refused_by_every_network(
    network: str, topology: str, flows: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net").write_text(topology)
    (tmp_path / "ring").write_text(flows)

    assert main([f"topology={tmp_path / 'net'}", f"flows={tmp_path / 'ring'}", f"network={network}"]) == 2

    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith(f"error: ring {message}")


@pytest.mark.parametrize(("start_ps", "end_ps"), [(0, -5), (7, 6), (-1, 4), (0, 1 << 59)])
def test_an_end_that_cannot_be_is_refused(start_ps: int, end_ps: int) -> None:
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    flows = FlowList(one, zero, one, one, zero, zero, np.zeros(2, dtype=np.int64), zero[:0])

    with pytest.raises(SpecError, match="flow 1 = 1: it does not end in time"):
        check_ends(flows, np.array([start_ps]), np.array([end_ps]))
    check_ends(flows, zero, one)
