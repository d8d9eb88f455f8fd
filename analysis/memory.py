"""What ranks need over time, by cause, as a run has left it.

python -m analysis.memory outputs/run/detail/KEY
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from analysis.command import exits
from analysis.figures import asked, empty_figure, saved, table_in

__all__ = ["CAUSES", "draw", "main"]

FOLDER = "of tables: detail/KEY of a run"
RANKS = 4
CAUSES = ("weight", "gradient", "optimizer", "buffer", "workspace", "reserve", "activation")
PS_PER_MS = 10**9


@exits
def main(argv: Sequence[str]) -> int:
    """Draw the figure."""
    print(f"Figure: {draw(*asked(argv, __doc__, FOLDER, ('--ranks', RANKS, 'fullest')))}")
    return 0


def draw(folder: Path, count: int = RANKS) -> Path:
    """Write the figure of the ``count`` ranks that need most under ``folder``: of equal ones the first alone.

    Raises:
        SpecError: There is no table of memory.
    """
    found = table_in(folder, "memory", "name a folder detail/KEY of a run; one of a sweep needs detail=[memory]")
    rank, begin, end = (found[name].to_numpy() for name in ("rank", "from_ps", "until_ps"))
    causes = np.stack([found[f"{cause}_bytes"].to_numpy() for cause in CAUSES])
    kept = found["kept_bytes"].to_numpy()
    chosen: dict[bytes, int] = {}
    most = {int(each): int(causes[:, rank == each].sum(axis=0).max()) for each in np.unique(rank)}
    for each in sorted(most, key=lambda each: (-most[each], each)):
        rows = rank == each
        chosen.setdefault(causes[:, rows].tobytes(), each)
    shown = list(chosen.values())[:count]
    figure = empty_figure(10.0, 1.5 + 2.0 * len(shown))
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, each in zip(panels, shown, strict=True):
        rows = np.flatnonzero(rank == each)
        times = np.stack((begin[rows], end[rows])).T.ravel() / PS_PER_MS
        levels = np.repeat(causes[:, rows], 2, axis=1)
        levels[-1, 1::2] = kept[rows]  # between two actions a rank keeps what the first has left
        axes.stackplot(times, levels / 1e9, labels=CAUSES, step="post", linewidth=0)
        axes.set_ylabel(f"rank {each} [GB]")
    panels[-1].set_xlabel("time [ms]")
    panels[0].legend(fontsize=7, frameon=False, ncols=len(CAUSES), loc="lower left", bbox_to_anchor=(0, 1))
    return saved(figure, folder, "memory")


if __name__ == "__main__":
    raise SystemExit(main())
