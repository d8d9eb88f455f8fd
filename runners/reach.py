"""What a file of a config folder may reach: options of groups, and nothing else.

Such a folder may come from somebody else. It names no file of the machine that runs it, neither to read nor to write,
and sets nothing of Hydra; paths stand on the command line, where who runs it sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runners import options
from xsim.errors import SpecError

__all__ = ["check_reach"]

WRITTEN = ("out", "copy_to")  # settings that name a place to write to


def check_reach(group: str, file: str, found: Mapping[str, object], text: str) -> None:
    """Refuse settings of Hydra, defaults outside the groups, files to read and places to write to.

    Args:
        group: In whose folder the file lies.
        found: What it holds.
        text: The same as it is written: its first lines may name a package.

    Raises:
        SpecError: Its field is ``file`` and the key.
    """
    packages = re.findall(r"^#\s*@package\s+(\S+)", text, re.MULTILINE)
    if any(package.partition(".")[0] == "hydra" for package in packages) or "hydra" in found:
        raise SpecError(f"{file}.hydra", found.get("hydra"), "a config cannot set Hydra itself", "remove it")
    defaults = found.get("defaults")
    for entry in defaults if isinstance(defaults, list) else ():
        texts = (*entry.keys(), *entry.values()) if isinstance(entry, dict) else (entry,)
        if any(_leads_out(word) for each in texts for word in str(each).split()):
            raise SpecError(f"{file}.defaults", entry, "it leads out of the groups", "name an option of a group")
    own = f"{group}." if group in options.GROUPS and not packages else ""
    for key, place in _places(found, ""):
        fix = f"write it on the command line: {own}{key}={place}"
        raise SpecError(f"{file}.{key}", place, "a config cannot name a file or folder", fix)


def _leads_out(name: str) -> bool:
    """Whether a word of a defaults list, ``/cluster`` or ``fig4``, may stand for what is no option of a group."""
    bare, _, package = name.partition("@")
    first = bare.removeprefix("/").partition("/")[0]
    elsewhere = bare.startswith("/") and first not in (*options.GROUPS, *options.PRESETS)
    return elsewhere or "hydra" in (first, package.partition(".")[0]) or ":" in bare or ".." in bare.split("/")


def _places(node: object, path: str) -> Iterator[tuple[str, str]]:
    """(key, value) of everything below ``node`` that names a file or folder."""
    if isinstance(node, dict):
        for key, value in node.items():
            place = f"{path}.{key}" if path else str(key)
            last = place.rpartition(".")[2]
            if last == "path" or place in WRITTEN or (last == "uri" and str(value).startswith("sqlite:")):
                if value not in (None, ""):
                    yield place.removeprefix("grid.axes."), str(value)
            else:
                yield from _places(value, place)
    elif isinstance(node, list):
        for value in node:
            yield from _places(value, path)
