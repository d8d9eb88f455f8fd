"""A user's config folder is checked before Hydra reads it: plain YAML under names of its own.

Hydra would take the built-in option of two with one name, and its reader runs out of stack or time on some files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from runners import options
from xsim import families
from xsim.errors import SpecError
from xsim.spec.yaml_text import load

__all__ = ["check_user_files"]

LEVELS = 40  # of nesting; a cluster has 6, and what reads it needs some calls per level


def check_user_files(folders: Sequence[Path]) -> None:
    """Check every option file in ``folders``, chosen or not.

    Raises:
        SpecError: A file is no plain YAML mapping, or an option of its name exists already.
    """
    for position, folder in enumerate(folders):
        if not folder.is_dir():
            raise SpecError("--config-dir", str(folder), "there is no such folder", "name a folder laid out like conf/")
        for group, path in _files(folder):
            _check_name(group, path, (options.CONF, *folders[:position]))
            _check_text(path)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """(group, file) of every option in ``folder``; ``config.yaml`` is in no group."""
    for group in ("", *options.GROUPS, *options.PRESETS):
        pattern = "*.yaml" if group else "config.yaml"
        for path in sorted((folder / group).glob(pattern)):
            yield group, path


def _check_name(group: str, path: Path, before: Sequence[Path]) -> None:
    """Refuse a second option of the same name: results carry names, and would mix the two."""
    if group in families.FAMILIES and path.stem in families.names(group):
        raise SpecError(str(path), path.stem, f"a {group} of that name is built in", "give the file another name")
    for folder in before:
        other = folder / group / path.name
        if other.is_file() and not (path.is_file() and other.read_bytes() == path.read_bytes()):
            fix = "give the file another name" if group else "choose by experiment/NAME.yaml and +experiment=NAME"
            raise SpecError(str(path), path.stem, f"{other} has the same name and other contents", fix)


def _check_text(path: Path) -> None:
    try:
        found = load(path.read_text(encoding="utf-8"))
    except SpecError as error:
        raise error.under(str(path)) from None
    except UnicodeDecodeError as error:
        problem = f"it is no text: {error.reason} at byte {error.start}"
        raise SpecError(str(path), "", problem, "save it as UTF-8") from None
    except OSError as error:
        raise SpecError(str(path), "", str(error.strerror), "make it a readable file") from None
    if not isinstance(found, dict | None):
        raise SpecError(str(path), found, "it is not a mapping", "write key: value")
    _check_tree(str(path), found, 0, set())


def _check_tree(file: str, node: object, level: int, seen: set[int]) -> None:
    """Refuse what is no value, and nesting and aliases that grow without bound once they are written out."""
    if node == "???":
        raise SpecError(file, node, "a key of it has no value", "write one in the place of ???, or remove the key")
    if not isinstance(node, dict | list):
        return
    if level == LEVELS:
        raise SpecError(file, node, f"it is nested deeper than {LEVELS} levels", "write flat YAML")
    if id(node) in seen:
        raise SpecError(file, node, "an alias repeats it", "write it out where it is meant, without & and *")
    seen.add(id(node))
    for child in node.values() if isinstance(node, dict) else node:
        _check_tree(file, child, level + 1, seen)
