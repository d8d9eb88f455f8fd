"""Whatever happens to a simulation's process, its point ends as exactly one row, and the others go on."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import ray

from runners import leftovers
from runners.locks import lock
from runners.points import Point
from runners.pool import STARTS, Finished, Limits, finished
from runners.ray_session import StartError
from runners.resolve import pack
from runners.worker import Outcome, Worker
from xsim.families import FAMILIES


class Unlucky(Worker):
    """Does to its process what the point says."""

    def simulate(self, config: Mapping[str, object]) -> Outcome:
        match config["fate"]:
            case "dies":
                os._exit(1)
            case "chatty":
                for descriptor in (1, 2):
                    os.write(descriptor, b"x" * 50_000_000)
            case "hangs":
                time.sleep(1000)
            case "dies once":
                marker = str(config["marker"])
                if not os.path.exists(marker):
                    open(marker, "w").close()
                    os._exit(1)
            case "too large":
                try:
                    bytearray(1 << 44)
                except MemoryError:
                    return Outcome(status="out_of_memory", reason="", details="", metrics={}, wall_s=0.0)
        return Outcome(status="ok", reason="", details="", metrics={}, wall_s=float(str(config["wall_s"])))


def point(number: int, fate: str, marker: str = "", wall_s: float = 1.0) -> Point:
    return Point(
        labels=dict.fromkeys(("cluster", "model", "deployment", *FAMILIES), "some"),
        choice="",
        config={"fate": fate, "marker": marker, "wall_s": wall_s},
        key=f"{number:04d}",
        code="",
        packed=pack("{}"),
        seed=0,
        batch=1,
        contradiction=None,
    )


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder for temporary files with a name so short that Ray's sockets can lie in it."""
    cloudpickle: Any = ray.cloudpickle  # workers do not find the tests: the class travels by value
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(tempfile, "tempdir", tempfile.mkdtemp(dir="/tmp"))
    yield
    shutil.rmtree(tempfile.gettempdir())


def test_a_death_among_short_points_costs_the_others_nothing(short: None) -> None:
    """They shared its call; each ends once, and the one that dies does so alone before it is blamed.

    What a simulation prints fills no log (ray 62961, 9392). Nobody's process is left, nor any file.
    """
    fates = {30: "dies", 5: "chatty"}
    points = [point(number, fates.get(number, "fine"), wall_s=0.001) for number in range(60)]
    calls: list[int] = []
    limits = Limits(
        workers=2,
        timeout_s=60.0,
        retries=1,
        address="local",
        begun=lambda _worker, titles: calls.append(len(titles)),
    )

    done = []
    for entry in finished(points, limits, Unlucky):
        if entry is not None:
            done.append(entry)
            if len(done) == len(points):
                written = sum(path.stat().st_size for path in Path(tempfile.gettempdir()).rglob("*.[oe]*"))

    assert written < 10_000_000
    assert sorted(entry.point.key for entry in done) == [each.key for each in points]
    states = {entry.point.key: entry.outcome["status"] for entry in done}
    assert [key for key, status in states.items() if status != "ok"] == ["0030"]
    assert states["0030"] == "crashed"
    assert max(calls) > 5
    assert not list(leftovers.holders(tempfile.gettempdir()))
    assert not list(Path(tempfile.gettempdir()).iterdir())


def test_every_fate_is_one_row(tmp_path: Path, short: None) -> None:
    """A point whose process dies is not lost (ray 22978), one that sleeps is ended (ray 32954, 46157).

    No worker that is gone keeps its place (ray 62746).
    """
    killed, alive = (Path(tempfile.mkdtemp(prefix="xsim-ray-"), "owner") for _ in range(2))
    killed.touch()
    owner = lock(alive)
    assert owner is not None
    fates = ["fine", "dies", "fine", "hangs", "dies once", "too large", "fine"]
    points = [point(number, fate, f"{tmp_path}/marker") for number, fate in enumerate(fates)]
    begun: list[tuple[int, Sequence[str]]] = []
    limits = Limits(workers=2, timeout_s=3.0, retries=1, address="local", begun=lambda *started: begun.append(started))

    done = [entry for entry in finished(points, limits, Unlucky) if isinstance(entry, Finished)]

    found = {entry.point.key: (entry.outcome["status"], entry.attempt) for entry in done}
    assert len(done) == len(points)
    assert found == {
        "0000": ("ok", 1),
        "0001": ("crashed", 2),
        "0002": ("ok", 1),
        "0003": ("timeout", 1),
        "0004": ("ok", 2),
        "0005": ("out_of_memory", 2),
        "0006": ("ok", 1),
    }
    starts = [(worker, title) for worker, titles in begun for title in titles]
    assert len(starts) == sum(entry.attempt for entry in done)
    assert {worker for worker, _ in starts} == {0, 1}
    assert dict(begun) == {0: [], 1: []}, "in the end nobody does anything"
    reasons = {entry.point.key: entry.outcome["reason"] for entry in done}
    assert "timeout_s=3" in reasons["0003"]
    assert reasons["0001"]
    assert not ray.is_initialized()
    assert not killed.parent.exists()
    with owner:
        assert list(Path(tempfile.gettempdir()).iterdir()) == [alive.parent]


def test_a_ray_that_does_not_start_is_started_again_and_given_up_in_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody kills its first server, say; Ray says that by a RuntimeError."""

    def refuses(*_address: object, **_options: object) -> None:
        raise RuntimeError("Timed out waiting for file gcs_server_port")

    monkeypatch.setattr(ray, "init", refuses)

    with pytest.raises(StartError, match="Ray does not start: Timed out waiting for file gcs_server_port"):
        list(finished([point(0, "")], Limits(workers=1, timeout_s=None, retries=0, address="local")))

    again = "Ray does not start: Timed out waiting for file gcs_server_port; it is started again"
    assert capsys.readouterr().err.splitlines() == [again] * (STARTS - 1)
