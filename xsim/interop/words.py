"""The words of a text file with the lines that they stand on, and the one way in which a wrong word is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim.errors import SpecError

__all__ = ["LARGEST", "MOST_BYTES", "MOST_VERTICES", "Line", "column", "column_ps", "decimal_ps", "integer", "lines"]

Ints = NDArray[np.int64]

LARGEST = 10**18 - 1  # of any whole number: within an int64, with room for sums
MOST_VERTICES = 2**20
MOST_BYTES = 10**14  # of one flow: on any wire and with any header it stays within an int64 of picoseconds

_WHOLE = re.compile(r"-?[0-9]{1,18}").fullmatch
_ALL_WHOLE = re.compile(r"(?:-?[0-9]{1,18}(?: -?[0-9]{1,18})*)?").fullmatch
_DECIMAL = re.compile(r"[0-9]{1,18}(?:\.[0-9]{0,30})?").fullmatch


class Line(NamedTuple):
    """The words of one line.

    Attributes:
        at: File and line, for messages: ``ft16.hpcc line 3``.
    """

    at: str
    words: list[str]


def lines(text: str, name: str, comment: str | None = None) -> Iterator[Line]:
    """The lines of ``text`` that hold words; what follows ``comment`` is left out."""
    for count, line in enumerate(text.splitlines(), start=1):
        words = (line.partition(comment)[0] if comment else line).split()
        if words:
            yield Line(f"{name} line {count}", words)


def integer(at: str, text: str, what: str, low: int = 0, high: int = LARGEST) -> int:
    """``text`` as a whole number between ``low`` and ``high``. Raises SpecError if it is none."""
    if not _WHOLE(text):
        raise SpecError(at, text, f"{what} is a whole number", "write digits only, at most 18")
    if not low <= int(text) <= high:
        raise SpecError(at, text, f"{what} lies between {low} and {high}", "write a number in there")
    return int(text)


def column(table: Sequence[Line], index: int, what: str, low: int = 0, high: int = LARGEST) -> Ints:
    """The words at ``index`` of all lines as whole numbers; see ``integer``."""
    texts = [line.words[index] for line in table]
    if _ALL_WHOLE(" ".join(texts)):
        values = np.array([*map(int, texts)], dtype=np.int64)
        if not np.any((values < low) | (values > high)):
            return values
    return np.array([integer(line.at, line.words[index], what, low, high) for line in table], dtype=np.int64)


def column_ps(table: Sequence[Line], index: int, what: str, unit_ps: int) -> Ints:
    """The words at ``index`` of all lines as times in picoseconds; see ``decimal_ps``."""
    texts = [line.words[index] for line in table]
    if _ALL_WHOLE(" ".join(texts)):
        return column(table, index, what, 0, LARGEST // unit_ps) * unit_ps
    return np.array([decimal_ps(line.at, line.words[index], what, unit_ps) for line in table], dtype=np.int64)


def decimal_ps(at: str, text: str, what: str, unit_ps: int) -> int:
    """``text``, a decimal number of units of ``unit_ps``, as picoseconds. Raises SpecError if they are not whole."""
    number = Fraction(text) * unit_ps if _DECIMAL(text) else None
    if number is None or number > LARGEST:
        raise SpecError(at, text, f"{what} is a time from 0 on", "write a decimal number without a unit")
    if number.denominator != 1:
        raise SpecError(at, text, f"{what} is finer than a picosecond", "write fewer decimals")
    return number.numerator
