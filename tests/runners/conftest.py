"""What several files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runners.mlflow_stores import made


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs, to be copied."""
    return made(tmp_path_factory.mktemp("store"))
