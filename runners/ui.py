"""Open the runs in MLflow's web page, on this machine only.

python -m runners.ui              # the runs under outputs/
python -m runners.ui FOLDER --port 5001
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.command import Parser, exits, tell
from runners.mlflow_runs import ENVIRONMENT
from runners.settings import default_uri
from xsim.errors import SpecError

__all__ = ["main"]

HOST = "127.0.0.1"


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
    os.execve(sys.executable, [sys.executable, "-m", "mlflow", *command], environment)


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
