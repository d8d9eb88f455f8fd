"""How much memory a process has taken."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["peak_bytes"]


def peak_bytes() -> int:
    """Resident bytes of this process at most, so far.

    ``getrusage`` would not do: there a process begins with the peak of the one that started it.
    """
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])
