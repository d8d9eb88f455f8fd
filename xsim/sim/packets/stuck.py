"""Why a packet simulation cannot end: what its errors say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from xsim.sim.kernels import packet_columns as k

__all__ = ["full_queues", "listed", "reason"]

Ints = NDArray[np.int64]
NAMED = 8  # of a kind; the others are counted

LESS_AT_ONCE = "lower network.ack_every, or give flows larger windows"
MORE_MEMORY = "give switches more memory, network.{option}, or take ways without a circle"
GO_BACK = "set network.retry_ps, so that senders go back by themselves"


def reason(links: Ints, name: Callable[[int], str], count: int) -> tuple[str, str]:
    """What is wrong where nothing is under way any more and flows are unfinished, and how to mend it.

    Args:
        links: The kernel's table.
        name: Of a link, for people.
        count: Of links, each of which may have several lanes.
    """
    held = (
        ("paused", links[:, k.PAUSED] == 1, "buffer_bytes"),
        ("without credit", links[:, k.CREDIT_CALL] == k.NEXT_CALL, "credit_bytes"),
    )
    for what, which, option in held:
        if which.any():
            waiting = np.flatnonzero(which).tolist()
            queues = listed([f"{name(link % count)} ({links[link, k.BACKLOG]} bytes queued)" for link in waiting])
            return f"packets wait for one another: {what} for good are {queues}", MORE_MEMORY.format(option=option)
    losing = np.flatnonzero(links[:, k.LOST] + links[:, k.DROPS])
    if not len(losing):
        return "windows are full, and smaller than what receivers acknowledge at once, network.ack_every", LESS_AT_ONCE
    where = listed([name(link) for link in dict.fromkeys((losing % count).tolist())])
    return f"packets were lost that nobody asks for again, on {where}", GO_BACK


def full_queues(links: Ints, name: Callable[[int], str], count: int) -> str:
    """By which links packets came for which there was no room, as part of a sentence; empty if none. As ``reason``."""
    full = np.flatnonzero(links[:, k.DROPS])
    where = listed([name(link) for link in dict.fromkeys((full % count).tolist())])
    return f", and queues were too full for packets that came by {where}" if where else ""


def listed(texts: Sequence[str]) -> str:
    """The first of ``texts``, and how many more there are."""
    more = len(texts) - NAMED
    return ", ".join(texts[:NAMED]) + (f" and {more} more" if more > 0 else "")
