"""What ranks need over time, by cause, as a run has left it.

python -m analysis.memory outputs/run/detail/KEY
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from analysis.command import Parser, exits
from xsim.errors import SpecError

__all__ = ["CAUSES", "draw", "main"]

RANKS = 4
CAUSES = ("weight", "gradient", "optimizer", "buffer", "workspace", "reserve", "activation")
PS_PER_MS = 10**9


@exits
def main(argv: Sequence[str]) -> int:
    """Draw the figure."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of tables: detail/KEY of a run")
    parser.add_argument("--ranks", type=int, default=RANKS, help=f"how many, fullest first; default: {RANKS}")
    given = parser.parse_args(argv)
    if given.ranks < 1:
        raise SpecError("--ranks", given.ranks, "nothing would be drawn", "write at least 1")
    print(f"Figure: {draw(given.folder, given.ranks)}")
    return 0


def draw(folder: Path, count: int = RANKS) -> Path:
    """Write the figure of the ``count`` ranks that need most under ``folder``: of equal ones the first alone.

    Raises:
        SpecError: There is no table of memory.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    table = folder / "memory.parquet"
    if not table.is_file():
        fix = "name a folder detail/KEY of a run; one of a sweep needs detail=[memory]"
        raise SpecError("folder", str(folder), "it holds no memory.parquet", fix)
    found = pq.read_table(table)
    rank, begin, end = (found[name].to_numpy() for name in ("rank", "from_ps", "until_ps"))
    causes = np.stack([found[f"{cause}_bytes"].to_numpy() for cause in CAUSES])
    kept = found["kept_bytes"].to_numpy()
    chosen: dict[bytes, int] = {}
    most = {int(each): int(causes[:, rank == each].sum(axis=0).max()) for each in np.unique(rank)}
    for each in sorted(most, key=lambda each: (-most[each], each)):
        rows = rank == each
        chosen.setdefault(causes[:, rows].tobytes(), each)
    shown = list(chosen.values())[:count]
    figure = Figure(figsize=(10.0, 1.5 + 2.0 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, each in zip(panels, shown, strict=True):
        rows = np.flatnonzero(rank == each)
        times = np.stack((begin[rows], end[rows])).T.ravel() / PS_PER_MS
        levels = np.repeat(causes[:, rows], 2, axis=1)
        levels[-1, 1::2] = kept[rows]  # between two actions a rank keeps what the first has left
        axes.stackplot(times, levels / 1e9, labels=CAUSES, step="post", linewidth=0)
        axes.set_ylabel(f"rank {each} [GB]")
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("time [ms]")
    panels[0].legend(fontsize=7, frameon=False, ncols=len(CAUSES), loc="lower left", bbox_to_anchor=(0, 1))
    path = folder / "figures" / "memory.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


if __name__ == "__main__":
    raise SystemExit(main())
