"""A run that is written into MLflow's tables is the run that MLflow's requests make."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run, ViewType

from runners import mlflow_row
from runners.mlflow_row import is_of, log_run
from runners.mlflow_runs import open_client, runs_of
from runners.store import Row, row_of
from tests.runners.mlflow_stores import copied, experiment_id
from tests.runners.test_store import FIGURES, outcome, point

TAGS = {"mlflow.parentRunId": "0" * 32, "xsim.folder": "here"}


@pytest.fixture
def uri(template: Path, tmp_path: Path) -> str:
    return copied(template, tmp_path)


def row(**values: Any) -> Row:
    return row_of(point("k1"), outcome("ok"), worker=0, attempt=1) | values


def seen(run: Run) -> str:
    """All of ``run`` but its id, the instants and whether it was deleted."""
    said = json.dumps(run.to_dictionary(), sort_keys=True)
    return re.sub(r"\d{13}", "INSTANT", said.replace(run.info.run_id, "ID").replace('"deleted"', '"active"'))


@pytest.mark.parametrize("unranked", [0, len(FIGURES)], ids=["figures", "none that is finite"])
def test_both_ways_say_the_same(uri: str, monkeypatch: pytest.MonkeyPatch, unranked: int) -> None:
    client = open_client(uri)
    experiment = experiment_id(client, uri)
    logged = row(**dict.fromkeys(list(FIGURES)[:unranked], float("nan")), point="p" * 300)

    log_run(client, experiment, logged, TAGS)
    (written,) = runs_of(client, experiment, "")
    client.delete_run(written.info.run_id)
    monkeypatch.setattr(mlflow_row, "_insert", lambda client, _store, *rest: mlflow_row._request(client, *rest))
    log_run(client, experiment, logged, TAGS)
    (asked,) = runs_of(client, experiment, "")
    (written,) = client.search_runs([experiment], "", run_view_type=ViewType.DELETED_ONLY)

    assert seen(asked) == seen(written)
    assert is_of(asked, logged)
    assert is_of(written, logged)
    for name in asked.data.metrics:
        histories = [client.get_metric_history(run.info.run_id, name) for run in (written, asked)]
        assert [[(each.value, each.step) for each in history] for history in histories] == [
            [(asked.data.metrics[name], 0)]
        ] * 2
    for run in (written, asked):
        assert [item.path for item in client.list_artifacts(run.info.run_id)] == ["config.json"]


def test_a_run_is_whole_or_not_there(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the writer between two of its tables."""
    client = open_client(uri)
    experiment = experiment_id(client, uri)
    tables = mlflow_row._tables

    def breaks(*args: Any, **more: Any) -> Any:
        for number, each in enumerate(tables(*args, **more)):
            if number == 3:
                raise KeyboardInterrupt
            yield each

    monkeypatch.setattr(mlflow_row, "_tables", breaks)
    with pytest.raises(KeyboardInterrupt):
        log_run(client, experiment, row(), TAGS)

    assert not list(runs_of(client, experiment, ""))
