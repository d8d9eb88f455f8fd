"""Ray from start to end: one of its own on this machine, or a cluster's."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.command import tell
from analysis.screen import counted
from runners import leftovers
from runners.locks import lock
from runners.stop import Beside, BrokenOff, Stop
from xsim.errors import XsimError

__all__ = ["PoolError", "Session", "StartError", "first_line", "ray_session", "resource"]

OBJECT_STORE_BYTES = 100_000_000  # rows are small; Ray's default is a third of the machine's memory
UNKNOWN_BYTES = 1 << 60  # of a host that has told Ray nothing of its memory: no limit
SERVERS = ("raylet", "gcs_server")
PREFIX = "xsim-ray-"
OWNER = "owner"  # locked while the process lives that the folder belongs to
MODE = "RAY_AUTH_MODE"  # whether Ray asks for a token

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "DO_NOT_TRACK": "true",
}


class PoolError(XsimError):
    """No simulation can run: workers do not start, or run another version of the simulator."""


class StartError(PoolError):
    """A Ray of our own did not start, perhaps since somebody killed a part of it."""


@dataclass(frozen=True, slots=True)
class Session:
    """A Ray that runs.

    Attributes:
        workers: How many it has room for.
        servers: The processes without which it is lost, if they are ours.
    """

    workers: int
    servers: tuple[Any, ...] = ()

    @property
    def lost(self) -> bool:
        """Whether it has to be started again: a server of it has ended. Ray takes long to notice, or exits itself."""
        return any(map(_has_ended, self.servers))

    def memory_bytes(self, node: str) -> tuple[int, int] | None:
        """Of the host ``node``: all that simulations may use there, and the share of one of its CPUs.

        Absent if that host is gone.
        """
        import ray

        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        for one in nodes:
            if one["NodeID"] == node and one["Alive"]:
                memory = int(one["Resources"].get("memory", UNKNOWN_BYTES))
                return memory, memory // max(1, int(one["Resources"].get("CPU", 1)))
        return None


@contextlib.contextmanager
def ray_session(address: str, workers: int | None, stop: Stop, *, ship: bool = False) -> Iterator[Session]:
    """Ray, from its start to its end.

    Raises:
        PoolError: No Ray answers at ``address``.
        StartError: One of our own does not start.
        BrokenOff: A signal came while it started, which takes seconds. It goes on until this process ends, which does
            so without more ado then; whoever watches over its files sees to the rest.
    """
    os.environ.update(QUIET)
    with _folder() as folder, _mode_kept(), contextlib.closing(Beside(stop)) as beside:
        session = beside.starts(lambda: _started(address, workers, folder, ship=ship))
        try:
            yield session
        finally:
            beside.ends(_ended)


def _ended() -> None:
    import ray

    ray.shutdown()


@contextlib.contextmanager
def _finally(finish: Callable[[], object]) -> Iterator[None]:
    """``finish`` at the end, unless Ray's start was broken off."""
    try:
        yield
    except BrokenOff:
        raise
    except BaseException:
        finish()
        raise
    finish()


@contextlib.contextmanager
def _mode_kept() -> Iterator[None]:
    """Within, Ray may begin to ask for a token, as it does when it starts one of its own; afterwards it is as before.

    It says so to the whole process and for good. A cluster without a token, joined later, could not ask its driver
    about its actors any more, and would end them all.
    """
    before = os.environ.get(MODE)

    def put_back() -> None:
        if os.environ.get(MODE) != before:
            os.environ.pop(MODE, None)
            if before is not None:
                os.environ[MODE] = before
            _forget_token()

    with _finally(put_back):
        yield


def _forget_token() -> None:
    """What Ray has read of the environment and of its files counts no more."""
    from ray import _raylet

    internals: Any = _raylet
    internals.Config.initialize("")
    internals.AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A folder for Ray's files. It and what runs in it end with this process, also if that is killed.

    Those that are left over all the same, as the watcher was killed too, are ended first.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(OSError):  # another user's, or removed meanwhile
            if (unowned := lock(old, surely=True)) is not None:
                leftovers.end_all(str(old.parent))
                unowned.close()
    folder = tempfile.mkdtemp(prefix=PREFIX)
    path = Path(folder, f".{OWNER}")
    owner = lock(path)
    assert owner is not None
    with owner:
        path.rename(path.with_name(OWNER))  # nobody saw it unlocked
        with _watched(folder):
            yield folder


@contextlib.contextmanager
def _watched(folder: str) -> Iterator[None]:
    """Another process cleans up when this one leaves the block, or has ended."""
    command = [sys.executable, "-I", "-S", leftovers.__file__, folder]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, cwd="/", start_new_session=True)
    try:
        with _finally(watcher.communicate):
            yield
    except BrokenOff as stopped:
        atexit.register(_leave, stopped.code, watcher)
        raise


def _leave(code: int, _watcher: object) -> None:
    """End this process before Ray, half started, would be told to end; then the watcher, unclosed so far, cleans up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _started(address: str, workers: int | None, folder: str, *, ship: bool) -> Session:
    """Start or join; see ``ray_session``."""
    import psutil
    import ray

    if address != "local":
        _join(address, ship=ship)
        cpus = int(resource(ray.cluster_resources, "CPU"))
        hosts = sum(bool(one["Alive"]) for one in ray.nodes())  # type: ignore[no-untyped-call]
        there: str = ray.get_runtime_context().gcs_address
        tell(f"joined the Ray at {there}: {counted(hosts, 'host')}, {counted(cpus, 'CPU')}")
        return Session(workers or max(1, cpus))
    count = workers or len(os.sched_getaffinity(0))
    _start_local(count, folder)
    own = set(leftovers.holders(folder))
    servers = [child for child in psutil.Process().children() if child.pid in own and child.name() in SERVERS]
    return Session(count, tuple(servers))


def _start_local(count: int, folder: str) -> None:
    import ray

    try:
        ray.init(
            "local",  # without an address Ray would join whatever cluster it finds, even a dead one
            num_cpus=count,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
    except Exception as error:  # Ray has no class for it: RuntimeError, TimeoutError, some of its own
        ray.shutdown()
        raise StartError(f"Ray does not start: {first_line(error)}") from None


def _join(address: str, *, ship: bool) -> None:
    import ray

    import analysis
    import runners
    import xsim

    own = [str(Path(module.__path__[0])) for module in (xsim, runners, analysis)]
    shipped = {"py_modules": own, "excludes": ["__pycache__"]} if ship else None
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=shipped)
    except ConnectionError as error:
        hint = "set RAY_ADDRESS, and RAY_AUTH_MODE=token as on the cluster's nodes"
        raise PoolError(f"no Ray at {address}: {first_line(error)}; {hint}") from None


def _has_ended(process: Any) -> bool:
    import psutil

    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def resource(resources: Callable[[], dict[str, float]], name: str) -> float:
    """How much of the resource ``name`` there is."""
    return resources().get(name, 0.0)


def first_line(error: Exception) -> str:
    """The beginning and the end of what Ray says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:1] + lines[-1:] if len(lines) > 1 else lines) or type(error).__name__
