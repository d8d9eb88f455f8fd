"""What of this machine could spoil a long sweep, one function each; ``runners.doctor`` shows what they find.

What lies in its results is looked at in ``result_checks``.
"""

from __future__ import annotations

import os
import re
import resource
import socket
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

__all__ = ["Finding", "environment", "gigabytes", "machine", "network", "ray_starts", "software", "there"]

WORKER_BYTES = 1 << 30  # a worker with a simulation of 1024 ranks
FILES = 1024  # open at once: Ray's sockets and logs of a dozen workers
RAY_S = 60.0
RAY_PROGRAMS = ("raylet", "gcs_server", "ray::")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        state: ``problem``: a sweep would fail or lose time; ``warning``: it may; ``note``: good to know.
        fix: What to do; empty if nothing is to be done.
    """

    what: str
    state: Literal["ok", "note", "warning", "problem"]
    found: str
    fix: str = ""


def software() -> Iterator[Finding]:
    """Versions: of Python, and of each package that Xsim pins."""
    version = sys.version.split()[0]
    good = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield Finding("python", "ok" if good else "problem", version, "" if good else "use Python 3.11 to 3.13")
    try:
        pinned = [re.match(r"([\w.-]+)==([\w.]+)$", line) for line in metadata.requires("xsim") or ()]
    except metadata.PackageNotFoundError:
        yield Finding(
            "packages", "warning", "xsim is not installed, so that nothing says which it needs", "pip install ."
        )
        return
    wrong = list(_wrong([(found[1], found[2]) for found in pinned if found]))
    fix = "pip install --constraint constraints.txt ." if wrong else ""
    yield Finding("packages", "problem" if wrong else "ok", "; ".join(wrong) or f"{len(pinned)} as pinned", fix)


def machine() -> Iterator[Finding]:
    """Processors, memory, limits of the process, and whether compiled code can be kept."""
    import psutil

    cpus, free = len(os.sched_getaffinity(0)), psutil.virtual_memory().available
    fits = max(1, free // WORKER_BYTES)
    few = "" if fits >= cpus else f"num_workers={fits}, or end other programs"
    yield Finding("memory", "warning" if few else "ok", f"{gigabytes(free)} free for {cpus} workers", few)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    low = files != resource.RLIM_INFINITY and files < FILES
    yield Finding("open files", "warning" if low else "ok", f"limit {files}", f"ulimit -n {FILES}" if low else "")
    folder = os.environ.get("NUMBA_CACHE_DIR")
    place = Path(folder) if folder else Path(__file__).parent.parent / "xsim"
    writable = os.access(there(place), os.W_OK)
    fix = "" if writable else "set NUMBA_CACHE_DIR to a folder of your own"
    yield Finding("compiled code", "ok" if writable else "warning", f"kept in {folder or '__pycache__'}", fix)


def network(port: int) -> Iterator[Finding]:
    """Whether the page's port is free, who of Ray listens beyond this machine, and who can read its token."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken = probe.connect_ex(("127.0.0.1", port)) == 0
    fix = f"runners.ui --port {port + 1}" if taken else ""
    yield Finding("port of the UI", "warning" if taken else "ok", f"{port} is {'in use' if taken else 'free'}", fix)
    open_ports = sorted(_beyond_loopback())
    mode = os.environ.get("RAY_AUTH_MODE")
    text = "Ray's own ports listen on every interface while it runs, whatever address it is given"
    guarded = "; who joins needs its token" if mode in (None, "token") else f"; RAY_AUTH_MODE={mode} asks for no token"
    if open_ports:
        text += f": {', '.join(map(str, open_ports[:6]))} now"
    fix = "" if mode in (None, "token") else "export RAY_AUTH_MODE=token, on every node"
    yield Finding("Ray's ports", "warning" if fix else "note", text + guarded, fix)
    token = Path.home() / ".ray" / "auth_token"
    if token.exists() and stat.S_IMODE(token.stat().st_mode) & 0o077:
        yield Finding("Ray's token", "warning", f"others on this machine can read {token}", f"chmod 600 {token}")


def environment() -> Iterator[Finding]:
    """Variables that change less, or more, than one expects; the state of the source."""
    import xsim
    from runners.manifest import git_state

    told = {
        "MLFLOW_RUN_ID": "ignored: every run of a sweep is its own",
        "MLFLOW_TRACKING_URI": "ignored unless tracking=server",
        "RAY_ADDRESS": "ignored unless ray=cluster",
        "NUMBA_DISABLE_JIT": "simulations are a hundred times slower: unset it",
    }
    for name, meaning in told.items():
        if os.environ.get(name):
            state: Literal["note", "problem"] = "problem" if "unset" in meaning else "note"
            yield Finding(name, state, "set", meaning)
    state_of = git_state(Path(xsim.__file__).parent)
    if state_of is not None and state_of["changed"]:
        changed = state_of["changed"]
        assert isinstance(changed, list)
        text = f"{len(changed)} files of the simulator differ from commit {str(state_of['commit'])[:10]}"
        yield Finding("source", "note", text, "commit them if results are to be found again by their commit")


def ray_starts() -> Iterator[Finding]:
    """Whether Ray starts here, and runs something."""
    from runners.ray_session import ray_session
    from runners.stop import Stop

    started = time.monotonic()
    try:
        with ray_session("local", 1, Stop()) as session:
            import ray

            answer = ray.get(ray.remote(num_cpus=1)(_process).remote(), timeout=RAY_S)
            memory = session.memory_bytes(ray.get_runtime_context().get_node_id())
    except Exception as error:  # whatever Ray raises is the finding
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        yield Finding("ray", "problem", text, "see its message, and the notes above")
        return
    text = f"{session.workers} worker answered (process {answer}) after {time.monotonic() - started:.1f} s"
    limit = "" if memory is None else f"; {gigabytes(memory[1])} for it"
    yield Finding("ray", "ok", text + limit)


def there(path: Path) -> Path:
    """What there is of ``path``: itself, or the nearest folder above it."""
    return next(parent for parent in (path, *path.parents) if parent.exists())


def gigabytes(count: float) -> str:
    """``count`` bytes for people."""
    return f"{count / 1e9:.1f} GB"


def _process() -> int:
    return os.getpid()


def _wrong(pinned: list[tuple[str, str]]) -> Iterator[str]:
    from runners.manifest import version_of

    for name, version in pinned:
        if (there := version_of(name)) != version:
            yield f"{name} is {there or 'missing'}, not {version}"


def _beyond_loopback() -> set[int]:
    """Ports on which processes of a Ray listen for other machines."""
    import psutil

    found: set[int] = set()
    for process in psutil.process_iter(["name"]):
        try:
            if str(process.info["name"]).startswith(RAY_PROGRAMS):
                listening = [each for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
                found |= {each.laddr.port for each in listening if not each.laddr.ip.startswith(("127.", "::1"))}
        except psutil.Error:  # ended meanwhile, or another user's
            continue
    return found
