"""Who owns a folder: a lock that the system releases when its owner ends, however it ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO

__all__ = ["lock"]


def lock(path: Path, *, shared: bool = False) -> TextIO | None:
    """The file at ``path``, open and locked until it is closed; ``None`` if another process holds it.

    Several may hold it ``shared``, as long as nobody holds it alone.
    """
    file = path.open("a+")
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # a file system without locks: nobody can be kept out
        return file
    return file
