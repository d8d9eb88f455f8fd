"""What is timed runs without the check of its time account; a benchmark that wants it calls it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from xsim.account import account


@pytest.fixture(autouse=True, scope="module")
def unchecked(every_account_is_checked: None) -> Iterator[None]:
    """Take out what the fixture of all tests has put in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xsim.experiment.account", account)
        patch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].partition(os.pathsep)[2])
        yield
