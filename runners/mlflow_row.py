"""A row as a run of MLflow: what it holds, and how it is written.

A database is written to directly, the whole run in one transaction: by MLflow's requests a run is six of them, takes
several times as long, and may be left half done. A server gets those requests.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from analysis.titles import row_title
from analysis.version import CONFIG
from runners.options import LABELS
from xsim.metrics import COLUMNS

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from runners.store import Row

__all__ = ["ARTIFACT", "is_of", "log_run"]

ARTIFACT = "config.json"  # the artifact of a run
TAG_LIMIT = 5000  # MLflow cuts longer tags silently
TEXT_LIMIT = 250  # of a name, and of a text that is to be compared with others in a column
ANSWERS = ("ok", "does_not_fit", "invalid")  # the other states are failures
FIGURES = tuple(column.name for column in COLUMNS if column.kind != "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What a run holds; instants in ms since 1970."""

    name: str
    status: str
    started_ms: int
    ended_ms: int
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    config: str


def log_run(client: MlflowClient, experiment: str, row: Row, tags: Mapping[str, str]) -> None:
    """One run of ``row`` with ``tags`` beside its own, begun and ended."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    content = _content(row, tags)
    store = client._tracking_client.store  # noqa: SLF001  # a second one connects anew
    if isinstance(store, SqlAlchemyStore):
        _insert(client, store, experiment, content)
    else:
        _request(client, experiment, content)


def is_of(run: Run, row: Row) -> bool:
    """Whether ``run`` is the whole of ``row``: a crash leaves the half of one."""
    return run.info.status in ("FINISHED", "FAILED") and run.data.tags.get("xsim.identity") == _identity(row)


def _content(row: Row, tags: Mapping[str, str]) -> _Content:
    now_ms = int(time.time() * 1000)
    own = {
        "xsim.key": str(row["key"]),
        "xsim.identity": _identity(row),
        "xsim.status": str(row["status"]),
        "xsim.reason": str(row["reason"])[:TAG_LIMIT],
        "xsim.code": str(row["code"]),
    }
    numbers = {name: value for name in FIGURES if isinstance(value := row[name], int | float)}
    # MLflow mangles infinities, and counts NaN as 0, the best of all times
    if unranked := [name for name, value in numbers.items() if not math.isfinite(value)]:
        own["xsim.not_finite"] = ", ".join(unranked)
    return _Content(
        name=_short(row_title(row)),
        status="FINISHED" if row["status"] in ANSWERS else "FAILED",
        started_ms=now_ms - int(1000 * float(str(row["wall_s"]))),
        ended_ms=now_ms,
        tags={**own, **tags},
        params={
            name: _short(str(row[name])) for name in (*LABELS, "seed", "batch", "point") if row[name] not in (None, "")
        },
        metrics={name: float(value) for name, value in numbers.items() if math.isfinite(value)},
        config=json.dumps(json.loads(str(row[CONFIG])), indent=1),
    )


def _identity(row: Row) -> str:
    """Differs if the same key was run again."""
    return f"{row['status']} {row['attempt']} {row['wall_s']}"


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 4]} ..."


def _insert(client: MlflowClient, store: Any, experiment: str, content: _Content) -> None:
    """The run as rows of MLflow's tables: the same as by ``_request``."""
    from mlflow.store.tracking.dbmodels import models
    from sqlalchemy import insert, select

    run = uuid.uuid4().hex
    place: Any = models.SqlExperiment.artifact_location
    with store.ManagedSessionMaker(read_only=False) as session:
        root = session.scalar(select(place).where(models.SqlExperiment.experiment_id == int(experiment)))
        uri = f"{root.rstrip('/')}/{run}/artifacts"
        kept = _keep(uri, content.config)
        for table, rows in _tables(models, run, content, artifact_uri=uri, experiment_id=int(experiment)):
            if rows:
                session.execute(insert(table), rows)
    if not kept:
        client.log_text(run, content.config, ARTIFACT)


def _tables(models: Any, run: str, content: _Content, **more: object) -> Iterator[tuple[Any, list[dict[str, object]]]]:
    """Each table of MLflow with the rows that it gets; the run's own has ``more``."""
    own = {"run_uuid": run, "name": content.name, "status": content.status, "lifecycle_stage": "active", **more}
    own |= {"start_time": content.started_ms, "end_time": content.ended_ms, "user_id": "unknown"}
    own |= {"source_type": "UNKNOWN", "source_name": "", "source_version": "", "entry_point_name": ""}
    yield models.SqlRun, [own]
    for table, texts in (
        (models.SqlTag, {"mlflow.runName": content.name, **content.tags}),
        (models.SqlParam, content.params),
    ):
        yield table, [{"run_uuid": run, "key": key, "value": text} for key, text in texts.items()]
    moment = {"run_uuid": run, "timestamp": content.ended_ms, "step": 0, "is_nan": False}
    numbers = [{**moment, "key": key, "value": value} for key, value in content.metrics.items()]
    yield models.SqlMetric, numbers
    yield models.SqlLatestMetric, numbers


def _request(client: MlflowClient, experiment: str, content: _Content) -> None:
    from mlflow.entities import Metric, Param

    run = client.create_run(experiment, start_time=content.started_ms, tags=dict(content.tags), run_name=content.name)
    metrics = [Metric(name, value, content.ended_ms, 0) for name, value in content.metrics.items()]
    params = [Param(name, value) for name, value in content.params.items()]
    client.log_batch(run.info.run_id, metrics=metrics, params=params)
    if not _keep(run.info.artifact_uri, content.config):
        client.log_text(run.info.run_id, content.config, ARTIFACT)
    client.set_terminated(run.info.run_id, content.status, end_time=content.ended_ms)


def _keep(uri: str, config: str) -> bool:
    """``config`` as an artifact in the place ``uri``, if that is a folder of this machine."""
    place = urlparse(uri)
    if place.scheme != "file":
        return False
    folder = Path(unquote(place.path))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ARTIFACT).write_text(config)
    return True
