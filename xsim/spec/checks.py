"""What a dataclass refuses about one of its own fields."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from xsim.errors import SpecError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["MOST_TRIES", "at_least", "at_most", "not_negative", "plausible", "positive", "usual"]

MOST_TRIES = 10_000_000  # of a search: at some hundred a second more than half a day


def positive(value: object, name: str) -> None:
    """Refuse a field that is not above zero."""
    if not getattr(value, name) > 0:
        raise SpecError(name, getattr(value, name), "it must be positive", "write a number above 0")


def not_negative(value: object, name: str) -> None:
    """Refuse a field below zero."""
    if not getattr(value, name) >= 0:
        raise SpecError(name, getattr(value, name), "it must not be negative", "write 0 or more")


def at_least(value: object, name: str, least: int) -> None:
    """Refuse a count below ``least``."""
    if getattr(value, name) < least:
        raise SpecError(name, getattr(value, name), f"it must be {least} or more", f"write {least} or more")


def at_most(value: object, name: str, most: int) -> None:
    """Refuse a count above ``most``: what it asks for would never end."""
    if getattr(value, name) > most:
        raise SpecError(name, getattr(value, name), f"it must be {most} or less", f"write {most} or less")


def usual(value: DataclassInstance, name: str) -> object:
    """What a field is where nothing is said."""
    return next(field.default for field in fields(value) if field.name == name)


def plausible(value: object, name: str, least: float, most: float, shown: str) -> None:
    """Refuse a quantity that no hardware has: a wrong unit, and beyond what the clock can count."""
    if not least <= getattr(value, name) <= most:
        raise SpecError(name, getattr(value, name), f"it is not within {shown}", "check the number and its unit")
