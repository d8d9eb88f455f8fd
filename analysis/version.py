"""The version of the result tables: what a reader must know before it trusts one."""

from __future__ import annotations

__all__ = ["SCHEMA_VERSION"]

SCHEMA_VERSION = 4  # of the result tables; part of every key. A column more needs no new one: readers fill it with null
