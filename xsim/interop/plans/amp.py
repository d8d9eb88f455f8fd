"""Plans of AMP: the lines ``rank N: ((mbs, degrees, ranks of hosts, cuts), cost)`` (https://github.com/DachengLi1/AMP).

It counts six layers more than the model has: ``embedding, nothing, the layers, nothing, nothing, head, nothing``. Ranks
are numbered with those that cut a layer as neighbours, then data-parallel ones, then stages; the map says which of them
the devices of each host are. Every data-parallel rank is a pipeline of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from xsim.errors import SpecError
from xsim.interop.plans.target import (
    Imported,
    Target,
    batch_of,
    check_ranks,
    copies_on,
    imported,
    layers_between,
    literal,
    predicted,
    rounds,
    whole,
)
from xsim.interop.plans.texts import digits, ordinal
from xsim.plan.sketch import Pipeline, Sketch, SketchStage
from xsim.spec.cluster import rank_hosts

__all__ = ["amp_plan"]

_FIX = "name what AMP's search printed"
_LINE = re.compile(r"^\s*rank (\d+): (.*)$", re.MULTILINE)
_DEGREES = ("mp_deg", "dp_deg", "pp_deg")


def amp_plan(text: str, target: Target, path: str) -> Imported:
    """The plan ``target.which`` of the list, the cheapest, AMP's ``rank 0``, being 1.

    Raises:
        SpecError: There is no such line, or its plan is none of this model and cluster.
    """
    lines = _LINE.findall(text)
    if not lines:
        raise SpecError(path, text[:40], "it has no line of a plan", _FIX)
    chosen = ordinal(target.which, len(lines))
    where = f"{path}[{target.which}]"
    micro_batch, degrees, hosts, cuts, cost = _values(lines[chosen][1], where)
    tp, dp, pp = (whole(degrees.get(name), f"{where}.{name}") for name in _DEGREES)
    notes: list[str] = []
    if len(cuts) != pp + 1:
        raise SpecError(f"{where}.cuts", cuts, f"they are not those of {pp} stages", _FIX)
    layers = layers_between(cuts, "pseudo", target, f"{where}.cuts", notes)
    check_ranks(tp * dp * pp, target, f"{where}.degrees")
    seats = dict(_seats(hosts, target, where))
    missing = [rank for rank in range(tp * dp * pp) if rank not in seats]
    if missing:
        raise SpecError(f"{where}.ranks", hosts, f"no host has rank {missing[0]}", _FIX)
    said = re.search(r"gbs\D{0,3}(\d+)", text)
    batch = batch_of(target, digits(said[1], f"{path}.gbs") if said else None, f"{path}.gbs")
    count = rounds(batch, micro_batch * dp, notes, "rounds")
    pipelines = []
    for replica in range(dp):
        stages = []
        for stage, part in enumerate(layers):
            first = (stage * dp + replica) * tp
            ranks = [seats[rank] for rank in range(first, first + tp)]
            stages.append(SketchStage(part, copies_on(ranks, tp, target, f"{where}.ranks")))
        pipelines.append(Pipeline(tuple(stages), micro_batch, count))
    return imported(Sketch(tuple(pipelines), "amp", "AMP", predicted(cost)), target, notes)


def _values(text: str, path: str) -> tuple[int, Mapping[str, object], Mapping[int, list[int]], list[int], float]:
    bare = re.sub(r"tensor\(\[?([-\d.e]+)\]?[^)]*\)", r"\1", text)
    bare = re.sub(r"defaultdict\(<class 'list'>, (\{.*?\})\)", r"\1", bare)
    try:
        (mbs, degrees, hosts, cuts), cost = literal(bare)
        seats = {whole(host, path, 0): [whole(rank, f"{path}.ranks", 0) for rank in v] for host, v in hosts.items()}
        return whole(mbs, path), dict(degrees), seats, [whole(cut, f"{path}.cuts", 0) for cut in cuts], float(cost)
    except SpecError:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise SpecError(path, text[:80], "it is not ((mbs, degrees, ranks, cuts), cost)", _FIX) from None


def _seats(hosts: Mapping[int, list[int]], target: Target, path: str) -> Iterator[tuple[int, int]]:
    """(AMP's rank, ours)."""
    of_host: dict[int, list[int]] = {}
    for rank, host in enumerate(rank_hosts(target.scenario.cluster)):
        of_host.setdefault(host, []).append(rank)
    listed = [rank for ranks in hosts.values() for rank in ranks]
    twice = next((rank for rank, count in Counter(listed).items() if count > 1), None)
    if twice is not None:
        raise SpecError(f"{path}.ranks", hosts, f"rank {twice} is listed twice", _FIX)
    for host, ranks in hosts.items():
        own = of_host.get(host, [])
        if len(own) < len(ranks):
            problem = f"host {host} of the cluster has {len(own)} devices, and the plan puts {len(ranks)} there"
            raise SpecError(f"{path}.ranks", ranks, problem, "choose the cluster that was planned for")
        yield from zip(ranks, own, strict=False)
