"""What is noted of collectives, and what of them is made once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.strategies import SITE
from xsim.fabric.transfers import TransferGraph
from xsim.plan.collective.ring import Ring
from xsim.plan.comm import Collective
from xsim.plan.contracts import Site
from xsim.plan.noted import MOST_KEPT, Noted


@dataclass
class Counting:
    """A ring that counts how often it is asked."""

    asked: list[Collective] = field(default_factory=list)

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        self.asked.append(collective)
        return Ring().expand(collective, site)


def test_equal_collectives_are_expanded_once() -> None:
    rings = Counting()
    noted = Noted(rings)
    sums = [Collective("all_reduce", (0, 1), range(size)) for size in (8, 8, 16, 8)]

    graphs = [noted.expand(each, SITE) for each in sums]

    assert [len(each.span) for each in rings.asked] == [8, 16]
    assert graphs[0] is graphs[1] is graphs[3]
    assert graphs[2].stop.max() == 16
    assert [taken.size_bytes for taken in noted.taken()] == [8, 16]


def test_no_more_graphs_are_kept_than_there_is_room_for() -> None:
    rings = Counting()
    noted = Noted(rings)
    first = Collective("all_reduce", (0, 1), range(4))

    for size in range(4, 4 + MOST_KEPT + 1):
        noted.expand(replace(first, span=range(size)), SITE)
    noted.expand(first, SITE)

    assert rings.asked.count(first) == 2
