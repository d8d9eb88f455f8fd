"""Open the runs in MLflow's web page, on this machine only.

python -m runners.ui              # the runs under outputs/
python -m runners.ui FOLDER --port 5001
"""

from __future__ import annotations

import argparse
import http.client
import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from analysis.command import Parser, exits, tell
from runners.mlflow_runs import ENVIRONMENT, process
from runners.settings import default_uri
from xsim.errors import SpecError

__all__ = ["main"]

HOST = "127.0.0.1"
PATIENCE_S = 600.0  # with a server that does not answer; it takes 5 s on an idle machine
LOOK_EVERY_S = 0.2


@exits
def main(argv: Sequence[str]) -> int:
    """Become the server process; Ctrl-C ends it."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("outputs"), help="folder of all results")
    parser.add_argument("--uri", help="tracking URI, if tracking.uri= was set")
    parser.add_argument("--port", type=int, default=5000)
    given = parser.parse_args(argv)
    folder = given.folder.resolve()
    if given.uri is None and not (folder / "mlflow.db").is_file():
        raise SpecError(
            "folder", str(given.folder), "it holds no mlflow.db", "run a sweep first, or name its out folder"
        )
    if given.uri is not None and given.uri.startswith(("http:", "https:")):
        raise SpecError("--uri", given.uri, "there a server runs already", "open it in a browser")
    _check_free(given.port)
    tell(f"starting MLflow on http://{HOST}:{given.port}; it answers after some seconds, Ctrl-C ends it")
    command = ["ui", "--host", HOST, "--port", str(given.port), "--workers", "1"]
    environment = os.environ | ENVIRONMENT | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment["MLFLOW_BACKEND_STORE_URI"] = given.uri or default_uri(folder)  # a list of processes shows no variables
    _announce(given.port)
    os.execve(sys.executable, [sys.executable, "-m", "mlflow", *command], environment)


def _announce(port: int) -> None:
    """Leave a process that tells when the server answers which this one is about to become, and ends then.

    Its parent has ended already: the server would never ask what became of a child that it does not know.
    """
    server = process(os.getpid())
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if not os.fork():
            _tell_when_it_answers(port, server)
    finally:
        os._exit(0)


def _tell_when_it_answers(port: int, server: str) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s and process(int(server.split(maxsplit=1)[0])) == server:
        with suppress(OSError, http.client.HTTPException), closing(http.client.HTTPConnection(HOST, port, 5)) as asked:
            asked.request("GET", "/health")
            if asked.getresponse().status == http.HTTPStatus.OK:
                tell(f"MLflow answers: open http://{HOST}:{port}")
                return
        time.sleep(LOOK_EVERY_S)


def _check_free(port: int) -> None:
    """Refuse a port on which another program listens: the server would end with a page of log."""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as the server does: an old connection is no obstacle
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise SpecError("port", port, str(error.strerror), f"choose another: --port {port + 1}") from None


if __name__ == "__main__":
    raise SystemExit(main())
