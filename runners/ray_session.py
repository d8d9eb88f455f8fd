"""Ray from start to end: one of its own on this machine, or a cluster's."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from runners.locks import lock
from runners.stop import Beside
from xsim.errors import XsimError

__all__ = ["PoolError", "first_line", "ray_session", "resource"]

OBJECT_STORE_BYTES = 100_000_000  # rows are small; Ray's default is a third of the machine's memory
PREFIX = "xsim-ray-"
OWNER = "owner"  # locked while the process lives that the folder belongs to

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "DO_NOT_TRACK": "true",
}


class PoolError(XsimError):
    """No simulation can run: workers do not start, or run another version of the simulator."""


@contextlib.contextmanager
def ray_session(address: str, workers: int | None) -> Iterator[tuple[int, int | None]]:
    """Ray, how many workers it has room for, and how much memory each may use (absent: no limit).

    Raises:
        PoolError: No Ray answers at ``address``.
    """
    os.environ.update(QUIET)
    import ray

    with _folder() as folder, contextlib.closing(Beside()) as beside:
        try:
            yield beside(lambda: _started(address, workers, folder))
        finally:
            beside(ray.shutdown)


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A folder for Ray's files. Those of processes that were killed are removed: nobody else does."""
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(OSError):  # another user's, or removed meanwhile
            if (unowned := lock(old)) is not None:
                shutil.rmtree(old.parent, ignore_errors=True)
                unowned.close()
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        path = Path(folder, f".{OWNER}")
        owner = lock(path)
        assert owner is not None
        with owner:
            path.rename(path.with_name(OWNER))  # nobody saw it unlocked
            yield folder


def _started(address: str, workers: int | None, folder: str) -> tuple[int, int | None]:
    """Start or join; see ``ray_session``."""
    import ray

    if address != "local":
        _join(address)
        return workers or max(1, int(resource(ray.cluster_resources, "CPU"))), None
    count = workers or len(os.sched_getaffinity(0))
    _start_local(count, folder)
    return count, int(resource(ray.cluster_resources, "memory") / count)


def _start_local(count: int, folder: str) -> None:
    import ray

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


def _join(address: str) -> None:
    import ray

    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        hint = "set RAY_ADDRESS, and RAY_AUTH_MODE=token as on the cluster's nodes"
        raise PoolError(f"no Ray at {address}: {first_line(error)}; {hint}") from None


def resource(resources: Callable[[], dict[str, float]], name: str) -> float:
    """How much of the resource ``name`` there is."""
    return resources().get(name, 0.0)


def first_line(error: Exception) -> str:
    """The beginning and the end of what Ray says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:1] + lines[-1:] if len(lines) > 1 else lines) or type(error).__name__
