"""Faults as configs write them: ``faults: [{at: 10 ms, link: tor0 -> spine1, until: 20 ms}]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xsim.errors import SpecError
from xsim.sim.contracts import Fault
from xsim.units import format_time, parse_time

__all__ = ["plain_faults", "read_faults"]

_KEYS = ("at", "link", "until")


def read_faults(value: object) -> tuple[Fault, ...]:
    """The faults of a plain config; null is none.

    Raises:
        SpecError: They are malformed.
    """
    if not isinstance(value, list | None):
        fix = "write [{at: 10 ms, link: tor0 -> spine1}], or [] for none"
        raise SpecError("faults", value, "it is no list", fix)
    return tuple(_fault(f"faults[{place}]", node) for place, node in enumerate(value or ()))


def plain_faults(faults: Sequence[Fault]) -> list[dict[str, str]]:
    """What ``read_faults`` reads again."""
    return [
        {"at": format_time(fault.at_ps), "link": fault.link}
        | ({} if fault.until_ps is None else {"until": format_time(fault.until_ps)})
        for fault in faults
    ]


def _fault(name: str, node: object) -> Fault:
    if not isinstance(node, Mapping):
        raise SpecError(name, node, "it is no fault", "write {at: 10 ms, link: tor0 -> spine1}")
    for key in node:
        if key not in _KEYS:
            raise SpecError(f"{name}.{key}", node[key], "a fault has no such key", f"it takes {', '.join(_KEYS)}")
    link, until = node.get("link"), node.get("until")
    if not isinstance(link, str):
        raise SpecError(f"{name}.link", link, "it is no name of a link", "write it as detail tables do: tor0 -> spine1")
    at_ps = _time(f"{name}.at", node.get("at"))
    until_ps = None if until is None else _time(f"{name}.until", until)
    try:
        return Fault(at_ps, link, until_ps)
    except SpecError as error:
        raise SpecError(f"{name}.{error.field}", node[error.field], error.problem, error.fix) from None  # as written


def _time(name: str, value: object) -> int:
    try:
        return parse_time(value)
    except SpecError as error:
        raise SpecError(name, value, error.problem, error.fix) from None
