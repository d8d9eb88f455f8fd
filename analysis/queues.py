"""Queues and rates of links over time, as a replay or a run has noted them.

python -m analysis.queues outputs/run/detail/KEY
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.command import exits
from analysis.figures import asked, empty_figure, saved, table_in

__all__ = ["draw", "main"]

FOLDER = "of tables: tables=FOLDER of a replay, detail/KEY of a run"
LINKS = 8
COLUMNS = ("time_ps", "queued_bytes", "rate_bytes_per_s")
PS_PER_US = 10**6
Ints = NDArray[np.int64]


@exits
def main(argv: Sequence[str]) -> int:
    """Draw the figure."""
    print(f"Figure: {draw(*asked(argv, __doc__, FOLDER, ('--links', LINKS, 'longest queues')))}")
    return 0


def draw(folder: Path, count: int = LINKS) -> Path:
    """Write the figure of the ``count`` links with the longest queues under ``folder``.

    Raises:
        SpecError: There is no table of queues.
    """
    fix = "name a folder whose replay had sample=1us, or whose run had network.sample=1us"
    found = table_in(folder, "queues", fix)
    encoded = found["link"].combine_chunks().dictionary_encode()
    names, link = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    time_ps, queued_bytes, rate_bytes_per_s = (found[name].to_numpy() for name in COLUMNS)
    interval_ps = int(np.gcd.reduce(time_ps))
    figure = empty_figure(10.0, 7.0)
    queues, rates = figure.subplots(2, 1, sharex=True)
    for number in _longest(link, queued_bytes, names)[:count]:
        own = np.flatnonzero(link == number)
        idle = own[np.diff(time_ps[own], prepend=-interval_ps) > interval_ps]  # the instant before is no row, but zero
        place = np.searchsorted(own, idle)
        time_us = np.insert(time_ps[own], place, time_ps[idle] - interval_ps) / PS_PER_US
        queued, rate = (np.insert(values[own], place, 0) for values in (queued_bytes, rate_bytes_per_s))
        queues.step(time_us, queued / 1e3, where="post", label=names[number], linewidth=1.0)
        rates.step(time_us, rate * 8 / 1e9, where="pre", linewidth=1.0)
    queues.set_ylabel("queue [KB]")
    rates.set_ylabel("rate [Gb/s]")
    rates.set_xlabel("time [us]")
    for axes in (queues, rates):
        axes.set_ylim(bottom=0)
    if len(link):
        queues.legend(fontsize=7, frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    return saved(figure, folder, "queues")


def _longest(link: Ints, queued_bytes: Ints, names: Sequence[str]) -> list[int]:
    """Numbers of links, those whose queues have been longest first; of equal ones those with most samples."""
    most: Ints = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(most, link, queued_bytes)
    samples = np.bincount(link, minlength=len(names))
    return sorted(range(len(names)), key=lambda number: (-most[number], -samples[number], names[number]))


if __name__ == "__main__":
    raise SystemExit(main())
