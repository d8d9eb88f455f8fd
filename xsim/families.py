"""The folder is the registry: finds, describes and builds the members of a family.

``xsim/plan/reshard/mine.py`` with one public dataclass is the option ``reshard=mine``; its fields, with defaults, are
its options. A package outside this one offers members through the entry-point group ``xsim.<family>``.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from types import ModuleType
from typing import Any

from xsim.errors import SpecError

__all__ = ["FAMILIES", "build", "member", "members", "names"]

FAMILIES: Mapping[str, str] = {
    "planner": "xsim.plan.planner",
    "reshard": "xsim.plan.reshard",
    "collective": "xsim.plan.collective",
    "schedule": "xsim.plan.schedule",
    "compute": "xsim.plan.compute",
    "topology": "xsim.fabric.topology",
    "network": "xsim.sim.network",
}


@cache
def names(family: str) -> tuple[str, ...]:
    """Option names of ``family``, sorted; imports none of them."""
    package = importlib.import_module(FAMILIES[family])
    own = (info.name for info in pkgutil.iter_modules(package.__path__))
    others = (entry.name for entry in metadata.entry_points(group=f"xsim.{family}"))
    return tuple(sorted({*own, *others}))


@cache
def member(family: str, name: str) -> type:
    """The class behind ``family=name``.

    Raises:
        SpecError: There is no such member; the message lists those there are.
    """
    if name not in names(family):
        near = difflib.get_close_matches(str(name), names(family), n=1)
        hint = f"did you mean {near[0]}?" if near else ""
        offered = f"choose one of {', '.join(names(family))}"
        raise SpecError(family, name, "there is no such option", f"{hint} {offered}".strip())
    for entry in metadata.entry_points(group=f"xsim.{family}"):
        if entry.name == name:
            loaded: type = entry.load()
            return loaded
    return _only_public_class(importlib.import_module(f"{FAMILIES[family]}.{name}"))


def members(family: str) -> Iterator[tuple[str, type]]:
    """(option name, class) of each member of ``family``, in name order."""
    for name in names(family):
        yield name, member(family, name)


def build(family: str, node: Mapping[str, object]) -> Any:
    """The member that ``node`` describes: ``{"name": ..., option: value, ...}``.

    Raises:
        SpecError: An unknown name or option, or a value of the wrong type.
    """
    cls = member(family, str(node.get("name")))
    fields = {field.name: field for field in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    options = {key: value for key, value in node.items() if key != "name"}
    for key, value in options.items():
        if key not in fields:
            offered = ", ".join(fields) or "nothing"
            raise SpecError(f"{family}.{key}", value, f"{node['name']} has no such option", f"it takes {offered}")
        if not _fits(value, hints[key]):
            kind = getattr(hints[key], "__name__", str(hints[key]))
            raise SpecError(
                f"{family}.{key}", value, f"its type is {type(value).__name__}", f"write a value of type {kind}"
            )
    try:
        return cls(**options)
    except SpecError as error:
        raise error.under(family) from None


def _fits(value: object, hint: object) -> bool:
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint)
    if typing.get_args(hint):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _only_public_class(module: ModuleType) -> type:
    own = [
        cls
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and not name.startswith("_") and dataclasses.is_dataclass(cls)
    ]
    if len(own) != 1:
        raise TypeError(f"{module.__name__} holds {len(own)} public dataclasses; a family's file holds exactly one")
    return own[0]
