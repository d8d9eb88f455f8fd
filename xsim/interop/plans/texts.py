"""Names, numbers and JSON in files of plans: read, or refused in a line that can be read itself."""

from __future__ import annotations

import json

from xsim.errors import SpecError, short

__all__ = ["digits", "from_json", "ordinal", "plain_name", "shown"]

LONGEST_NAME = 200
MOST_DIGITS = 18  # far fewer than Python turns into a number
LONGEST_SHOWN = 60


def from_json(text: str, path: str) -> object:
    """The value in a JSON text.

    Raises:
        ValueError, RecursionError: It is none.
        SpecError: A mapping has a key twice.
    """

    def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                raise SpecError(path, key, "a mapping has this key twice", "leave one of them out")
            found[key] = value
        return found

    return json.loads(text, object_pairs_hook=distinct)


def digits(text: str, path: str) -> int:
    """The whole number that digits say.

    Raises:
        SpecError: There are none, or too many.
    """
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise SpecError(path, text, f"it is no whole number of up to {MOST_DIGITS} digits", "correct it")
    return int(text)


def ordinal(which: str, count: int) -> int:
    """The index of the one of ``count`` plans that ``which`` numbers from 1.

    Raises:
        SpecError: It numbers none.
    """
    if not which.isdecimal() or len(which) > MOST_DIGITS or not 1 <= int(which) <= count:
        problem = f"it lists {count} plans" if count > 1 else "the file has one plan"
        raise SpecError("which", which, problem, f"write 1 to {count}" if count > 1 else "leave it out")
    return int(which) - 1


def plain_name(value: object, path: str) -> str:
    """A name in one line, as names of deployments are; none if it is empty or null.

    Raises:
        SpecError: It is no text, has characters that cannot be printed, or is too long.
    """
    if value is None:
        return ""
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str):
        raise SpecError(path, value, "it is not text", "write it in quotes")
    if not value.isprintable():
        raise SpecError(path, value, "it has unprintable characters", "write it in one line of plain text")
    if len(value) > LONGEST_NAME:
        raise SpecError(path, value, f"it has {len(value)} characters", f"write at most {LONGEST_NAME}")
    return value


def shown(value: object) -> str:
    """A word of a file in a message: as it is, if that is short and can be printed."""
    text = str(value) if isinstance(value, str | int | float) and not _long(value) else short(value)
    return text if len(text) <= LONGEST_SHOWN and text.isprintable() else short(text)


def _long(value: object) -> bool:
    """Python does not print very long integers."""
    return isinstance(value, int) and value.bit_length() > LONGEST_SHOWN
