"""Small tables of results, and how they are printed."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa

from analysis.cases import CASE_COLUMNS


def table(*rows: Mapping[str, object]) -> pa.Table:
    common: dict[str, object] = dict.fromkeys(CASE_COLUMNS, "same") | {"seed": 0, "batch": 24}
    figures: dict[str, object] = {"status": "ok", "reason": "", "training_time_s": 1.0, "bubble_time_s": 0.1}
    figures |= {"reshard_comm_time_s": 0.0, "dp_comm_time_s": 0.0}
    return pa.Table.from_pylist([{**common, **figures, "idle_time_s": 0.0, "fits": True, **row} for row in rows])


def squeezed(text: str) -> str:
    return " ".join(text.split())


GRID = table(
    {"cluster": "a", "deployment": "a_7b", "reshard": "lcm", "training_time_s": 1.0},
    {"cluster": "a", "deployment": "a_7b", "reshard": "hetauto", "training_time_s": 1.5},
    {"cluster": "b", "deployment": "b_7b", "reshard": "lcm", "training_time_s": 2.0, "fits": False},
    {"cluster": "b", "deployment": "b_7b", "reshard": "hetauto", "status": "invalid", "reason": "no such layer"},
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
