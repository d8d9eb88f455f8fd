"""What reports of calibrations share: rows by a key, and tables in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

__all__ = ["as_table", "grouped"]

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by a key, in order of the keys' text."""
    found: defaultdict[Key, list[Item]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return {name: found[name] for name in sorted(found, key=str)}


def as_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Lines of a table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
