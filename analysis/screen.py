"""Tables for people: drawn on a terminal, Markdown elsewhere, so that a log stays readable and can be pasted."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TextIO

__all__ = ["print_table"]

PLAIN_WIDTH = 240  # where no terminal folds lines


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = (), file: TextIO | None = None
) -> None:
    """Print ``rows`` under ``columns``; those named in ``numbers`` are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = file or sys.stdout
    drawn = out.isatty()
    console = Console(file=out, width=None if drawn else PLAIN_WIDTH, highlight=False)
    table = Table(box=box.SIMPLE_HEAD if drawn else box.MARKDOWN)
    for name in columns:
        table.add_column(Text(name), justify="right" if name in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().splitlines())
    out.write("\n".join(line for line in lines if line) + "\n")
