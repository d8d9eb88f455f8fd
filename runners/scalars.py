"""Single values of a plain config: each is what it has to be, or the error names its key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from xsim.errors import SpecError
from xsim.units import PS_PER_S, parse_time

__all__ = ["flag", "launch", "number", "numbers", "policy", "quantity", "whole"]

LARGEST = 2**63 - 1  # that a column of whole numbers holds


def whole(name: str, value: object) -> int:
    """A whole number that a column of results holds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise SpecError(name, value, f"its type is {type(value).__name__}", "write a whole number")
    if not -LARGEST <= value <= LARGEST:
        raise SpecError(name, value, "it is too large for a column of results", f"write at most {LARGEST}")
    return value


def quantity(parse: Callable[[object], int], name: str, value: object) -> int:
    """What ``parse`` makes of a text with its unit."""
    try:
        return parse(value)
    except SpecError as error:
        raise error.under(name) from None


def launch(value: object) -> int:
    """Picoseconds that a host takes for one kernel."""
    time_ps = quantity(parse_time, "launch", value)
    if time_ps > PS_PER_S:
        raise SpecError("launch", value, "no host takes so long for one kernel", "write such as 20 us")
    return time_ps


def number(name: str, value: object) -> float:
    """A number, whole or not."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SpecError(name, value, f"its type is {type(value).__name__}", "write a number")
    return float(value)


def numbers(name: str, value: object) -> tuple[float, ...]:
    """A list of numbers."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SpecError(name, value, f"its type is {type(value).__name__}", "write a list of numbers")
    return tuple(number(f"{name}[{index}]", entry) for index, entry in enumerate(value))


def policy(value: object) -> Literal["enforce", "report"]:
    """What becomes of a plan that does not fit."""
    if value == "enforce":
        return "enforce"
    if value == "report":
        return "report"
    raise SpecError("memory", value, "there is no such policy", "choose one of enforce, report")


def flag(name: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise SpecError(name, value, f"its type is {type(value).__name__}", "write true or false")
    return value
