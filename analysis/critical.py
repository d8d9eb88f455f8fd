"""The critical path of a run over time, and what its levers save, drawn.

It reads the tables that ``python -m runners.explain key=...`` has written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from xsim.errors import SpecError
from xsim.units import PS_PER_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

SHOWN_LEVERS = 12
COLOURS = {"compute": "tab:blue", "collective": "tab:orange", "hand_over": "tab:green", "sync": "tab:red"}
LANE = 0.8  # height of a bar


def draw(folder: Path) -> Path:
    """Write the figure under ``folder``, which holds ``critical_path.parquet`` and perhaps ``levers.parquet``.

    Raises:
        SpecError: There is no table of a path.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not (folder / "critical_path.parquet").is_file():
        raise SpecError("folder", str(folder), "it holds no critical_path.parquet", "start runners.explain key=KEY")
    levers = folder / "levers.parquet"
    panels = 2 if levers.is_file() else 1
    figure = Figure(figsize=(11.0, 3.5 + 3.5 * (panels - 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(panels, 1, squeeze=False)[:, 0]
    _draw_path(axes[0], folder / "critical_path.parquet")
    if panels > 1:
        _draw_levers(axes[1], levers)
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    path = folder / "figures" / "critical_path.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


def _draw_path(axes: Axes, table: Path) -> None:
    """A lane per device group, a bar per piece in the lane of who computes, sends or came last."""
    found = pq.read_table(table)
    start, end = (found[name].to_numpy() / PS_PER_S for name in ("start_ps", "end_ps"))
    groups, pieces = found["groups"].to_pylist(), found["piece"].to_pylist()
    lanes = {name: lane for lane, name in enumerate(sorted(set(groups), key=_place))}
    for kind, colour in COLOURS.items():
        own = [number for number, piece in enumerate(pieces) if piece == kind]
        if own:
            heights = [lanes[groups[number]] for number in own]
            label = f"{kind.replace('_', '-')} {100 * (end[own] - start[own]).sum() / max(end):.2f} %"
            axes.barh(heights, end[own] - start[own], LANE, left=start[own], color=colour, linewidth=0, label=label)
    axes.set_yticks(range(len(lanes)), list(lanes))
    axes.invert_yaxis()
    axes.set_xlim(0, max(end, default=1))
    axes.set_ylabel("replica.stage.group")
    axes.set_xlabel("time [s]")
    axes.legend(ncols=len(COLOURS), loc="lower left", bbox_to_anchor=(0, 1), frameon=False)


def _place(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split(".")))


def _draw_levers(axes: Axes, table: Path) -> None:
    """A bar per lever, the largest at the top."""
    rows = [row for row in pq.read_table(table).to_pylist() if not row["problem"]][:SHOWN_LEVERS]
    saved = [100 * row["saved_ps"] / (row["makespan_ps"] + row["saved_ps"]) for row in rows]
    axes.barh(range(len(rows)), saved, LANE, color=["tab:blue" if value > 0 else "tab:gray" for value in saved])
    axes.set_yticks(range(len(rows)), [row["lever"] for row in rows])
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("saved of the iteration [%]")
