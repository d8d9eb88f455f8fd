"""Plain, resolved configs: Hydra composes every option once, the points of a sweep are joined from the parts.

Composing each of 10,000 points by Hydra alone would take ten minutes. Hydra reads the files and the defaults list;
what a point chooses replaces whole groups, then single values are set by their dotted keys. Interpolations of keys are
resolved last, in the joined config, and mean what they mean in Hydra; nothing is computed.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runners import options
from runners.cli import Setting
from runners.resolvers import refuse_code, refuse_resolvers
from xsim.errors import SpecError
from xsim.families import FAMILIES, INSIDE, names

__all__ = ["Composer", "Plain", "delete", "place", "session"]

Plain = dict[str, object]

LONGEST = 200  # of what another program says, in a message


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Hydra, initialised on ``conf/`` with every family member as an option."""
    from hydra import initialize_config_dir

    options.store_members()
    with initialize_config_dir(str(options.CONF), version_base="1.3"):
        yield


@dataclass(frozen=True, slots=True)
class Composer:
    """Configs under fixed overrides; use it inside ``session()``.

    Attributes:
        overrides: Presets and groups in Hydra's grammar; they apply to every config.
        config_dirs: Folders searched after ``conf/``.
    """

    overrides: tuple[str, ...]
    config_dirs: tuple[Path, ...]
    _bases: dict[tuple[str, ...], tuple[Plain, dict[str, str | None]]] = field(default_factory=dict)
    _options: dict[tuple[str, object], Plain | None] = field(default_factory=dict)
    _spelled: dict[tuple[str, int], object] = field(default_factory=dict)
    _walked: dict[int, tuple[object, bool]] = field(default_factory=dict)

    def base(self, groups: Mapping[str, object]) -> tuple[Plain, dict[str, str | None]]:
        """The unresolved config with ``groups`` chosen, and the option name of every group."""
        chosen = tuple(f"~{group}" if option is None else f"{group}={option}" for group, option in groups.items())
        if chosen not in self._bases:
            self._bases[chosen] = self._composed(chosen)
        return self._bases[chosen]

    def _composed(self, chosen: Sequence[str]) -> tuple[Plain, dict[str, str | None]]:
        from hydra import compose
        from omegaconf import OmegaConf

        search = ",".join(f"'file://{folder}'" for folder in self.config_dirs)
        texts = [f"hydra.searchpath=[{search}]", *self.overrides, *chosen]
        try:
            config = compose("config", texts, return_hydra_config=True)
            choices = dict(config.hydra.runtime.choices)
            plain = OmegaConf.to_container(
                OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
            )
        except RecursionError:
            problem, fix = "its defaults lead in a circle", "remove one of them"
            raise SpecError("config", " ".join(texts[1:]), problem, fix) from None
        except Exception as error:  # for most of what a file can do wrong Hydra has no type of its own
            raise SpecError("config", " ".join(texts[1:]), _first_line(error), "correct the file or option") from None
        assert isinstance(plain, dict)
        for key, value in plain.items():
            options.check_key(str(key), value)
        named = {str(group): None if name is None else str(name) for group, name in choices.items()}
        config_plain = {str(key): value for key, value in plain.items()}
        for group in options.LABELS:
            self._options.setdefault((group, named.get(group)), _node(config_plain, group))
        return config_plain, named

    def option(self, group: str, name: object) -> Plain | None:
        """What ``group=name`` puts under ``group``; ``None`` if it is switched off."""
        if (group, name) not in self._options:
            bare = (
                not (self.overrides or self.config_dirs) and group in FAMILIES and name in names(group)
            )  # no file says more of it
            self._options[group, name] = {"name": name} if bare else _node(self.base({group: name})[0], group)
        return self._options[group, name]

    def joined(self, base: Plain, groups: Mapping[str, object], values: Sequence[Setting]) -> Plain:
        """``base`` with the options of ``groups`` and then ``values``, resolved.

        The members of the families among ``groups`` are loaded and spelled out with all their options.

        Raises:
            SpecError: A key that the chosen options do not have, or an interpolation that leads nowhere or computes.
        """
        config: Plain = base | {group: self.option(group, name) for group, name in groups.items()}
        computes = [self._interpolates(f"{key}.", node) for key, node in config.items()]
        for family in FAMILIES:
            if family in groups:
                config[family] = self._member(family, config[family], values)
        chosen = {f"{family}.{key}" for key, family in INSIDE.items() if family in groups}
        for setting in values:
            if setting.verb == "delete":
                delete(config, setting.key)
            elif setting.key not in chosen:
                add = setting.verb == "add" or setting.key in options.UNWRITTEN
                place(config, setting.key, setting.values[0], add=add)
        for setting in values:
            if setting.values:
                refuse_code(nested := _nested(setting), "")
                computes.append(_has_interpolation(nested))
        return _resolved(config) if any(computes) else config

    def _interpolates(self, path: str, node: object) -> bool:
        """Whether ``node``, in which code is refused, has interpolations; points share it, and it is walked once."""
        if id(node) not in self._walked:
            refuse_code(node, path)
            self._walked[id(node)] = (node, _has_interpolation(node))  # kept, so that no other gets its identity
        return self._walked[id(node)][1]

    def _member(self, family: str, node: object, values: Sequence[Setting]) -> object:
        """``node`` spelled out, with the members inside it that ``values`` choose."""
        if any(setting.key.startswith(f"{family}.") for setting in values):
            return _checked_member(family, node, values)
        if (family, id(node)) not in self._spelled:
            self._spelled[family, id(node)] = _checked_member(family, node, ())
        return self._spelled[family, id(node)]


