"""Profiles of the property tests, and where the reference data lies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.account_checker import check_account
from tests.packet_checker import checked_retire, checked_totals
from xsim.account import Account, account
from xsim.plan.workload import Workload
from xsim.sim.timeline import Timeline

settings.register_profile("fast", max_examples=15, derandomize=True, deadline=None)
settings.register_profile(
    "soak", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

HERE = Path(__file__).parent
WHOLE = (HERE / "e2e", HERE)  # tests of the whole


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: one that begins when nothing else is left keeps all processes but its own waiting."""
    items.sort(key=lambda item: item.path.parent not in WHOLE)


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder that holds measured/, netref/ and planner_data/; the test is skipped where there is none."""
    folder = os.environ.get("XSIM_REFERENCE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("XSIM_REFERENCE_DATA names no folder with reference data")
    return Path(folder)


@pytest.fixture(autouse=True, scope="session")
def every_run_is_checked() -> Iterator[None]:
    """Whatever experiment a test runs, here or in a process that it starts, its account is computed a second time.

    And whatever packet network is asked for its statistics has nothing left over at its end.
    """

    def checked(workload: Workload, timeline: Timeline) -> Account:
        return check_account(workload, timeline, account(workload, timeline))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xsim.experiment.account", checked)
        patch.setattr("xsim.sim.packets.instances.Instances.totals", checked_totals)
        patch.setattr("xsim.sim.packets.instances.Instances._retire", checked_retire)
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "checked"), prepend=os.pathsep)
        yield
