"""Points that need more than their share keep others off their host, and only off theirs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners import leftovers
from runners.brake import Brake
from runners.durations import Durations
from runners.needs import Need
from runners.pool import Limits, _Pool, _Slot
from runners.ray_session import Session
from runners.stop import Stop
from runners.waiting import Task, Waiting
from runners.worker import Worker
from tests.runners.test_pool import point

GB = 10**9


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> _Pool:
    """Two hosts of four CPUs and 16 GB, all workers idle."""
    numbers = iter(range(8))

    def started(_pool: _Pool, number: int) -> _Slot:
        return _Slot(number, None, None, node="ab"[next(numbers) // 4], memory=(16 * GB, 4 * GB))

    monkeypatch.setattr(_Pool, "_started", started)
    limits = Limits(workers=8, timeout_s=None, retries=1, address="local")
    return _Pool(limits, Worker, Session(8), Waiting({}, Durations()), 8)


def occupy(slot: _Slot, need: Need) -> None:
    slot.need, slot.tasks = need, [Task(point(0, "fine"))]


def test_shares_fill_a_host_exactly(hosts: _Pool) -> None:
    for slot in hosts.slots[:4]:
        assert hosts._fits(slot, Need())
        occupy(slot, Need())


def test_a_large_one_leaves_room_for_as_many_small_ones_as_its_host_has(hosts: _Pool) -> None:
    large = Need(memory_bytes=10 * GB)
    occupy(hosts.slots[0], large)

    assert hosts._fits(hosts.slots[1], Need())
    occupy(hosts.slots[1], Need())
    assert not hosts._fits(hosts.slots[2], Need()), "18 of 16 GB"
    assert hosts._fits(hosts.slots[2], Need(memory_bytes=2 * GB))
    assert hosts._fits(hosts.slots[4], large), "the other host is free"
    assert hosts.slots[0].memory_bytes == 10 * GB
    assert hosts.slots[1].memory_bytes == 4 * GB


def test_several_cpus_keep_as_many_workers_still(hosts: _Pool) -> None:
    occupy(hosts.slots[0], Need(cpus=3, memory_bytes=GB))

    assert not hosts._fits(hosts.slots[1], Need(cpus=2, memory_bytes=GB))
    assert hosts._fits(hosts.slots[1], Need(memory_bytes=GB))
    occupy(hosts.slots[1], Need(memory_bytes=GB))
    assert not hosts._fits(hosts.slots[2], Need(memory_bytes=GB))


def test_who_needs_a_whole_host_waits_for_it_and_nobody_joins(hosts: _Pool) -> None:
    whole = Need(whole=True)
    occupy(hosts.slots[0], Need())

    assert not hosts._fits(hosts.slots[1], whole)
    assert hosts._fits(hosts.slots[4], whole)
    occupy(hosts.slots[4], whole)
    assert not hosts._fits(hosts.slots[5], Need(memory_bytes=1))


def test_more_than_a_host_has_runs_there_alone(hosts: _Pool) -> None:
    huge = Need(cpus=99, memory_bytes=999 * GB)

    assert hosts._fits(hosts.slots[0], huge)
    occupy(hosts.slots[0], huge)
    assert hosts.slots[0].memory_bytes == 16 * GB
    assert not hosts._fits(hosts.slots[1], Need())


def died(hosts: _Pool, task: Task, status: str, reason: str) -> list[tuple[str, int]]:
    """What becomes of ``task`` when its process dies once more."""
    slot = hosts.slots[0]
    slot.tasks = [task]
    task.attempt += 1
    return [(done.outcome["status"], done.attempt) for done in hosts._died(slot, status, reason)]


def test_innocent_bystanders_of_a_machine_without_memory_run_again_alone(
    hosts: _Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ray PR 61210: several workers are killed for the memory that one takes."""
    monkeypatch.setattr(_Pool, "_started", lambda _pool, number: hosts.slots[number])
    bystander = Task(point(1, "fine"))

    assert died(hosts, bystander, "out_of_memory", "the machine ran out of memory") == []
    assert hosts.waiting.need(bystander) == Need(whole=True)
    assert hosts.waiting.take(lambda _need: True, 8) == (Need(whole=True), [bystander])
    assert died(hosts, bystander, "out_of_memory", "the machine ran out of memory") == [("out_of_memory", 2)]


def test_a_lost_machine_is_no_death_of_a_process(hosts: _Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Pool, "_started", lambda _pool, number: hosts.slots[number])
    task = Task(point(1, "fine"))

    for _ in range(3):
        assert died(hosts, task, "crashed", "The actor is dead because its node has died.") == []
    assert died(hosts, task, "crashed", "its worker process has died") == []
    assert died(hosts, task, "crashed", "its worker process has died") == [("crashed", 5)]


def test_a_stopped_pool_collects_what_is_about_to_end(hosts: _Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing new starts, and after a moment nobody is waited for any more."""
    now_s = [0.0]
    monkeypatch.setattr("runners.pool.time", SimpleNamespace(monotonic=lambda: now_s[0]))
    hosts.limits.brake.stop.code = 130
    occupy(hosts.slots[0], Need())
    asked: list[float] = []

    def collected(_pool: _Pool, patience_s: float) -> Any:
        asked.append(now_s[0])
        now_s[0] += patience_s
        return iter(())

    monkeypatch.setattr(_Pool, "_collected", collected)

    assert list(hosts.run(1)) == []
    assert asked
    assert now_s[0] <= 2


def test_what_a_killed_driver_leaves_is_ended_by_its_watcher(tmp_path: Path) -> None:
    """ray 31451 and 2005; a process that only looks at the files goes on."""
    folder = tmp_path / "xsim-ray-x"
    folder.mkdir()
    script = (
        "import sys, time; open(sys.argv[1], 'w'); f = open(sys.argv[1]); print('up', flush=True); time.sleep(1000)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, str(folder / "log")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    reader = subprocess.Popen(["tail", "-f", str(folder / "log")])
    driver = (
        "import sys, time; from pathlib import Path; from runners.ray_session import _watched\n"
        f"with _watched({str(folder)!r}): print('up', flush=True); time.sleep(1000)"
    )
    killed = subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE)
    assert killed.stdout is not None
    killed.stdout.readline()

    assert folder.exists()
    killed.send_signal(signal.SIGKILL)

    assert holder.wait(60) == -signal.SIGKILL
    deadline_s = time.monotonic() + 60
    while folder.exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not folder.exists()
    assert reader.poll() is None
    reader.kill()
    assert os.getpid() not in list(leftovers.holders(str(folder)))


def test_a_budget_and_signals_have_names() -> None:
    assert Brake().cause == ""
    assert Brake(Stop(143)).cause == "interrupted"
    assert Brake(time_budget_s=0).cause == "time_budget is used up"
    brake = Brake(max_failures=1)
    brake.count("does_not_fit")
    assert brake.cause == ""
    brake.count("timeout")
    assert brake.cause == "max_failures=1 is reached"
