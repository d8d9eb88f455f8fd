"""What several files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.store import Store
from tests.runners.mlflow_stores import GRID, copied, made


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs, to be copied."""
    return made(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Of a grid without runs."""
    found = Store(tmp_path / "outputs" / GRID)
    found.begin({"code": "c1"})
    return found


@pytest.fixture
def uri(store: Store, template: Path) -> str:
    """An MLflow database beside ``store``."""
    return copied(template, store.folder.parent)
