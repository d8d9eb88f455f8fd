"""Files of a user's own: config folders, checked before Hydra reads them, and files that options name.

A config folder holds plain YAML under names of its own: Hydra would take the built-in option of two with one name, and
its reader runs out of stack or time on some files. What other files hold becomes part of the config, and so of a run's
key and of what a worker is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runners import options
from runners.profiles import profile_text
from runners.reach import check_reach
from runners.resolvers import refuse_code, refuse_resolvers
from xsim import families
from xsim.errors import SpecError
from xsim.spec.yaml_text import load

__all__ = ["check_user_files", "with_texts"]

MOST_BYTES = 2**26  # of a file of an option, or that one names
LEVELS = 40  # of nesting; a cluster has 6, and what reads it needs some calls per level
TEXTS = {"path": "text", "ratios": "ratios_text"}  # options that name a file, and those for what it holds


def check_user_files(folders: Sequence[Path]) -> None:
    """Check every option file in ``folders``, chosen or not.

    Raises:
        SpecError: A file is no plain YAML mapping, or an option of its name exists already.
    """
    for position, folder in enumerate(folders):
        if not folder.is_dir():
            raise SpecError("--config-dir", str(folder), "there is no such folder", "name a folder laid out like conf/")
        found = list(_files(folder))
        if not found:
            fix = "name one with cluster/NAME.yaml, model/NAME.yaml or the like in it"
            raise SpecError("--config-dir", str(folder), "it holds no option of any group", fix)
        for group, path in found:
            if path.parent == folder / group:
                _check_name(group, path, (options.CONF, *folders[:position]))
            _check_text(group, path)


def with_texts(config: Mapping[str, object]) -> dict[str, object]:
    """``config`` in which members that name a file have what it holds instead, ``text`` for their option ``path``.

    Raises:
        SpecError: There is no such file, it is no text or too large, or there is a text already.
    """
    return {
        group: _with_texts(group, node) if isinstance(node, dict) and group in families.FAMILIES else node
        for group, node in config.items()
    }


def _with_texts(group: str, node: dict[str, object]) -> dict[str, object]:
    for key, text in TEXTS.items():
        if node.get(key) and text in node:
            node = node | {key: "", text: _text(group, key, text, node)}
    return node


def _text(group: str, key: str, text: str, node: Mapping[str, object]) -> str:
    field, path = f"{group}.{key}", Path(str(node[key]))
    if node[text]:
        raise SpecError(f"{group}.{text}", node[text], f"{field} says where it stands", "write one of the two")
    try:
        found = profile_text(field, path, _read) if group == "compute" else _read(field, path).decode()
    except UnicodeDecodeError as error:
        problem = f"it is no text: {error.reason} at byte {error.start}"
        raise SpecError(field, str(path), problem, "save it as UTF-8") from None
    except OSError as error:
        raise SpecError(field, str(path), str(error.strerror), "name a readable file") from None
    if not found.strip():
        raise SpecError(field, str(path), "the file is empty", "name one that holds something")
    return found


def _read(field: str, path: Path) -> bytes:
    """What stands in ``path``; a pipe would keep the reader waiting, and a device may have no end."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no regular file"
        raise SpecError(field, str(path), f"it is {kind}", "name a file")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise SpecError(field, str(path), f"the file has more than {MOST_BYTES} bytes", "name a smaller one")
    return data


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """(group, file) of every option in ``folder``, and of what its options may be made of.

    ``config.yaml`` is in no group.
    """
    for group in ("", *options.GROUPS, *options.PRESETS):
        pattern = "**/*.yaml" if group else "config.yaml"
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


def _check_text(group: str, path: Path) -> None:
    try:
        text = _read(str(path), path).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        problem = f"it is no text: {error.reason} at byte {error.start}"
        raise SpecError(str(path), "", problem, "save it as UTF-8") from None
    except OSError as error:
        raise SpecError(str(path), "", str(error.strerror), "make it a readable file") from None
    try:
        found = load(text)
    except SpecError as error:
        raise error.under(str(path)) from None
    if not isinstance(found, dict | None):
        raise SpecError(str(path), found, "it is not a mapping", "write key: value")
    _check_tree(str(path), found, 0, set())
    refuse_resolvers(found, str(path))
    refuse_code(found, f"{path}.")
    check_reach(group, str(path), found or {}, text)


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
