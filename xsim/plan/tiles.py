"""Matrix products as accelerators run them: the product is cut into tiles, which processors take in waves.

Every processor works on one tile at a time, so a product takes as long as whole waves of tiles, the last of which may
leave most processors idle (tile and wave quantisation,
https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html). A library offers
several tiles, and takes that which ends first.
"""

from __future__ import annotations

from xsim.plan.operator import Product

__all__ = ["TILES", "busiest_flops"]

TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))  # rows and columns, cuBLAS: source above
LARGEST = max(TILES, key=lambda tile: tile[0] * tile[1])


def busiest_flops(product: Product, processors: int, inner_ramp: float, edge_ramp: float) -> float:
    """FLOPs that the busiest processor has time for while it works on a product, those that it loses included.

    Never less if a side of the product is longer.

    Args:
        processors: How many tiles are worked on at a time.
        inner_ramp: Of the inner side: what start and end of a tile take.
        edge_ramp: Rows and columns of a tile: what a tile smaller than the largest loses at its edges.
    """
    inner = product.inner + inner_ramp
    return min(2 * inner * _area(product, rows, columns, processors, edge_ramp) for rows, columns in TILES)


def _area(product: Product, rows: int, columns: int, processors: int, edge_ramp: float) -> float:
    """Elements that one processor works on, as if its tiles were of the largest kind."""
    tiles = product.batch * -(-product.rows // rows) * -(-product.columns // columns)
    edges = 1 / rows + 1 / columns - 1 / LARGEST[0] - 1 / LARGEST[1]
    return -(-tiles // processors) * rows * columns * (1 + edge_ramp * edges)
