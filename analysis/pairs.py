"""The points that two sweeps share, and what is unlike between their rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.cases import CASE_COLUMNS
from analysis.version import CONFIG
from xsim.metrics import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NUMBERS", "Pair", "Pairs", "paired"]

Row = Mapping[str, Any]

NUMBERS = frozenset(column.name for column in COLUMNS if column.kind in ("float", "int"))
SHOWN_CHANGES = 4  # of a config
ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Pair:
    """A point in both sweeps.

    Attributes:
        name: What tells it from the others.
        one, other: The figure asked for, or the status of a row that has none.
        ratio: The other figure over the one; absent without one of them.
        equal: Whether every figure is, and the status.
        changed: What is unlike, figures and inputs. What is alike for all pairs is not repeated.
    """

    name: str
    one: float | str
    other: float | str
    ratio: float | None
    equal: bool
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Attributes:
    between: What differs between the sweeps in every point.
    only_one, only_other: How many points have no partner.
    """

    pairs: tuple[Pair, ...]
    between: tuple[str, ...]
    only_one: int
    only_other: int


def paired(one: pa.Table, other: pa.Table, metric: str) -> Pairs:
    """The rows of two sweeps by what names them; of several alike in one sweep each is taken once, in order."""
    names = [name for name in CASE_COLUMNS if name in one.column_names and name in other.column_names]
    rows, others = one.to_pylist(), other.to_pylist()
    apart = [name for name in names if _is_between(rows, others, name)]
    columns = [name for name in names if name not in apart]
    partners: dict[tuple[object, ...], list[Row]] = {}
    for row in others:
        partners.setdefault(tuple(row[name] for name in columns), []).append(row)
    found: list[tuple[Row, Row]] = []
    for row in rows:
        waiting = partners.get(tuple(row[name] for name in columns))
        if waiting:
            found.append((row, waiting.pop(0)))
    between = [f"{name} {_named(rows[0][name])} -> {_named(others[0][name])}" for name in apart]
    if found and all(row["code"] != partner["code"] for row, partner in found):
        between.append("the simulator's code")
    changes = [tuple(_config_changes(row, partner)) for row, partner in found]
    common = set.intersection(*map(set, changes)) if len(changes) > 1 else set()
    between += [text for text in dict.fromkeys(text for each in changes for text in each) if text in common]
    telling = [name for name in columns if len({row[name] for row in rows}) > 1] or columns[:2]
    pairs = [
        _pair(row, partner, metric, telling, [text for text in change if text not in common])
        for (row, partner), change in zip(found, changes, strict=True)
    ]
    return Pairs(tuple(pairs), tuple(between), len(rows) - len(found), len(others) - len(found))


def _pair(row: Row, partner: Row, metric: str, telling: Sequence[str], change: Sequence[str]) -> Pair:
    figures = [_figure(each, metric) for each in (row, partner)]
    one, other = figures
    ratio = other / one if isinstance(one, float) and isinstance(other, float) and one else None
    unlike = [name for name in NUMBERS if not _equal(row.get(name), partner.get(name))]
    changed: list[str] = []
    if row["status"] != partner["status"]:
        changed.append(f"status {row['status']} -> {partner['status']}")
    elif row["status"] != "ok" and row["reason"] != partner["reason"]:
        changed.append("the reason")
    elif metric in unlike:
        changed.append(metric)
    elif unlike:
        changed.append(unlike[0] if len(unlike) == 1 else f"{len(unlike)} other figures")
    equal = not changed
    more = len(change) - SHOWN_CHANGES
    changed += [*change[:SHOWN_CHANGES], *([f"and {more} more inputs"] if more > 0 else [])]
    name = "/".join(str(row[name]) for name in telling if row[name] not in (None, ""))
    return Pair(name, one, other, ratio, equal, tuple(changed))


def _named(value: object) -> object:
    return "nothing" if value in (None, "") else value


def _figure(row: Row, metric: str) -> float | str:
    value = row.get(metric)
    return str(row["status"]) if value is None else float(value)


def _equal(one: Any, other: Any) -> bool:
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return bool(one == other) or both_nan


def _is_between(rows: Sequence[Row], others: Sequence[Row], name: str) -> bool:
    """Whether all of the one sweep have one value of ``name``, and all of the other another one."""
    here, there = ({row[name] for row in each} for each in (rows, others))
    return len(here) == len(there) == 1 and here != there


def _config_changes(row: Row, partner: Row) -> Iterator[str]:
    """``model.seq_len 2048 -> 4096`` for every input that differs."""
    if row[CONFIG] != partner[CONFIG]:
        here, there = (dict(_leaves(json.loads(each[CONFIG]), "")) for each in (row, partner))
        for key in sorted({*here, *there}):
            if here.get(key, ABSENT) != there.get(key, ABSENT) and not key.endswith(".name"):
                yield f"{key} {here.get(key, ABSENT)} -> {there.get(key, ABSENT)}"


def _leaves(node: object, path: str) -> Iterator[tuple[str, object]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else None
    if items is None:
        yield path, node
        return
    for key, child in items:
        yield from _leaves(child, f"{path}.{key}" if path else str(key))
