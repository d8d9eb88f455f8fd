"""Tables of published measurements, in the folder ``measured`` of the reference data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from xsim.errors import SpecError

__all__ = ["COLLECTIVES", "KERNELS", "read_measured", "table_of"]

T = TypeVar("T")

COLLECTIVES, KERNELS = "collectives.csv", "kernels.csv"


def table_of(folder: Path, name: str) -> Path:
    """Where the table of that name is, if it is there."""
    return folder / "measured" / name


def read_measured(folder: Path, name: str, reader: Callable[[Path], T]) -> T:
    """What ``reader`` makes of a table of the reference data in ``folder``.

    Raises:
        SpecError: There is none, or it is something else.
    """
    table = table_of(folder, name)
    fix = f"set it to a folder with the published measurements in measured/{name}"
    if not table.is_file():
        raise SpecError("XSIM_REFERENCE_DATA", str(folder), f"there is no measured/{name} in it", fix)
    try:
        return reader(table)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        problem = f"its {name} is no table of measurements ({type(error).__name__}: {error})"
        raise SpecError("XSIM_REFERENCE_DATA", str(folder), problem, fix) from None
