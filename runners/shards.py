"""A part of a sweep's points, for clusters without Ray: each of several processes runs another."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xsim.errors import SpecError

__all__ = ["Shard"]


@dataclass(frozen=True, slots=True)
class Shard:
    """The ``number``-th of ``count`` parts, counted from 1."""

    number: int
    count: int

    @classmethod
    def from_text(cls, text: object) -> Shard:
        """Read ``2/8``.

        Raises:
            SpecError: It is no such text, or there is no such part.
        """
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text) if isinstance(text, str) else None
        if found is None:
            raise SpecError("shard", text, "it is no part of a whole", "write 1/4 for the first of four parts")
        number, count = int(found[1]), int(found[2])
        if not 1 <= number <= count:
            raise SpecError("shard", text, "there is no such part", f"the parts are 1/{count} to {count}/{count}")
        return cls(number, count)

    def holds(self, key: str) -> bool:
        """Whether the point ``key`` is in this part: a question of its key alone, whatever else is swept.

        >>> [Shard(number, 2).holds("1f") for number in (1, 2)]
        [False, True]
        """
        return int(key, 16) % self.count == self.number - 1

    @property
    def name(self) -> str:
        """For files of its own."""
        return f"{self.number}-of-{self.count}"
