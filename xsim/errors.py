"""The two ways a thing can be wrong: the input (``SpecError``) or a strategy's answer (``PlanError``)."""

from __future__ import annotations

import re
import reprlib

__all__ = ["NoPlanError", "NoSeatError", "PlanError", "SpecError", "TooLongError", "XsimError", "short"]


class XsimError(Exception):
    """Any error that this package raises on purpose."""


class SpecError(XsimError, ValueError):
    """An input is wrong, and its author can fix it.

    Attributes:
        field: Path of the field, as its author wrote it: ``cluster.hosts[0].nic.bandwidth``.
        value: What was found there.
        problem: Why that cannot be.
        fix: What to write instead.
    """

    def __init__(self, field: str, value: object, problem: str, fix: str) -> None:
        super().__init__(field, value, problem, fix)  # all four, so that it survives pickling
        self.field, self.value, self.problem, self.fix = field, value, problem, fix

    def __str__(self) -> str:
        quantity = isinstance(self.value, str) and re.match(r"[0-9.]+ ?[A-Za-z]{1,5}", self.value)
        value = self.value if quantity and len(str(self.value)) < 40 else short(self.value)
        return f"{self.field or 'document'} = {value}: {self.problem}; {self.fix}"

    def under(self, path: str) -> SpecError:
        """The same error seen from one level up; the codec calls it while unwinding."""
        if not path:
            return self
        joined = f"{path}{self.field}" if self.field.startswith("[") else f"{path}.{self.field}".rstrip(".")
        return type(self)(joined, self.value, self.problem, self.fix)


class NoPlanError(SpecError):
    """A planner has searched, and nothing that it can make fits: another kind of plan may."""


class NoSeatError(SpecError):
    """The hosts have the devices that are asked for, but not together: another plan of as many may find room."""


class TooLongError(SpecError):
    """A deployment has more passes than are simulated: one with larger micro-batches or fewer stages may do."""


def short(value: object) -> str:
    """``repr`` cut to a readable length; a range with both its ends, as layers are written."""
    text = f"{value.start}..{value.stop - 1}" if isinstance(value, range) else _SHORT.repr(value)
    return text if len(text) <= 240 else f"{text[:240]}..."


class _Short(reprlib.Repr):
    """``repr`` cut to a readable length: a message may have to show any document."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 3, 16, 16, 4
        self.maxstring = self.maxother = 120

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002
        """Python itself refuses to print very long integers."""
        return repr(x) if x.bit_length() <= 128 else f"<an integer of {x.bit_length()} bits>"


_SHORT = _Short()


class PlanError(XsimError):
    """A planner, schedule or strategy broke its contract: a defect of that member, not of the input."""
