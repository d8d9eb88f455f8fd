"""A plan as a picture: pipelines, their stages and devices, how full these are, and when they worked.

It reads the tables that ``python -m runners.plan`` has written.

python -m analysis.plan outputs/plan/NAME
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from analysis.command import Parser, exits
from analysis.figures import empty_figure, saved, table_in
from analysis.screen import counted
from xsim.units import PS_PER_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "main"]

MOST_PARTS = 32  # of stages, in whole pipelines, that stay readable; equal pipelines are one
COLOURS = {"F": "tab:blue", "B": "tab:orange", "I": "tab:orange", "W": "tab:purple", "U": "tab:gray", "S": "tab:red"}
PASSES = {"F": "forward", "B": "backward", "W": "weight gradient", "U": "update", "S": "waits for gradient sync"}
LANE = 0.8

Row = dict[str, Any]


@exits
def main(argv: Sequence[str]) -> int:
    """Draw the figure."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of tables: outputs/plan/NAME")
    print(f"Figure: {draw(parser.parse_args(argv).folder)}")
    return 0


def draw(folder: Path) -> Path:
    """Write the figure under ``folder``, which holds ``stages.parquet`` and perhaps ``passes.parquet``.

    Raises:
        SpecError: There is no table of stages.
    """
    every = table_in(folder, "stages", "start runners.plan").to_pylist()
    parts = [row for row in every if _rows_up_to(every, row["pipeline"]) <= MOST_PARTS] or every[:MOST_PARTS]
    passes = folder / "passes.parquet"
    pipelines = 1 + max(row["pipeline"] for row in parts)
    heights = [0.6 + 0.7 * pipelines, 0.8 + 0.22 * len(parts)]
    if passes.is_file():
        heights.append(0.8 + 0.22 * len(parts))
    figure = empty_figure(11.0, sum(heights) + 0.6)
    axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    left_out = len({row["pipeline"] for row in every}) - pipelines
    _draw_stages(axes[0], parts, left_out)
    _draw_memory(axes[1], parts)
    if passes.is_file():
        _draw_passes(axes[2], parts, pq.read_table(passes).to_pylist())
    return saved(figure, folder, "plan")


def _rows_up_to(every: Sequence[Row], pipeline: int) -> int:
    return sum(row["pipeline"] <= pipeline for row in every)


def _draw_stages(axes: Axes, parts: Sequence[Row], left_out: int) -> None:
    """A row per pipeline; a box per stage over its layers, cut from top to bottom among its kinds of devices."""
    kinds = list(dict.fromkeys(row["device"] for row in parts))
    last = max(row["last_layer"] for row in parts) + 1
    names = []
    for pipeline in dict.fromkeys(row["pipeline"] for row in parts):
        own = [row for row in parts if row["pipeline"] == pipeline]
        many = f" x {own[0]['pipelines']}" if own[0]["pipelines"] > 1 else ""
        names.append(f"pipeline {pipeline}{many}\n{own[0]['micro_batches']} x {own[0]['micro_batch']} samples")
        for stage in dict.fromkeys(row["stage"] for row in own):
            copies = [row for row in own if row["stage"] == stage]
            for number, row in enumerate(copies):
                _draw_box(axes, row, pipeline, number / len(copies), 1 / len(copies), f"C{kinds.index(row['device'])}")
    for number, kind in enumerate(kinds):
        axes.barh([0], [0], color=f"C{number}", alpha=0.5, label=kind)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xlim(0, last)
    axes.set_ylim(len(names) - 0.5, -0.5)
    more = f"; {left_out} more pipelines are not drawn" if left_out else ""
    axes.set_xlabel(f"layer, 0 the embedding, {last - 1} the head{more}")
    axes.legend(ncols=max(1, len(kinds)), loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8)


def _draw_box(axes: Axes, row: Row, lane: int, top: float, height: float, colour: str) -> None:
    width = row["last_layer"] + 1 - row["first_layer"]
    middle = lane + LANE * (top + height / 2 - 0.5)
    axes.barh(
        [middle],
        [width],
        LANE * height,
        left=row["first_layer"],
        color=colour,
        alpha=0.5,
        edgecolor="black",
        linewidth=0.8,
    )
    cut = "".join(f" {name.upper()}{row[name]}" for name in ("cp", "ep") if row[name] > 1)
    text = f"TP{row['tp']}{cut} DP{row['copies']}, {counted(row['tp'] * row['cp'] * row['copies'], 'device')}"
    text = "\n".join([text, *filter(None, row["recompute"].split(", "))])
    axes.text(
        row["first_layer"] + width / 2,
        middle,
        text,
        ha="center",
        va="center",
        fontsize=6 if height == 1 else 5,
        clip_on=True,
    )


def _names(parts: Sequence[Row]) -> list[str]:
    return [f"{row['pipeline']}.{row['stage']}.{row['ranks']}"[:28] for row in parts]


def _draw_memory(axes: Axes, parts: Sequence[Row]) -> None:
    """A bar per stage: what its fullest rank needs of what a device has."""
    lanes = range(len(parts))
    has = [row["device_memory_bytes"] / 1e9 for row in parts]
    needs = [row["peak_memory_bytes"] / 1e9 for row in parts]
    axes.barh(lanes, has, LANE, color="lightgray", label="device")
    colours = ["tab:green" if need <= own else "tab:red" for need, own in zip(needs, has, strict=True)]
    axes.barh(lanes, needs, LANE / 2, color=colours)
    axes.set_yticks(lanes, _names(parts), fontsize=6)
    axes.invert_yaxis()
    axes.set_ylabel("pipeline.stage.ranks", fontsize=8)
    axes.set_xlabel("memory of the fullest rank, beside what its device has [GB]")


def _draw_passes(axes: Axes, parts: Sequence[Row], rows: Sequence[Row]) -> None:
    """A lane per stage: the passes of its first copy."""
    lanes: dict[tuple[int, int, int], int] = {}
    position: dict[tuple[int, int], int] = {}
    for number, row in enumerate(parts):
        at = (row["pipeline"], row["stage"])
        position[at] = position.get(at, -1) + 1
        lanes[*at, position[at]] = number
    shown = [row for row in rows if (row["pipeline"], row["stage"], row["part"]) in lanes]
    for kind in dict.fromkeys(row["pass"] for row in shown):
        own = [row for row in shown if row["pass"] == kind and row["end_ps"] > row["start_ps"]]
        if own:
            axes.barh(
                [lanes[row["pipeline"], row["stage"], row["part"]] for row in own],
                [(row["end_ps"] - row["start_ps"]) / PS_PER_S for row in own],
                LANE,
                left=[row["start_ps"] / PS_PER_S for row in own],
                color=COLOURS[kind],
                linewidth=0,
                alpha=0.5 if kind == "S" else 1.0,
                label=PASSES.get(kind, "backward of activations"),
            )
    axes.set_yticks(range(len(parts)), _names(parts), fontsize=6)
    axes.invert_yaxis()
    axes.set_ylabel("pipeline.stage.ranks", fontsize=8)
    axes.set_xlabel("time [s]")
    axes.legend(ncols=5, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=7)


if __name__ == "__main__":
    raise SystemExit(main())
