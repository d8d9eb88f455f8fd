"""A small network that is trained in float64, whole on one device or cut over the ranks of a group.

Two residual blocks, ``x + tanh(x W + b) V``, and the squared error. Hidden unit j of a block has a column of W, an
entry of b and a row of V, one after another in its gradient: a rank that has some neighbouring units has a contiguous
shard, as Megatron cuts a feed-forward layer. What the ranks of a group must sum, outputs forward and input gradients
backward, is summed here; the rest each rank computes from its own units alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tests.plan.arrays import Floats

__all__ = ["BLOCKS", "UNITS", "UNIT_SIZE", "WIDTH", "Batch", "gradients", "loss", "weights"]

WIDTH, UNITS, BLOCKS = 3, 24, 2
UNIT_SIZE = 2 * WIDTH + 1


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples by row.

    Attributes:
        inputs, targets: samples x WIDTH each.
        whole: Samples of the whole batch, of which these are some; losses and gradients are divided by it.
    """

    inputs: Floats
    targets: Floats
    whole: int


def weights(draw: np.random.Generator) -> list[Floats]:
    """Of each block, UNITS * UNIT_SIZE numbers."""
    return [draw.normal(0.0, 0.5, UNITS * UNIT_SIZE) for _ in range(BLOCKS)]


def loss(parameters: Sequence[Floats], batch: Batch) -> float:
    """Half the squared errors of these samples, over the size of the whole batch."""
    outputs = batch.inputs
    for block in parameters:
        columns, biases, rows = _units(block)
        outputs = outputs + np.tanh(outputs @ columns + biases) @ rows
    return float(((outputs - batch.targets) ** 2).sum() / (2 * batch.whole))


def gradients(parameters: Sequence[Floats], batch: Batch, cuts: Sequence[int]) -> list[list[Floats]]:
    """Of each block and rank, the gradient of ``loss`` by the rank's units ``cuts[i]..cuts[i + 1]``, flat."""
    shards = [
        [_units(block[start * UNIT_SIZE : stop * UNIT_SIZE]) for start, stop in pairwise(cuts)] for block in parameters
    ]
    values, inputs, active = batch.inputs, [], []
    for block in shards:
        inputs.append(values)
        active.append([np.tanh(values @ columns + biases) for columns, biases, _ in block])
        values = values + sum(hidden @ rows for hidden, (_, _, rows) in zip(active[-1], block, strict=True))
    back = (values - batch.targets) / batch.whole
    found = []
    for block, entering, hiddens in zip(reversed(shards), reversed(inputs), reversed(active), strict=True):
        slopes = [back @ rows.T * (1 - hidden**2) for hidden, (_, _, rows) in zip(hiddens, block, strict=True)]
        found.append(
            [
                np.concatenate([(entering.T @ slope).T, slope.sum(axis=0)[:, None], hidden.T @ back], axis=1).ravel()
                for hidden, slope in zip(hiddens, slopes, strict=True)
            ]
        )
        back = back + sum(slope @ columns.T for slope, (columns, _, _) in zip(slopes, block, strict=True))
    return found[::-1]


def _units(shard: Floats) -> tuple[Floats, Floats, Floats]:
    """WIDTH x units, units, units x WIDTH."""
    table = shard.reshape(-1, UNIT_SIZE)
    return table[:, :WIDTH].T, table[:, WIDTH], table[:, WIDTH + 1 :]
