"""Command lines of training programs: ``--key value ...``, and lists in Python's notation."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Mapping

from xsim.errors import SpecError

__all__ = ["arguments", "listed"]

Arguments = Mapping[str, tuple[str, ...]]
LONGEST = 100_000  # numbers in a list


def arguments(text: str, path: str) -> Arguments:
    """The words after each ``--key``, of which the last counts; a dash in its name or an underscore is the same.

    Raises:
        SpecError: A quote is not closed.
    """
    joined = re.sub(r"\\\s*\n", " ", text)
    try:
        words = shlex.split(joined, comments=True)
    except ValueError as error:
        raise SpecError(path, text[:40], f"it is no command line: {error}", "close all quotes") from None
    found: dict[str, tuple[str, ...]] = {}
    key = ""
    for word in words:
        if re.match(r"--[A-Za-z]", word):
            name, equals, value = word[2:].partition("=")
            key = name.replace("_", "-")
            found[key] = (value,) if equals else ()
        elif key:
            found[key] += (word,)
    return found


def listed(text: str, path: str) -> object:
    """A list of lists of numbers, in which lists may be added and multiplied: ``[[1] * 2] * 4 + [[2]]``.

    Raises:
        SpecError: It is none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            found = _value(ast.parse(text.strip(), mode="eval").body)
        _count(found)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise SpecError(path, text[:80], "it is no list of numbers", "write such as [[1] * 2, [2]]") from None
    return found


def _count(value: object) -> int:
    """How many numbers there are, at any depth."""
    total = 0
    for each in value if isinstance(value, list) else ():
        total += _count(each) if isinstance(each, list) else 1
        if total > LONGEST:
            raise ValueError
    return total


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        many, times = (left, right) if isinstance(left, list) else (right, left)
        if isinstance(many, list) and isinstance(times, int) and len(many) * times <= LONGEST:
            return many * times
    raise ValueError
