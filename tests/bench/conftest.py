"""What is timed runs without the checks of all tests; a benchmark that wants one calls it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.packet_checker import retire, totals
from xsim.account import account


@pytest.fixture(autouse=True, scope="module")
def unchecked(every_run_is_checked: None) -> Iterator[None]:
    """Take out what the fixture of all tests has put in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xsim.experiment.account", account)
        patch.setattr("xsim.sim.packets.instances.Instances.totals", totals)
        patch.setattr("xsim.sim.packets.instances.Instances._retire", retire)
        patch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].partition(os.pathsep)[2])
        yield