def _checked_member(family: str, node: object, values: Sequence[Setting]) -> object:
    """``node`` spelled out, if it can have all of ``values`` that are meant for it, with those that choose members."""
    if not isinstance(node, dict):
        return node
    own = options.spelled_out(family, node)
    inner = [key for key, outer in INSIDE.items() if outer == family and key in own]
    chosen = {key: s.values[0] for s in values for key in inner if s.key == f"{family}.{key}" and s.values}
    full = options.spelled_out(family, own | chosen) if chosen else own
    for setting in values:
        if setting.key.startswith(f"{family}."):
            options.check_member_option(family, full, setting.key, setting.values[0] if setting.values else "")
    return full


def _nested(setting: Setting) -> object:
    """The value of a setting under its keys."""
    node: object = setting.values[0]
    for part in reversed(setting.key.split(".")):
        node = {part: node}
    return node


def _node(config: Plain, group: str) -> Plain | None:
    node = config.get(group)
    return node if isinstance(node, dict) else None


def place(config: Plain, key: str, value: object, *, add: bool) -> None:
    """Set the dotted ``key`` of ``config``; what ``config`` shares with others is copied on the way.

    Raises:
        SpecError: There is no such key and ``add`` is false.
    """
    node, last = _parent(config, key, value)
    if isinstance(node, dict):
        if last not in node and not add:
            raise _no_such_key(key, value, last, node)
        node[last] = value
    else:
        node[_index(node, last, key)] = value


def _no_such_key(key: str, value: object, last: str, node: Mapping[str, object]) -> SpecError:
    place = key.removesuffix(f".{last}")
    known = dict.fromkeys([*node, *options.unwritten_of(place)])
    more = [name for name in options.fields_of(place) if name not in known]
    if last in more:
        return SpecError(key, value, f"{place} does not have it yet", f"write +{key}=...")
    fix = f"{options.near(last, [*known, *more])}it has {', '.join(map(str, known))}"
    if more:
        fix += f"; a plus before the key adds {', '.join(more)}"
    return SpecError(key, value, "there is no such key", fix)


def delete(config: Plain, key: str) -> None:
    """Remove the dotted ``key``."""
    node, last = _parent(config, key, "")
    if isinstance(node, dict):
        if last not in node:
            raise SpecError(key, "", "there is no such key", f"it has {', '.join(map(str, node))}")
        del node[last]
    else:
        del node[_index(node, last, key)]


def _parent(config: Plain, key: str, value: object) -> tuple[dict[str, object] | list[object], str]:
    """What ``key`` is in, for its ``value``, and its last part."""
    *path, last = key.split(".")
    node: dict[str, object] | list[object] = config
    for depth, part in enumerate(path):
        where = ".".join(path[: depth + 1])
        if isinstance(node, dict):
            if part not in node:
                fix = f"{options.near(part, node)}it has {', '.join(map(str, node))}"
                raise SpecError(key, value, f"there is no such key as {where}", fix)
            child = node[part]
            copy = _copied(child, where)
            node[part] = copy
        else:
            index = _index(node, part, where)
            copy = _copied(node[index], where)
            node[index] = copy
        node = copy
    return node, last


def _copied(node: object, where: str) -> dict[str, object] | list[object]:
    if isinstance(node, dict):
        return dict(node)
    if isinstance(node, list):
        return list(node)
    raise SpecError(where, node, "it has no keys inside", "set it as a whole, or choose another option of the group")


def _index(node: list[object], part: str, key: str) -> int:
    if not part.isdecimal() or int(part) >= len(node):
        raise SpecError(key, part, "there is no such entry", f"write a number from 0 to {len(node) - 1}")
    return int(part)


def _resolved(config: Plain) -> Plain:
    if not _has_interpolation(config):
        return config
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    refuse_resolvers(config, "")
    try:
        plain = OmegaConf.to_container(OmegaConf.create(config), resolve=True)
    except OmegaConfBaseException as error:
        key = str(error.full_key or "config")
        raise SpecError(key, _at(config, key), _first_line(error), "correct the interpolation") from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _at(config: Plain, key: str) -> object:
    """The value under the path ``key``, in OmegaConf's notation: ``a.b[0].c``."""
    node: object = config
    for part in key.replace("[", ".").replace("]", "").split("."):
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and part.isdecimal():
            node = node[int(part)]
    return node


def _has_interpolation(node: object) -> bool:
    if isinstance(node, dict):
        return any(map(_has_interpolation, node.values()))
    if isinstance(node, list):
        return any(map(_has_interpolation, node))
    return isinstance(node, str) and "${" in node


def _first_line(error: Exception) -> str:
    said = str(error) or str(error.__cause__)  # Hydra wraps some in an error without words
    lines = [line for line in said.splitlines() if line.strip()] or [type(error).__name__]
    return textwrap.shorten(lines[0], LONGEST, placeholder=" ...").rstrip(".")
