"""The points of a sweep, resolved completely before the first of them starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runners import options
from runners.asked import asked_for
from runners.cli import Command
from runners.compose import Composer, session
from runners.grid import Choice, expand
from runners.resolve import Point, Resolver
from runners.settings import Settings, refuse_commands
from xsim.errors import SpecError

__all__ = ["Plan", "Point", "plan_single", "plan_sweep"]

NAMELESS = "adhoc"  # folder of a sweep whose axes stand on the command line alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a command asks for: distinct points in order, and where and how they run."""

    name: str
    points: tuple[Point, ...]
    settings: Settings


def plan_sweep(command: Command) -> Plan:
    """Every point of the grid.

    Raises:
        SpecError: Anything malformed, no point, or no point without a contradiction.
    """
    with session():
        composer = _composer(command)
        asked = asked_for(command, composer)
        base, named = composer.base(asked.groups)
        refuse_commands(base)
        found = _resolved(Resolver(composer, base, named, asked.values), expand(asked.grid))
        settings = Settings.from_plain(composer.joined(base, {}, asked.settings))
    distinct: dict[str, Point] = {}
    for point in found:
        distinct.setdefault(point.key, point)
    points = tuple(distinct.values())
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
        asked = asked_for(command, None)
        base, named = composer.base(asked.groups)
        point = Resolver(composer, base, named, asked.values).point({})
        settings = Settings.from_plain(composer.joined(base, {}, asked.settings))
    if point.contradiction:
        raise point.contradiction
    return Plan(name="run", points=(point,), settings=settings)


def composed(command: Command) -> str:
    """The config before any axis is applied, as YAML, for ``--cfg job``."""
    import yaml

    with session():
        composer = _composer(command)
        asked = asked_for(command, composer)
        base, named = composer.base(asked.groups)
        plain = composer.joined(base, options.members_of(named), [*asked.values, *asked.settings])
    return yaml.safe_dump(plain, sort_keys=False)


def _composer(command: Command) -> Composer:
    presets = (s for s in command.settings if s.key in options.PRESETS)
    return Composer(tuple(f"+{preset.key}={preset.values[0]}" for preset in presets), command.config_dirs)


def _resolved(resolver: Resolver, choices: Iterable[Choice]) -> list[Point]:
    """A point for every choice; one that cannot be read is a contradiction if what is blamed works in another point.

    ``network=flow`` has no packets, so ``network.payload_bytes`` beside it is one where ``network=packet`` varies too.

    Raises:
        SpecError: What is blamed works nowhere: it is malformed.
    """
    found: list[tuple[Choice, Point | SpecError]] = []
    for choice in choices:
        try:
            found.append((choice, resolver.point(choice)))
        except SpecError as error:
            found.append((choice, error))
    works = {(key, repr(value)) for choice, each in found if isinstance(each, Point) for key, value in choice.items()}
    points: list[Point] = []
    for choice, each in found:
        if isinstance(each, SpecError):
            blamed = resolver.blamed(each, choice)
            if not works or (blamed in choice and (blamed, repr(choice[blamed])) not in works):
                raise each
            points.append(resolver.refused(choice, each))
        else:
            points.append(each)
    return points
