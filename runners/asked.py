"""What a command asks for: the grid with what the command line chose, and the settings that are the same everywhere.

A key of the command line that the grid has too replaces its axis, narrows its zipped keys and its extra points; one
that it does not have is another axis if it has several values, and holds for every point if it has one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from runners import options
from runners.cli import Command, Setting, several
from runners.compose import Composer, Plain, delete, place
from runners.grid import SECTION, Grid, check_rules, grid_from_plain, narrow_extra, pin
from runners.inputs import INPUT_KEYS
from runners.members import described
from runners.settings import SETTING_KEYS
from xsim.errors import SpecError
from xsim.families import FAMILIES

__all__ = ["Asked", "asked_for"]


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line, sorted by what its settings do.

    Attributes:
        grid: What varies.
        groups: Option per group that does not vary; absent ones are switched off.
        values: Of keys of the experiment that do not vary.
        settings: Of keys that no result depends on.
    """

    grid: Grid
    groups: dict[str, object]
    values: list[Setting]
    settings: list[Setting]


def asked_for(command: Command, composer: Composer | None) -> Asked:
    """The settings of ``command`` and the grid that it names; without ``composer`` there is no grid.

    Raises:
        SpecError: The grid is malformed, or names what there is not.
    """
    if composer is None:
        return _sorted(command, Grid(axes={}))
    base, _ = composer.base({})
    grid = grid_from_plain(_edited(base.get("grid"), command), several)
    asked = _sorted(command, grid)
    check_rules(grid, asked.grid)
    _check_axes(replace(asked.grid, include=grid.include), command)
    for number, extra in enumerate(grid.include):
        if extra not in asked.grid.include:  # it drops out: no config of it will show what is wrong
            for key, value in extra.items():
                _check_inside(f"grid.include[{number}].{key}", key.removeprefix("+"), value)
    return asked


def _edited(section: object, command: Command) -> object:
    """The section of the grid with what the command line sets in it."""
    for setting in command.settings:
        part, _, key = setting.key.removeprefix("grid.").partition(".")
        if not setting.key.startswith("grid."):
            continue
        if section is None:
            section = {}
        if not isinstance(section, dict):
            return section
        value = setting.values[0] if len(setting.values) == 1 else list(setting.values)
        if part == "axes" and key and setting.verb != "delete":
            section = section | {part: _mapping(section.get(part)) | {key: value}}
        elif part in SECTION and not key and setting.verb != "delete":
            section = section | {part: _added(section.get(part), value) if setting.verb == "add" else value}
        else:
            section = _placed(section, setting, value)
    return {} if section is None else section


def _added(before: object, value: object) -> object:
    """What a plus does: entries of axes and of lists come to those that are there."""
    if isinstance(value, dict):
        return _mapping(before) | value if not isinstance(before, list) else [*before, value]
    return [*before, *value] if isinstance(before, list) and isinstance(value, list) else value


def _mapping(node: object) -> dict[str, object]:
    return dict(node) if isinstance(node, dict) else {}


def _placed(section: dict[str, object], setting: Setting, value: object) -> object:
    """``section`` with a single value inside an entry set, or a part removed."""
    config: Plain = {"grid": section}
    if setting.key.startswith("grid.axes.") and (key := setting.key.removeprefix("grid.axes.")) in _mapping(
        section.get("axes")
    ):
        return section | {"axes": {name: each for name, each in _mapping(section["axes"]).items() if name != key}}
    if setting.verb == "delete":
        delete(config, setting.key)
    else:
        place(config, setting.key, value, add=setting.verb == "add")
    return config["grid"]


def _sorted(command: Command, grid: Grid) -> Asked:
    asked = Asked(grid, {}, [], [])
    axes = set(grid.keys())
    extra = {key for point in grid.include for key in point}
    for setting in command.settings:
        key = setting.key
        first = key.partition(".")[0]
        if key in options.PRESETS or first == "grid":
            continue
        axis = f"+{key}" if setting.verb == "add" and key not in axes else key
        if setting.verb != "delete" and (key in axes or len(setting.values) > 1):
            asked = replace(asked, grid=pin(asked.grid, axis, setting.values))
            continue
        if key in extra and setting.values:
            asked = replace(asked, grid=narrow_extra(asked.grid, key, setting.values[0]))
        if key in options.GROUPS:
            asked.groups[key] = None if setting.verb == "delete" else setting.values[0]
        else:
            (asked.settings if first in SETTING_KEYS else asked.values).append(setting)
    return asked


def _check_axes(grid: Grid, command: Command) -> None:
    columns: list[tuple[str, str, Iterable[object]]] = [
        *((f"zip[{i}]", key, values) for i, block in enumerate(grid.zipped) for key, values in block.items()),
        *(("axes", key, values) for key, values in grid.axes.items()),
        *((f"include[{i}]", key, (value,)) for i, extra in enumerate(grid.include) for key, value in extra.items()),
    ]
    for place_in_grid, key, values in columns:
        try:
            _check_axis(key.removeprefix("+"), values, command)
        except SpecError as error:
            raise error.under(f"grid.{place_in_grid}") from None


def _check_axis(key: str, values: Iterable[object], command: Command) -> None:
    if key in options.LABELS:
        for value in values:
            options.check_choice(key, value, command.config_dirs)
        return
    options.check_key(key, list(values))
    if key.partition(".")[0] not in INPUT_KEYS:
        fix = f"choose among {', '.join(INPUT_KEYS)} and keys inside them"
        raise SpecError(key, list(values), "it cannot be an axis: no result depends on it", fix)


def _check_inside(place: str, key: str, value: object) -> None:
    """Refuse a key of a group that no option of it can have."""
    group, _, rest = key.partition(".")
    first = rest.partition(".")[0]
    if group in FAMILIES:
        members = tuple(described(group))
        known = sorted({word.partition("=")[0].partition(".")[2] for each in members for word in each.options})
        known = known if all(each.about for each in members) else []  # a file that cannot be read tells nothing
    else:
        known = list(options.fields_of(group))
    if first and known and first not in (*known, "name"):
        fix = f"{options.near(first, known)}{group} may have {', '.join(known)}"
        raise SpecError(place, value, "there is no such key", fix)
