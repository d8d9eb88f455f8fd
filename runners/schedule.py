"""Draw a pipeline schedule, stage by time, on equal stages without communication.

python -m runners.schedule one_f_one_b 4 8        # 4 stages, 8 micro-batches
python -m runners.schedule interleaved 4 8 2      # 2 chunks of layers per stage
python -m runners.schedule dualpipe 4 8           # in both directions: micro-batches from the last stage pass chunk 1
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from analysis.command import Parser, exits
from xsim.errors import SpecError
from xsim.families import build
from xsim.plan.picture import UNITS, picture
from xsim.plan.walk import walk

__all__ = ["main"]

MOST_PASSES = 20_000  # forward passes of all stages: seconds to draw, and wider than any screen


@exits
def main(argv: Sequence[str]) -> int:
    """Print the picture, and what each stage keeps."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedule", help="one of the options of schedule=")
    parser.add_argument("stages", type=int)
    parser.add_argument("micro_batches", type=int)
    parser.add_argument("chunks", type=int, nargs="?", default=1, help="ranges of layers per stage")
    given = parser.parse_args(argv)
    for name in ("stages", "micro_batches", "chunks"):
        if getattr(given, name) < 1:
            raise SpecError(name, getattr(given, name), "it is not positive", "write 1 or more")
    passes = given.stages * given.micro_batches * given.chunks
    if passes > MOST_PASSES:
        shown = f"{given.stages} x {given.micro_batches} x {given.chunks}"
        problem = f"a picture has at most {MOST_PASSES} forward passes"
        raise SpecError("stages x micro_batches x chunks", shown, problem, "draw a smaller one")
    schedule = build("schedule", {"name": given.schedule})
    orders = [schedule.order(s, given.stages, given.micro_batches, given.chunks) for s in range(given.stages)]
    kept = walk(orders, given.micro_batches, given.chunks)
    print(picture(orders, given.chunks))
    kinds = sorted({action.kind for order in orders for action in order})
    print(f"\nunits of time: {', '.join(f'{kind} {UNITS[kind]}' for kind in kinds)}; a dot is one of waiting")
    print(f"activations kept at once, per stage: {' '.join(map(str, kept))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
