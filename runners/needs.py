"""What a simulation takes of its host."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Need"]


@dataclass(frozen=True, slots=True)
class Need:
    """What a simulation takes of its host.

    Attributes:
        cpus: Workers that stand still for it, its own included.
        memory_bytes: That it may use; absent: the share of one worker.
        whole: Nothing else runs on that host meanwhile, and it may use what is free.
    """

    cpus: int = 1
    memory_bytes: int | None = None
    whole: bool = False
