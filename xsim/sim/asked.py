"""What the options of background traffic ask for, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.units import PS_PER_S, parse_bytes, parse_time

__all__ = ["check_bytes", "check_time", "ranks_of"]

_LARGEST_BYTES = 10**15
_LONGEST_PS = 86400 * PS_PER_S


def check_bytes(member: object, name: str) -> None:
    """Refuse a field of ``member`` that is no text of 1 B to 1 PB."""
    _check(member, name, parse_bytes, _LARGEST_BYTES, "1 B to 1 PB")


def check_time(member: object, name: str) -> None:
    """Refuse a field of ``member`` that is no text of 1 ps to a day."""
    _check(member, name, parse_time, _LONGEST_PS, "1 ps to 86400 s")


def ranks_of(given: Sequence[int], fabric: Fabric, option: str = "ranks") -> tuple[int, ...]:
    """The ranks ``given``, sorted; all if there are none.

    Raises:
        SpecError: One is no rank of the cluster, or is given twice.
    """
    count = len(fabric.hosts)
    for rank in given:
        if not 0 <= rank < count:
            raise SpecError(f"background.{option}", rank, "the cluster has no such rank", f"write 0 to {count - 1}")
    if len(set(given)) != len(given):
        raise SpecError(f"background.{option}", list(given), "a rank is given twice", "list each rank once")
    return tuple(sorted(given)) or tuple(range(count))


def _check(member: object, name: str, parse: Callable[[object], int], most: int, shown: str) -> None:
    text = getattr(member, name)
    try:
        value = parse(text)
    except SpecError as error:
        raise SpecError(name, error.value, error.problem, error.fix) from None
    if not 1 <= value <= most:
        raise SpecError(name, text, f"it is not within {shown}", "check the number and its unit")
