"""The page as its user meets it: few processes, this machine only, and a comparison of two runs in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pytest

from runners.mlflow_runs import open_client
from runners.store import Store
from tests.runners.mlflow_stores import GRID, copied, log, logged, target
from tests.runners.test_mlflow_writer import row

STARTS_S = 240  # on a busy machine; 5 s on an idle one
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def page(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psutil.Process, str, Path]]:
    """The server's process, its address, and the folder of results that it shows: a sweep of two runs."""
    out = tmp_path_factory.mktemp("ui") / "outputs"
    store = Store(out / GRID)
    store.begin({"code": "c1"})
    log(target(copied(template, out), store), [row("k1", reshard="lcm"), row("k2", reshard="hetauto")])
    port = free_port()
    words = [sys.executable, "-m", "runners.ui", str(out), "--port", str(port)]
    with (
        (out / "said").open("w") as said,
        subprocess.Popen(words, cwd=out, env=os.environ, stdout=subprocess.DEVNULL, stderr=said) as server,
    ):
        process, address = psutil.Process(server.pid), f"http://127.0.0.1:{port}"
        started = time.monotonic()
        while time.monotonic() - started < STARTS_S and server.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
                break
            time.sleep(0.2)
        yield process, address, out
        family = [process, *process.children(recursive=True)]
        server.terminate()
        psutil.wait_procs(family, timeout=30)
        left = [each for each in family if each.is_running()]
        for each in left:
            each.kill()
        assert left == []


def test_few_processes_on_the_loopback_interface(page: tuple[psutil.Process, str, Path]) -> None:
    process, address, _ = page
    family = [process, *process.children(recursive=True)]

    assert len(family) <= 3, "MLflow's own choice is 15, of 1.6 GB"
    ports = [each for one in family for each in one.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    assert {each.laddr.ip for each in ports} == {"127.0.0.1"}
    assert address.endswith(f":{ports[0].laddr.port}")
    assert not any("sqlite" in word for one in family for word in one.cmdline()), "it could name a password"


def test_it_is_said_when_the_server_answers(page: tuple[psutil.Process, str, Path]) -> None:
    process, address, out = page
    started = time.monotonic()
    while "MLflow answers" not in (out / "said").read_text() and time.monotonic() - started < STARTS_S:
        time.sleep(0.1)

    said = (out / "said").read_text().splitlines()
    assert said[0] == f"starting MLflow on {address}; it answers after some seconds, Ctrl-C ends it"
    assert said.count(f"MLflow answers: open {address}") == 1
    assert not [each for each in process.children(recursive=True) if each.status() == psutil.STATUS_ZOMBIE]


def test_the_page_has_the_runs_of_a_default_sweep_mlflow_23634_18534(page: tuple[psutil.Process, str, Path]) -> None:
    """They lie in a database, and the server shows them with what they measured."""
    _, address, _ = page

    _, runs = logged(address)

    assert {"k1", "k2"} <= set(runs)
    assert all("training_time_s" in runs[key].data.metrics for key in ("k1", "k2"))


def test_a_server_is_told_as_a_file_is(page: tuple[psutil.Process, str, Path], tmp_path: Path) -> None:
    """``tracking=server``: runs, their parent and their config, and nothing twice."""
    _, address, _ = page
    store = Store(tmp_path / "outputs" / GRID)
    store.begin({"code": "c1"})
    for _ in range(2):
        log(target(address, store, sweep="far"), [row("f1"), row("f2", "timeout")], status="FINISHED")

    parents, runs = logged(address)
    (parent,) = [each for each in parents if each.data.tags["xsim.sweep"] == "far"]
    assert parent.info.status == "FINISHED"
    assert {key: runs[key].info.status for key in ("f1", "f2")} == {"f1": "FINISHED", "f2": "FAILED"}
    assert runs["f1"].data.tags["mlflow.parentRunId"] == parent.info.run_id
    client = open_client(address)
    assert client.download_artifacts(runs["f1"].info.run_id, "config.json", str(tmp_path)).endswith("config.json")
    assert json.loads((tmp_path / "config.json").read_text()) == {}
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_compare_view_in_a_browser_mlflow_21841(page: tuple[psutil.Process, str, Path], tmp_path: Path) -> None:
    _, address, out = page
    runs = logged(f"sqlite:///{out / 'mlflow.db'}")[1]
    ids = [runs[key].info.run_id for key in ("k1", "k2")]
    chosen = {"runs": ids, "experiments": [runs["k1"].info.experiment_id]}
    url = f"{address}/#/compare-runs?{urlencode({name: json.dumps(value) for name, value in chosen.items()})}"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    assert CHROMIUM is not None
    words = [CHROMIUM, *flags, f"--user-data-dir={tmp_path}", "--virtual-time-budget=60000", "--dump-dom", url]

    shown = subprocess.run(words, capture_output=True, text=True, timeout=STARTS_S, check=False).stdout

    assert "Comparing 2 Runs from 1 Experiment" in shown
    for text in (GRID, "lcm", "hetauto", "training_time_s"):
        assert text in shown, text
