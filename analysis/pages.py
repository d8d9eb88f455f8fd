"""Tables in Markdown pages, replaced by what a command prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xsim.errors import SpecError

__all__ = ["replace_table"]


def replace_table(page: Path, column: str, lines: Sequence[str]) -> None:
    """Put ``lines`` in the place of the table of ``page`` whose first column is called ``column``.

    Raises:
        SpecError: There is none.
    """
    text = page.read_text(encoding="utf-8").splitlines() if page.is_file() else []
    start = next((number for number, line in enumerate(text) if line.startswith(f"| {column} ")), None)
    if start is None:
        raise SpecError("--page", str(page), f"it holds no table of a {column}", f"write the line | {column} | there")
    stop = next((number for number in range(start, len(text)) if not text[number].startswith("|")), len(text))
    text[start:stop] = lines
    page.write_text("\n".join(text) + "\n", encoding="utf-8")
