"""Which points a sweep has: axes, zipped axes, exclusions and extra points, all as data.

A grid is a section of a config file::

    grid:
      axes:                     # every combination
        reshard: [lcm, hetauto]
        seed: range(0,3)        # Hydra's grammar, also on the command line
        model: {seq_len: [2048, 4096]}   # the same as model.seq_len: [2048, 4096]
      zip:                      # keys that advance together
        - cluster: [fig4, h100x8_a100x1]
          deployment: [fig4_7b, h100x8_a100x1_7b]
      exclude:                  # points that match every key of an entry are dropped
        - {cluster: fig4, reshard: hetauto}
      include:                  # points added as they stand; of a list each value makes one
        - {cluster: fig4, reshard: lcm, batch: [48, 96]}

All of it may also stand on the command line: ``grid.exclude=[{cluster:fig4,seed:1}]``, with a plus to add an entry.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from runners.options import GROUPS, ROOT, near
from xsim.errors import SpecError

__all__ = [
    "LIMIT",
    "SECTION",
    "Choice",
    "Grid",
    "check_rules",
    "expand",
    "grid_from_plain",
    "narrow_extra",
    "pin",
    "too_many",
]

Choice = dict[str, object]  # key -> value of one point: {"reshard": "lcm", "model.seq_len": 2048}
Values = tuple[object, ...]

LIMIT = 100_000  # points; all are resolved, some 0.5 ms each, before the first starts

SECTION = ("axes", "zip", "exclude", "include")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Points as data; nothing is chosen beyond the keys it names.

    Attributes:
        axes: Values per key; the points are their product.
        zipped: Blocks of keys that advance together; each block is one more factor of the product.
        exclude: A point that matches all keys of an entry is dropped; an entry's value may be a tuple of values.
        include: Points beside the product.
    """

    axes: Mapping[str, Values]
    zipped: tuple[Mapping[str, Values], ...] = ()
    exclude: tuple[Mapping[str, Values], ...] = ()
    include: tuple[Choice, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for key in self.keys():
            if key in seen:
                raise SpecError(f"grid.{key}", "", "it is an axis twice", "list it once, under axes or zip")
            seen.add(key)
        for number, block in enumerate(self.zipped):
            lengths = {key: len(values) for key, values in block.items()}
            if len(set(lengths.values())) > 1:
                shown = ", ".join(f"{key} has {count}" for key, count in lengths.items())
                raise SpecError(f"grid.zip[{number}]", shown, "zipped keys advance together", "give each as many")

    def keys(self) -> Iterator[str]:
        """Every axis, zipped ones first."""
        for block in self.zipped:
            yield from block
        yield from self.axes


def grid_from_plain(section: object, several: Callable[[str, str], Values]) -> Grid:
    """The grid that a config section describes.

    Args:
        section: Mapping with ``axes``, ``zip``, ``exclude``, ``include``.
        several: Reads text such as ``range(0,5)``: (key, text) to values.
    """
    fields = _mapping("grid", section)
    for key in fields:
        if key not in SECTION:
            fix = f"{near(key, SECTION)}a grid has {', '.join(SECTION)}"
            if key in ("grid", *GROUPS, *ROOT):
                fix = "a grid's file that sets keys beside its axes begins with the line: # @package _global_"
            raise SpecError(f"grid.{key}", fields[key], "there is no such key", fix)

    def values(path: str, node: object) -> dict[str, Values]:
        found = _flat(path, node)
        return {key: _values(f"{path}.{key}", key, value, several) for key, value in found.items()}

    return Grid(
        axes=values("grid.axes", fields.get("axes") or {}),
        zipped=tuple(values(f"grid.zip[{i}]", node) for i, node in _entries("grid.zip", fields)),
        exclude=tuple(values(f"grid.exclude[{i}]", node) for i, node in _entries("grid.exclude", fields)),
        include=tuple(
            point
            for i, node in _entries("grid.include", fields)
            for point in _extra(f"grid.include[{i}]", _flat(f"grid.include[{i}]", node), several)
        ),
    )


def pin(grid: Grid, key: str, values: Values) -> Grid:
    """The grid with ``key`` at ``values``: an axis is replaced or added, zipped keys and extra points are narrowed.

    An extra point without the key gets it.

    Raises:
        SpecError: A zipped key never has one of ``values``.
    """
    extra = [
        point | {key: value}
        for point in grid.include
        for value in ([point[key]] if key in point else values)
        if value in values
    ]
    grid = replace(grid, include=tuple(extra))
    for number, block in enumerate(grid.zipped):
        if key not in block:
            continue
        missing = [value for value in values if value not in block[key]]
        if missing:
            partners = ", ".join(other for other in block if other != key)
            offered = ", ".join(dict.fromkeys(map(str, block[key])))
            raise SpecError(key, missing[0], f"the grid zips it with {partners}", f"choose among {offered}")
        kept = [row for row, value in enumerate(block[key]) if value in values]
        narrowed = {other: tuple(column[row] for row in kept) for other, column in block.items()}
        return replace(grid, zipped=(*grid.zipped[:number], narrowed, *grid.zipped[number + 1 :]))
    return replace(grid, axes={**grid.axes, key: values})


def narrow_extra(grid: Grid, key: str, value: object) -> Grid:
    """The grid without the extra points that have another value of ``key``, which is no axis.

    Raises:
        SpecError: All that have the key have another value.
    """
    having = {str(point[key]): None for point in grid.include if key in point}
    kept = tuple(point for point in grid.include if point.get(key, value) == value)
    if having and not any(key in point for point in kept):
        fix = f"choose among {', '.join(having)}, or write grid.include anew"
        raise SpecError(key, value, "no extra point of the grid has it", fix)
    return replace(grid, include=kept)


def expand(grid: Grid) -> tuple[Choice, ...]:
    """Every point once: zipped blocks vary slowest, the last axis fastest, extra points come last.

    Raises:
        SpecError: There is no point, or more than ``LIMIT``.

    >>> [point["a"] for point in expand(Grid(axes={"a": (1, 2, 3)}, exclude=({"a": (2,)},)))]
    [1, 3]
    """
    blocks = [_rows(block) for block in grid.zipped]
    axes = [[{key: value} for value in values] for key, values in grid.axes.items()]
    factors = [*blocks, *axes]
    if math.prod(map(len, factors)) > LIMIT:
        raise too_many("grid", _sizes(grid))
    product = [_merged(parts) for parts in itertools.product(*factors)] if factors else []
    points = [*(point for point in product if not _excluded(point, grid.exclude)), *grid.include]
    distinct = {repr(sorted(point.items())): point for point in points}
    if not distinct:
        fix = "exclude less" if factors else "start a single experiment with runners.run"
        raise SpecError("grid", _sizes(grid), "it has no points", f"name a grid (+grid=NAME), vary a key, or {fix}")
    return tuple(distinct.values())


def too_many(key: str, value: str) -> SpecError:
    """More points than a sweep may have."""
    return SpecError(key, value, f"that is more than {LIMIT} points", "split the sweep, or choose fewer values")


def _sizes(grid: Grid) -> str:
    parts = (*grid.zipped, grid.axes)
    return ", ".join(f"{key}: {len(values)}" for part in parts for key, values in part.items()) or "no axes"


def check_rules(grid: Grid, pinned: Grid) -> None:
    """Refuse an exclusion that can drop nothing: it names what no axis has, or what a zip never joins.

    Args:
        grid: As it is written.
        pinned: The same after the command line chose among its values.
    """
    offered: dict[str, list[object]] = {}
    for block in (*grid.zipped, grid.axes, *pinned.zipped, pinned.axes):
        for key, values in block.items():
            offered.setdefault(key, []).extend(values)
    for number, rule in enumerate(grid.exclude):
        for key in rule:
            if key not in offered:
                fix = f"{near(key, offered)}the axes are {', '.join(offered)}"
                raise SpecError(f"grid.exclude[{number}].{key}", "", "it is no axis of this grid", fix)
        for key, value in ((key, value) for key, values in rule.items() for value in values):
            if value not in offered[key]:
                known = list(dict.fromkeys(map(str, offered[key])))
                fix = f"{near(value, known)}it has {', '.join(known)}"
                raise SpecError(f"grid.exclude[{number}].{key}", value, "the axis has no such value", fix)
        for block in grid.zipped:
            part = {key: values for key, values in rule.items() if key in block}
            if not any(_excluded(row, (part,)) for row in _rows(block)):
                shown = {key: values[0] if len(values) == 1 else list(values) for key, values in part.items()}
                fix = f"the grid zips {', '.join(block)}: take values that stand together"
                raise SpecError(f"grid.exclude[{number}]", shown, "no point has these values", fix)


def _rows(block: Mapping[str, Values]) -> list[Choice]:
    """What the keys of a zipped block are together, one after another."""
    return [dict(zip(block, row, strict=True)) for row in zip(*block.values(), strict=True)]


def _merged(parts: tuple[Choice, ...]) -> Choice:
    return {key: value for part in parts for key, value in part.items()}


def _excluded(point: Choice, rules: tuple[Mapping[str, Values], ...]) -> bool:
    return any(all(key in point and point[key] in values for key, values in rule.items()) for rule in rules)


def _mapping(path: str, node: object) -> dict[str, object]:
    if not isinstance(node, Mapping):
        raise SpecError(path, node, "it is not a mapping", "write key: value")
    return {str(key): value for key, value in node.items()}


def _flat(path: str, node: object) -> dict[str, object]:
    """Keys with dots: a mapping under a group, unless it describes a member, holds keys inside it."""
    flat: dict[str, object] = {}
    for key, value in _mapping(path, node).items():
        inside = isinstance(value, Mapping) and value and "name" not in value and key.partition(".")[0] in GROUPS
        found = {f"{key}.{inner}": each for inner, each in _mapping("", value).items()} if inside else {key: value}
        for name, each in (_flat(path, found) if inside else found).items():
            if name in flat:
                raise SpecError(f"{path}.{name}", each, "it stands here twice", "write it once")
            flat[name] = each
    return flat


def _extra(path: str, node: Mapping[str, object], several: Callable[[str, str], Values]) -> Iterator[Choice]:
    """The points of an entry, one for each value of a list or range, several lists multiplied."""
    values = {
        key: (value,) if isinstance(value, str) and "(" not in value else _values(f"{path}.{key}", key, value, several)
        for key, value in node.items()
    }
    if math.prod(map(len, values.values())) > LIMIT:
        raise too_many(path, ", ".join(f"{key}: {len(each)}" for key, each in values.items()))
    for row in itertools.product(*values.values()):
        yield dict(zip(values, row, strict=True))


def _entries(path: str, fields: Mapping[str, object]) -> Iterator[tuple[int, object]]:
    node = fields.get(path.removeprefix("grid.")) or []
    if not isinstance(node, list):
        raise SpecError(path, node, "it is not a list", "write one entry per line, each with a dash")
    return iter(list(enumerate(node)))


def _values(path: str, key: str, node: object, several: Callable[[str, str], Values]) -> Values:
    found = several(key, node) if isinstance(node, str) else tuple(node) if isinstance(node, list) else (node,)
    if not found:
        raise SpecError(path, [], "it has no values", "list at least one, or remove the key")
    return found
