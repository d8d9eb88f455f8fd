"""Who owns a folder: a lock that the system releases when its owner ends, however it ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO

__all__ = ["lock"]


def lock(path: Path, *, shared: bool = False, surely: bool = False) -> TextIO | None:
    """The file at ``path``, open and locked until it is closed; ``None`` if another process holds it.

    Several may hold it ``shared``, as long as nobody holds it alone. Where the file system has no locks, nobody can be
    kept out: the file is open all the same, unless it is to be locked ``surely``.
    """
    file = path.open("a+", encoding="utf-8", errors="backslashreplace")
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if surely or isinstance(error, BlockingIOError):
            file.close()
            return None
    return file
