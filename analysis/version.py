"""What a reader must know of the result tables before it trusts one: their version, and who says what was run."""

from __future__ import annotations

__all__ = ["CONFIG", "SCHEMA_VERSION"]

CONFIG = "config_json"  # the column that holds the resolved experiment
SCHEMA_VERSION = 4  # of the result tables; part of every key. A column more needs no new one: readers fill it with null
