"""The folder is the registry: finds, describes and builds the members of a family.

``xsim/plan/reshard/mine.py`` with one public dataclass is the option ``reshard=mine``; its fields, with defaults, are
its options. A package outside this one offers members through the entry-point group ``xsim.<family>``.

A member is imported when it is asked for and checked then: a broken file is an error of the option that it offers, and
of no other.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import pkgutil
import typing
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from xsim.errors import SpecError

__all__ = [
    "FAMILIES",
    "INSIDE",
    "Members",
    "build",
    "defaults",
    "filled",
    "member",
    "members",
    "name_of",
    "names",
    "package",
    "plain",
]

FAMILIES: Mapping[str, str] = {
    "planner": "xsim.plan.planner",
    "reshard": "xsim.plan.reshard",
    "collective": "xsim.plan.collective",
    "schedule": "xsim.plan.schedule",
    "compute": "xsim.plan.compute",
    "topology": "xsim.fabric.topology",
    "network": "xsim.sim.network",
    "background": "xsim.sim.background",
    "noise": "xsim.plan.noise",
    "estimate": "xsim.estimate",
}

INSIDE: Mapping[str, str] = {"congestion": "network"}  # their members are an option of members of another family

_PACKAGES: Mapping[str, str] = {**FAMILIES, "congestion": "xsim.sim.congestion"}

_CONTRACTS: Mapping[str, str] = {
    "planner": "xsim.plan.contracts:Planner",
    "reshard": "xsim.plan.contracts:Reshard",
    "collective": "xsim.plan.contracts:CollectiveAlgorithm",
    "schedule": "xsim.plan.contracts:Schedule",
    "compute": "xsim.plan.contracts:ComputeModel",
    "topology": "xsim.fabric.fabric:Topology",
    "network": "xsim.sim.contracts:NetworkBackend",
    "background": "xsim.sim.contracts:Background",
    "noise": "xsim.plan.contracts:Noise",
    "estimate": "xsim.plan.contracts:Estimator",
    "congestion": "xsim.sim.contracts:CongestionControl",
}

NOTHING: Mapping[str, object] = {}

T = TypeVar("T")


def package(family: str) -> str:
    """The package whose modules are the members."""
    return _PACKAGES[family]


@cache
def names(family: str) -> tuple[str, ...]:
    """Option names of ``family``, sorted; imports none of them."""
    package = importlib.import_module(_PACKAGES[family])
    own = (info.name for info in pkgutil.iter_modules(package.__path__))
    others = (entry.name for entry in metadata.entry_points(group=f"xsim.{family}"))
    return tuple(sorted({*own, *others}))


@cache
def member(family: str, name: str) -> type:
    """The class behind ``family=name``.

    Raises:
        SpecError: There is no such member (the message lists those there are), or its file keeps no member's rules.
    """
    if name not in names(family):
        near = difflib.get_close_matches(str(name), names(family), n=1)
        hint = f"did you mean {near[0]}?" if near else ""
        offered = f"choose one of {', '.join(names(family))}"
        raise SpecError(family, name, "there is no such option", f"{hint} {offered}".strip())
    others = {entry.name: entry for entry in metadata.entry_points(group=f"xsim.{family}")}
    module = others[name].module if name in others else f"{_PACKAGES[family]}.{name}"
    try:
        found: object = others[name].load() if name in others else _only_public_class(importlib.import_module(module))
        problem = _problem(found, _methods(family))
    except Exception as error:  # it is somebody's file: whatever it does while it loads is its error
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise SpecError(family, name, f"{_file(module)}: {problem}", "correct that file, or choose another option")
    assert isinstance(found, type)
    return found


def members(family: str) -> Iterator[tuple[str, type]]:
    """(option name, class) of each member of ``family``, in name order."""
    for name in names(family):
        yield name, member(family, name)


def name_of(family: str, value: object) -> str:
    """The option name of a member of ``family``; that of its class if no option makes one."""
    cls = type(value)
    own = f"{_PACKAGES[family]}."
    if cls.__module__.startswith(own):
        return cls.__module__.removeprefix(own)
    made = f"{cls.__module__}:{cls.__qualname__}"
    others = (entry.name for entry in metadata.entry_points(group=f"xsim.{family}") if entry.value == made)
    return next(others, cls.__name__)


def defaults(cls: type) -> dict[str, object]:
    """The options of a member with the values that they have unless told otherwise."""
    return plain(cls())


def plain(instance: Any) -> dict[str, object]:
    """The options of a member as ``build`` takes them; 4 and 4.0 are the same for a float."""
    hints = _hints(typing.cast(Hashable, type(instance)))
    found = {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}
    for key, value in found.items():
        if key in INSIDE:
            found[key] = {"name": name_of(key, value), **plain(value)}
        elif _whole_for_float(value, hints[key]):
            found[key] = float(value)
    return found


@cache
def _hints(cls: Hashable) -> Mapping[str, object]:
    return typing.get_type_hints(cls)


def _whole_for_float(value: object, hint: object) -> bool:
    """Whether ``value`` is a whole number where ``hint`` asks for a ``float``, or for one or none."""
    parts = (hint, *typing.get_args(hint))
    return isinstance(value, int) and not isinstance(value, bool) and float in parts and int not in parts


def build(family: str, node: Mapping[str, object]) -> Any:
    """The member that ``node`` describes: ``{"name": ..., option: value, ...}``. A list serves where a tuple is asked.

    An option that is a member of another family is such a description too, or a name alone.

    Raises:
        SpecError: An unknown name or option, or a value of the wrong type.
    """
    cls = member(family, str(node.get("name")))
    return filled(cls, family, str(node["name"]), {key: value for key, value in node.items() if key != "name"})


def filled(
    cls: type[T], family: str, name: str, options: Mapping[str, object], fixed: Mapping[str, object] = NOTHING
) -> T:
    """A value of the dataclass ``cls`` with these fields, called ``name`` of ``family`` in messages.

    Args:
        fixed: Fields that are no options, and their values.

    Raises:
        SpecError: An unknown option, or a value of the wrong type.
    """
    hints = _hints(typing.cast(Hashable, cls))
    fields = [field.name for field in dataclasses.fields(cls) if field.name not in fixed]  # type: ignore[arg-type]
    for key, value in options.items():
        if key not in fields:
            offered = ", ".join(fields) or "nothing"
            raise SpecError(f"{family}.{key}", value, f"{name} has no such option", f"it takes {offered}")
        if key not in INSIDE and not _fits(value, hints[key]):
            usual = next(field.default for field in dataclasses.fields(cls) if field.name == key)  # type: ignore[arg-type]
            raise SpecError(f"{family}.{key}", value, "this option does not take it", _wanted(hints[key], usual))
    try:
        return cls(**{key: _taken(key, value) for key, value in options.items()}, **fixed)
    except SpecError as error:
        raise error.under(family) from None


def _taken(key: str, value: object) -> object:
    """The value of an option as the member gets it."""
    if key in INSIDE:
        node = {"name": value} if isinstance(value, str) else value
        if not isinstance(node, Mapping) or "name" not in node:
            offered = ", ".join(names(key))
            raise SpecError(key, value, "it names no option", f"write one of {offered}, or {{name: ..., option: ...}}")
        return build(key, node)
    return tuple(value) if isinstance(value, list) else value


class Members:
    """The part of a site that all sites have alike: which siblings a strategy or an algorithm may ask for."""

    __slots__ = ()

    @property
    def reshards(self) -> tuple[str, ...]:
        return names("reshard")

    def reshard(self, name: str) -> Any:
        return build("reshard", {"name": name})

    @property
    def collectives(self) -> tuple[str, ...]:
        return names("collective")

    def collective(self, name: str, **options: object) -> Any:
        return build("collective", {"name": name, **options})

    def planner(self, name: str, **options: object) -> Any:
        return build("planner", {"name": name, **options})

    def progress(self, done: int, of: int, what: str) -> None:
        """Nobody waits, unless a site says otherwise."""


def _wanted(hint: object, usual: object = None) -> str:
    """What to write for an option of the type ``hint``, whose default is ``usual``."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return f"choose one of {', '.join(map(str, parts))}"
    if origin is tuple:
        return f"write a list, [..., ...]; of its items: {_wanted(parts[0])}"
    if parts:
        return "or ".join(_wanted(part) for part in parts if part is not type(None)) + ", or null"
    if hint is str and isinstance(usual, str) and usual:
        return f"write text, such as {usual}"
    return f"write a value of type {getattr(hint, '__name__', hint)}"


