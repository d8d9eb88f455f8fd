"""Tables for people: drawn on a terminal, Markdown elsewhere, so that a log stays readable and can be pasted.

No cell is ever cut: where the terminal is too narrow, and long ones elsewhere, texts fold; numbers stay whole.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["counted", "decimals", "fits", "print_table"]

DIGITS = 4
PLAIN_WIDTH = 240  # where no terminal folds lines
TEXT_WIDTH = 64  # of a column of texts there
MANY = 200  # rows from which on speed counts more than lines


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = (), file: TextIO | None = None
) -> None:
    """Print ``rows`` under ``columns``; those named in ``numbers`` are aligned to the right."""
    out, rows = file or sys.stdout, list(rows)
    if len(rows) > MANY and _widths_of(columns, rows, out) is not None:
        out.writelines(f"{line}\n" for line in _markdown(columns, rows, numbers))
        return
    console = _console(out)
    with console.capture() as captured:
        console.print(_table(columns, rows, numbers, drawn=out.isatty()), crop=False)
    lines = (line.rstrip() for line in captured.get().splitlines())
    out.write("\n".join(line for line in lines if line) + "\n")


def fits(columns: Sequence[str], rows: Iterable[Sequence[str]], file: TextIO) -> bool:
    """Whether the table can be printed to ``file`` without a fold."""
    from rich.measure import Measurement

    rows = list(rows)
    if len(rows) > MANY and _widths_of(columns, rows, file) is not None:
        return True
    console = _console(file)
    unlimited = console.options.update(max_width=10_000)
    table = _table(columns, rows[:MANY], (), drawn=file.isatty())
    if len(rows) > MANY:  # the widest of each column stand for all
        widest = [max((row[index] for row in rows), key=len) for index in range(len(columns))]
        table.add_row(*map(str, widest))
    return Measurement.get(console, unlimited, table).maximum <= console.width


def counted(count: int, noun: str) -> str:
    """The count with its noun.

    >>> counted(1, "row"), counted(0, "row")
    ('1 row', '0 rows')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def decimals(smallest: float) -> int:
    """Decimals that show ``smallest`` with ``DIGITS`` significant digits, and at least as many decimals as that.

    >>> decimals(2.9765), decimals(0.0012)
    (4, 6)
    """
    return max(DIGITS, DIGITS - 1 - math.floor(math.log10(smallest)))


def _widths_of(columns: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO) -> list[int] | None:
    """Width of each column if every line of Markdown fits and no text has to fold, else ``None``."""
    width = _console(out).width if out.isatty() else PLAIN_WIDTH
    if not all(cell.isascii() and "\n" not in cell for row in (columns, *rows) for cell in row):
        return None  # some letters are two columns wide
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    limit = width if out.isatty() else TEXT_WIDTH
    return widths if max(widths) <= limit and sum(widths) + 3 * len(widths) + 1 <= width else None


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str]) -> Iterator[str]:
    """Lines as rich draws them; it takes two milliseconds for each."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    right = [name in numbers for name in columns]
    form = "| " + " | ".join(f"{{:{'>' if r else '<'}{width}}}" for r, width in zip(right, widths, strict=True)) + " |"
    yield form.format(*columns)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from (form.format(*row) for row in rows)


def _console(out: TextIO) -> Console:
    from rich.console import Console

    return Console(file=out, width=None if out.isatty() else PLAIN_WIDTH, highlight=False)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str], *, drawn: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if drawn else box.MARKDOWN)
    for index, name in enumerate(columns):
        if name in numbers:
            widest = max(map(len, (name, *(row[index] for row in rows))))
            table.add_column(Text(name), justify="right", no_wrap=True, min_width=widest)
        else:
            table.add_column(Text(name), overflow="fold", max_width=None if drawn else TEXT_WIDTH)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
