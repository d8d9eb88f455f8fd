"""Who owns a folder: a lock that the system releases when its owner ends, however it ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO

__all__ = ["lock"]


def lock(path: Path) -> TextIO | None:
    """The file at ``path``, open and locked until it is closed; ``None`` if another process holds it."""
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # a file system without locks: nobody can be kept out
        return file
    return file
