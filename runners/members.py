"""The members of the families with their options, for ``--help``: read from their source, none is imported.

To import all of them takes seconds; to parse their files takes some tens of milliseconds.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from runners.options import spelled
from xsim import families

__all__ = ["Description", "described"]


@dataclass(frozen=True, slots=True)
class Description:
    """A member as its file shows it.

    Attributes:
        name: The option of its family.
        about: First line of the docstring; empty where the file does not tell.
        options: As they are typed, ``reshard.pieces=64``; without a value if the file computes it.
        meanings: Of each option what the docstring says, or nothing.
    """

    name: str
    about: str
    options: tuple[str, ...]
    meanings: tuple[str, ...] = ()


def described(family: str) -> Iterator[Description]:
    """Each member of ``family``, in name order; of one whose file cannot be read, the name alone."""
    others = {entry.name: entry.module for entry in metadata.entry_points(group=f"xsim.{family}")}
    place = f"{families.INSIDE[family]}.{family}" if family in families.INSIDE else family
    folder = Path(importlib.import_module(families.package(family)).__path__[0])
    for name in families.names(family):
        path = _source(others[name]) if name in others else folder / f"{name}.py"
        try:
            tree = ast.parse("" if path is None else path.read_text())
        except (OSError, ValueError, SyntaxError):  # its error is told when it is chosen
            tree = ast.Module([], [])
        yield _description(place, name, tree)


def _source(module: str) -> Path | None:
    """The file of ``module``, of another package; the packages around it are imported."""
    try:
        spec = importlib.util.find_spec(module)
    except Exception:  # whatever that package does while it loads
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _description(place: str, name: str, tree: ast.Module) -> Description:
    """The public dataclass of a member's file, described; ``place`` is where its options are set."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name[0] != "_" and _is_dataclass(node):
            docstring = ast.get_docstring(node) or ""
            fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
            told = _told(docstring)
            return Description(
                name,
                docstring.partition("\n")[0],
                tuple(f"{place}.{_option(field)}" for field in fields),
                tuple(told.get(ast.unparse(field.target), "") for field in fields),
            )
    return Description(name, "", ())


def _told(docstring: str) -> dict[str, str]:
    """What the section on attributes says of each."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in docstring.partition("Attributes:\n")[2].splitlines():
        entry = re.match(r" {4}(\w+(?:, \w+)*): (.*)", line)
        if entry:
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        elif not line.startswith(" " * 8):
            break
        else:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _option(field: ast.AnnAssign) -> str:
    name = ast.unparse(field.target)
    try:
        return f"{name}={spelled(ast.literal_eval(field.value or field.target))}"
    except ValueError:  # it is no literal
        return name
