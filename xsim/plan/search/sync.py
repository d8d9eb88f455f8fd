"""How long the sum of gradients takes, from who holds what: block by block.

A block is a run of layers with one set of holders, summed over rings (ETH's block-wise all-reduce).

Of a block of V bytes that k copies hold, the widest shards are those of the copies with the fewest tensor ranks, V / t.
A ring of such shards sends 2 (k - 1) / k of it over each port. A rank syncs all blocks of its stage over one port, so
that they follow one another; the stage with most to send sets the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from xsim.fabric.fabric import Fabric
from xsim.plan.kinds import Sketch, whole_layers
from xsim.spec.model import ModelSpec
from xsim.units import PS_PER_S

__all__ = ["Holding", "blocks", "holdings", "hops_inside", "in_one_host", "longest_ps", "ring_ps", "ring_rate", "sums"]


@dataclass(frozen=True, slots=True)
class Holding:
    """Equal copies that hold the same layers.

    Attributes:
        layers: Ends among them.
        copies: How many, over equal pipelines.
        place: (pipeline, stage), counted in the sketch.
        ranks: Of all of them, if the sketch says it.
        pipelines: How many equal ones they are of; ``beside`` them are so many devices of the kind in all of these.
    """

    kind: str
    tp: int
    layers: range
    copies: int
    place: tuple[int, int]
    ranks: tuple[int, ...] = ()
    pipelines: int = 1
    beside: int = 0


def holdings(sketch: Sketch, layers: int) -> list[Holding]:
    """All of a sketch, in its order."""
    found = []
    for p, pipeline in enumerate(sketch.pipelines):
        beside = Counter[str]()
        for copies in chain(*(stage.copies for stage in pipeline.stages)):
            beside[copies.device] += copies.devices * pipeline.count
        for s, (stage, held) in enumerate(zip(pipeline.stages, whole_layers(pipeline, layers), strict=True)):
            for c in stage.copies:
                ranks, count = tuple(chain(*c.ranks)), pipeline.count
                found.append(Holding(c.device, c.tp, held, c.count * count, (p, s), ranks, count, beside[c.device]))
    return found


def in_one_host(members: Sequence[Holding], room: int, *, apart: bool) -> bool:
    """Whether the devices of ``members``, all of one kind, may share a host that has ``room`` for so many.

    Args:
        apart: Stages of a pipeline sit near each other, so that several pipelines share a host only as a whole.
    """
    own = {each.place[0]: each for each in members}
    several = len(own) > 1 or any(each.pipelines > 1 for each in own.values())
    if apart and several and sum(each.beside for each in own.values()) > room:
        return False
    return sum(each.copies * each.tp for each in members) <= room


def hops_inside(members: Sequence[Holding], room: int, *, apart: bool) -> bool:
    """Whether a ring over ``members``, all of one kind, goes from copy to copy inside a host of ``room`` devices."""
    copies = [each.copies // each.pipelines if apart else each.copies for each in members]
    return (max(copies) if apart else sum(copies)) > 1 and 2 * max(each.tp for each in members) <= room


def sums(
    held: Sequence[Holding], model: ModelSpec, sum_ps: Callable[[Sequence[Holding], int, Mapping[str, int]], int]
) -> list[tuple[tuple[tuple[int, int], ...], int]]:
    """(places that have part in it, what it takes) of each sum.

    Args:
        sum_ps: What summing so many parameters takes those who hold them, while so many ranks of each kind sum any.
    """
    found = [
        (members, parameters)
        for members, parameters in _summed(held, model)
        if parameters and sum(each.copies for each in members) > 1
    ]
    busy = Counter[str]()
    for each in {id(each): each for members, _ in found for each in members}.values():
        busy[each.kind] += each.copies * each.tp
    return [(tuple(sorted({each.place for each in members})), sum_ps(members, size, busy)) for members, size in found]


def longest_ps(each: Sequence[tuple[tuple[tuple[int, int], ...], int]]) -> int:
    """What all sums take that a place has part in, of the place that they take longest."""
    found = Counter[tuple[int, int]]()
    for places, time_ps in each:
        found.update(dict.fromkeys(places, time_ps))
    return max(found.values(), default=0)


def blocks(held: Sequence[Holding]) -> Iterator[tuple[list[Holding], range]]:
    """Runs of layers, embedding and head among them, with one set of holders."""
    cuts = sorted({edge for each in held for edge in (each.layers.start, each.layers.stop)})
    for start, stop in pairwise(cuts):
        yield [each for each in held if each.layers.start <= start and stop <= each.layers.stop], range(start, stop)


def _summed(held: Sequence[Holding], model: ModelSpec) -> Iterator[tuple[list[Holding], int]]:
    """Blocks and their parameters; the ends apart; of a tied table both holders."""
    head = model.layers + 1
    for members, layers in blocks(held):
        inner = len(range(max(layers.start, 1), min(layers.stop, head)))
        yield members, inner * model.layer_parameters(1)
    ends = [[each for each in held if end in each.layers] for end in (0, head)]
    table = model.vocab * model.hidden if model.tied else 0
    if table:
        both = {each.place: each for each in (*ends[0], *ends[1])}
        doubled = len(both) < len(ends[0]) + len(ends[1]) and len({e.place for e in ends[0]}) == len(ends[0])
        yield (list(both.values()) if doubled else [*ends[0], *(e for e in ends[1] if 0 not in e.layers)]), table
    yield ends[0], model.layer_parameters(0) - table
    yield ends[1], max(0, model.layer_parameters(head) - table)


def ring_rate(fabric: Fabric, ranks: Sequence[int]) -> float:
    """Bytes per second of the slowest hop of a ring of ``ranks``, two or more."""
    return min(fabric.path_bandwidth_bytes_per_s(a, b) for a, b in pairwise((*ranks, ranks[0])))


def ring_ps(size_bytes: float, copies: int, narrowest: int, bytes_per_s: float, latency_ps: int) -> int:
    """A sum of ``size_bytes`` over so many copies, of which the narrowest has so many tensor ranks.

    Its halves, a scatter of sums and a gather of them, take half of it each.
    """
    sent = 2 * (copies - 1) / copies * size_bytes / narrowest
    return round(sent / bytes_per_s * PS_PER_S) + 2 * (copies - 1) * latency_ps
