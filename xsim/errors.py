"""The two ways a thing can be wrong: the input (``SpecError``) or a strategy's answer (``PlanError``)."""

from __future__ import annotations

__all__ = ["PlanError", "SpecError", "XsimError"]


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
        shown = self.value if isinstance(self.value, int | float) else repr(self.value)
        if isinstance(self.value, str) and self.value and self.value[0].isdigit():
            shown = self.value
        return f"{self.field} = {shown}: {self.problem}; {self.fix}"

    def under(self, path: str) -> SpecError:
        """The same error seen from one level up; the codec calls it while unwinding."""
        joined = f"{path}{self.field}" if self.field.startswith("[") else f"{path}.{self.field}".rstrip(".")
        return SpecError(joined, self.value, self.problem, self.fix)


class PlanError(XsimError):
    """A planner, schedule or strategy broke its contract: a defect of that member, not of the input."""
