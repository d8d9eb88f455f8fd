"""The points of a sweep, resolved completely before the first of them starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runners import options
from runners.cli import Command, Setting, several
from runners.compose import Composer, Plain, delete, place, session
from runners.grid import Choice, Grid, expand, grid_from_plain, pin
from runners.inputs import INPUT_KEYS, code_hash, key_of, read, resolved
from runners.settings import SETTING_KEYS, Settings, refuse_commands
from runners.titles import title
from runners.user_files import with_texts
from xsim.errors import SpecError
from xsim.families import FAMILIES

__all__ = ["Plan", "Point", "plan_single", "plan_sweep"]

NAMELESS = "adhoc"  # folder of a sweep whose axes stand on the command line alone
OWN_COLUMN = (*options.LABELS, "seed", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One experiment to run.

    Attributes:
        labels: Option name per group of the experiment.
        choice: What else was set or varies, as text.
        config: Plain data, everything resolved: what a worker receives.
        config_json: The typed experiment spelled out, canonical.
        contradiction: Why the experiment cannot exist; absent for a sound one.
    """

    labels: Mapping[str, str | None]
    choice: str
    config: Plain
    key: str
    code: str
    config_json: str
    seed: int
    batch: int
    contradiction: SpecError | None

    @property
    def title(self) -> str:
        """Short, for people."""
        return title(self.labels, self.choice, batch=self.batch, seed=self.seed, sound=self.contradiction is None)

    @property
    def named(self) -> dict[str, object]:
        """Its key, and what names it, by column of the results."""
        return {"key": self.key, **self.labels, "point": self.choice, "seed": self.seed}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a command asks for: distinct points in order, and where and how they run."""

    name: str
    points: tuple[Point, ...]
    settings: Settings


@dataclass(frozen=True, slots=True)
class _Asked:
    """The command line, sorted by what its settings do."""

    grid: Grid
    groups: dict[str, object]
    values: list[Setting]
    settings: list[Setting]


def plan_sweep(command: Command) -> Plan:
    """Every point of the grid.

    Raises:
        SpecError: Anything malformed, no point, or no point without a contradiction.
    """
    with session():
        composer = _composer(command)
        asked = _sorted(command, _grid(command, composer))
        _check_axes(asked.grid, command)
        base, named = composer.base(asked.groups)
        found = [_point(composer, base, named, asked.values, choice) for choice in expand(asked.grid)]
        refuse_commands(base)
        settings = Settings.from_plain(composer.joined(base, {}, asked.settings))
    points = tuple({point.key: point for point in reversed(found)}.values())[::-1]
    if all(point.contradiction for point in points):
        assert points[0].contradiction
        raise points[0].contradiction
    grid = next((str(setting.values[0]) for setting in command.settings if setting.key == "grid"), NAMELESS)
    return Plan(name=grid, points=points, settings=settings)


def plan_single(command: Command) -> Plan:
    """The one experiment of a command without axes.

    Raises:
        SpecError: Anything malformed or contradictory, or several values for a key.
    """
    for setting in command.settings:
        if setting.key == "grid" or len(setting.values) > 1:
            shown = ",".join(map(str, setting.values))
            raise SpecError(setting.key, shown, "that is more than one experiment", "start it with runners.sweep")
    with session():
        composer = _composer(command)
        asked = _sorted(command, Grid(axes={}))
        base, named = composer.base(asked.groups)
        point = _point(composer, base, named, asked.values, {})
        settings = Settings.from_plain(composer.joined(base, {}, asked.settings))
    if point.contradiction:
        raise point.contradiction
    return Plan(name="run", points=(point,), settings=settings)


def composed(command: Command) -> str:
    """The config before any axis is applied, as YAML, for ``--cfg job``."""
    import yaml

    with session():
        composer = _composer(command)
        asked = _sorted(command, _grid(command, composer))
        base, named = composer.base(asked.groups)
        plain = composer.joined(base, _members(named), [*asked.values, *asked.settings])
    return yaml.safe_dump(plain, sort_keys=False)


def _composer(command: Command) -> Composer:
    presets = (s for s in command.settings if s.key in options.PRESETS)
    return Composer(tuple(f"+{preset.key}={preset.values[0]}" for preset in presets), command.config_dirs)


def _grid(command: Command, composer: Composer) -> Grid:
    base, _ = composer.base({})
    for setting in command.settings:
        if setting.key.startswith("grid."):
            if setting.verb == "delete":
                delete(base, setting.key)
            else:
                value = setting.values[0] if len(setting.values) == 1 else list(setting.values)
                place(base, setting.key, value, add=setting.verb == "add")
    return grid_from_plain(base.get("grid", {}), several)


def _sorted(command: Command, grid: Grid) -> _Asked:
    asked = _Asked(grid, {}, [], [])
    axes = set(grid.keys())
    for setting in command.settings:
        key = setting.key
        first = key.partition(".")[0]
        if key in options.PRESETS or first == "grid":
            continue
        axis = f"+{key}" if setting.verb == "add" and key not in axes else key
        if setting.verb != "delete" and (key in axes or len(setting.values) > 1):
            asked = replace(asked, grid=pin(asked.grid, axis, setting.values))
        elif key in options.GROUPS:
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


def _point(
    composer: Composer,
    base: Plain,
    named: Mapping[str, str | None],
    values: Sequence[Setting],
    choice: Choice,
) -> Point:
    groups = _members(named) | {key: value for key, value in choice.items() if key in options.LABELS}
    more = {key.removeprefix("+"): value for key, value in choice.items() if key not in options.LABELS}
    chosen = [Setting(k.removeprefix("+"), (v,), "add" if k[0] == "+" else "set") for k, v in choice.items()]
    config = with_texts(composer.joined(base, groups, [*values, *(s for s in chosen if s.key in more)]))
    labels = {label: _name(groups.get(label, named.get(label))) for label in options.LABELS}
    plain = {key: config.get(key) for key in INPUT_KEYS}
    if labels["planner"] != "given":  # the only planner that reads a deployment
        labels["deployment"] = plain["deployment"] = None
    for group in options.DATA:
        node = plain[group]
        if isinstance(node, dict):
            plain[group] = {"name": labels[group]} | node
    inputs = read(plain)
    config_json = json.dumps(resolved(inputs), sort_keys=True, separators=(",", ":"))
    contradiction = _unread([*values, *chosen], labels["planner"])
    try:
        inputs.experiment()
    except SpecError as error:
        contradiction = _advised(error, labels["deployment"])
    return Point(
        labels=labels,
        choice=_choice(values, more),
        config=plain,
        key=key_of(config_json, code_hash()),
        code=code_hash(),
        config_json=config_json,
        seed=inputs.seed,
        batch=inputs.batch,
        contradiction=contradiction,
    )


def _unread(settings: Iterable[Setting], planner: str | None) -> SpecError | None:
    """What is wrong with keys of a deployment where the planner makes its own."""
    for setting in settings:
        if planner != "given" and setting.key.startswith("deployment.") and setting.values:
            problem = f"the planner {planner} makes a deployment of its own"
            fix = f"write planner.{setting.key.removeprefix('deployment.')} if it has this option, or planner=given"
            return SpecError(setting.key, setting.values[0], problem, fix)
    return None


def _choice(values: Sequence[Setting], more: dict[str, object]) -> str:
    """What distinguishes a point beside its options and the columns of its own."""
    fixed = {setting.key: setting.values[0] for setting in values if setting.values}
    deleted = [f"~{setting.key}" for setting in values if not setting.values]
    shown = [f"{key}={options.spelled(value)}" for key, value in (fixed | more).items() if key not in OWN_COLUMN]
    return ", ".join([*shown, *deleted])


def _members(named: Mapping[str, str | None]) -> dict[str, object]:
    """The chosen member of each family that has one."""
    return {family: named[family] for family in FAMILIES if named.get(family) is not None}


def _advised(error: SpecError, deployment: str | None) -> SpecError:
    """A deployment that contradicts model or cluster may be right, and they the wrong ones for it."""
    if deployment is None or not re.fullmatch(r"deployment\..*\.(ranks|layers)", error.field):
        return error
    fix = f"{error.fix}, or choose the model and cluster that {deployment} was written for"
    return SpecError(error.field, error.value, error.problem, fix)


def _name(option: object) -> str | None:
    return None if option is None else str(option)
