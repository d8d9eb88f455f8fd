"""Simulations that go wrong, for a sweep that a test starts; no config can ask for them.

What a simulation does is told by the sequence length of its model, in units of 128. ``tests/checked`` puts it into
processes that find ``XSIM_FATES`` in their environment: a folder with the figures of a sound run, ``metrics.json``, in
which marks of what happened once are made too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["FATES", "FOLDER", "spoil"]

FOLDER = "XSIM_FATES"
FATES = {
    **dict.fromkeys((5, 45), "raises"),
    **dict.fromkeys((7, 37), "eats"),
    **dict.fromkeys((13, 43), "exits"),
    **dict.fromkeys((17, 47), "exits once"),
    **dict.fromkeys((19, 49), "is nan"),
    **dict.fromkeys((29, 57), "hangs"),
}
STATUS = {"raises": "failed", "eats": "out_of_memory", "exits": "crashed", "hangs": "timeout"}  # the others are ok
BITE_BYTES = 1 << 27


@dataclass(frozen=True)
class _Experiment:
    """What the worker takes for an experiment."""

    config: Mapping[str, Any]
    network: object = None

    @property
    def number(self) -> int:
        return int(self.config["model"]["seq_len"]) // 128

    def experiment(self) -> _Experiment:
        return self


class _Result:
    """Its own metrics."""

    def __init__(self, number: int) -> None:
        self.time_s = float("nan") if FATES.get(number) == "is nan" else float(number)

    @property
    def metrics(self) -> _Result:
        return self

    def row(self) -> dict[str, Any]:
        known: dict[str, Any] = json.loads(Path(os.environ[FOLDER], "metrics.json").read_text())
        return known | {"training_time_s": self.time_s}


def spoil(module: ModuleType) -> None:
    """Let the module ``runners.worker`` run these instead of experiments."""
    module.__dict__.update(read=_Experiment, warm=lambda _network: 0.0, run=_run)


def _run(experiment: _Experiment, *_told: object) -> _Result:
    number = experiment.number
    mark = Path(os.environ[FOLDER], f"exited-{number}")
    time.sleep(0.02 * (number % 5))
    match FATES.get(number):
        case "raises":
            raise KeyError(f"no {number}")
        case "eats":
            eaten = []
            while True:
                eaten.append(bytearray(BITE_BYTES))
        case "exits":
            os._exit(3)
        case "exits once" if not mark.exists():
            mark.touch()
            os._exit(3)
        case "hangs":
            time.sleep(10_000)
    return _Result(number)