def _fits(value: object, hint: object) -> bool:
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return isinstance(value, tuple | list) and all(_fits(item, typing.get_args(hint)[0]) for item in value)
    if typing.get_args(hint):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _only_public_class(module: ModuleType) -> object:
    own = [
        cls
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and not name.startswith("_") and dataclasses.is_dataclass(cls)
    ]
    if len(own) != 1:
        raise TypeError(f"it holds {len(own)} public dataclasses; a member's file holds exactly one")
    return own[0]


def _problem(cls: object, methods: Sequence[str]) -> str:
    """Which rule of members ``cls`` breaks; empty if it keeps them all."""
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        return f"{cls!r} is no dataclass"
    for field in dataclasses.fields(cls):
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            return f"the field {field.name!r} of {cls.__name__} has no default; every option needs one"
    missing = [method for method in methods if not callable(getattr(cls, method, None))]
    if missing:
        return f"{cls.__name__} has no method {', '.join(missing)}; a member of this family has {', '.join(methods)}"
    typing.get_type_hints(cls), cls()  # each raises what ``build`` would meet later
    return ""


def _methods(family: str) -> tuple[str, ...]:
    """The methods that the contract of ``family`` asks for."""
    module, _, name = _CONTRACTS[family].partition(":")
    contract = getattr(importlib.import_module(module), name)
    return tuple(method for method, value in vars(contract).items() if inspect.isfunction(value) and method[0] != "_")


def _file(module: str) -> str:
    """Where the source of ``module`` lies, for a message; its name if that is unknown."""
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        return module
    if spec is None or spec.origin is None:
        return module
    path = Path(spec.origin)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
