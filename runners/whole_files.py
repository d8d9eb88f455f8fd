"""Files that appear under their name complete, or not at all."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """``data`` under ``path``, complete or not at all, also if the machine stops meanwhile.

    Raises:
        OSError: That failed; it names a file.
    """
    hidden = path.with_name(f".{path.name}.{os.getpid()}@{socket.gethostname()}")
    try:
        _make(path.parent)
        with hidden.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hidden.rename(path)
        _sync(path.parent)
    except BaseException as error:
        with suppress(OSError):  # on a disk that became read-only even that is refused
            hidden.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)
        raise


def _make(folder: Path) -> None:
    """``folder``, which is still there after a power failure."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
