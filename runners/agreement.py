"""Compare the networks flow and packet on lone flows, incasts, rings and permutations.

python -m runners.agreement    # the first table of docs/packet_vs_flow.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from analysis.command import Parser, exits
from analysis.screen import print_table
from runners.scenarios import Scenario, scenarios
from xsim.fabric.hashed_paths import paths_of
from xsim.families import build
from xsim.sim.packets.replay import replay as replay_packets
from xsim.sim.packets.settings import Settings
from xsim.sim.replay import as_packets, replay

__all__ = ["Agreement", "agreement", "main", "show"]

Ints = NDArray[np.int64]
SETTINGS = Settings(payload_bytes=9000, completion="receiver")
PS_PER_US = 10**6
CLOSE = 0.05
COLUMNS = (
    *("scenario", "flows", "flow [us]", "packet [us]", "flow is", "at once"),
    *("last: flow", "last: packet", "flow ends", "pauses", "within 5 %"),
)


@exits
def main(argv: Sequence[str]) -> int:
    """Print the table."""
    Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    show(map(agreement, scenarios()))
    return 0


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How flow and packet have one scenario; times in ps, of receivers.

    Attributes:
        flow_ps, packet_ps: From start to completion of each flow, N.
        at_once_ps: The same on flow if links pass on bytes at once, N.
        flow_end_ps, packet_end_ps: When all is over.
        pauses: How often switches paused their neighbours.
    """

    scenario: Scenario
    flow_ps: Ints
    packet_ps: Ints
    at_once_ps: Ints
    flow_end_ps: int
    packet_end_ps: int
    pauses: int

    @property
    def differ(self) -> float:
        """How much longer flow takes, on the mean."""
        return float(self.flow_ps.mean() / self.packet_ps.mean() - 1)

    @property
    def differ_at_once(self) -> float:
        """The same, if links pass on bytes at once."""
        return float(self.at_once_ps.mean() / self.packet_ps.mean() - 1)

    @property
    def makespans_differ(self) -> float:
        """How much later flow ends."""
        return self.flow_end_ps / self.packet_end_ps - 1

    @property
    def verdict(self) -> str:
        """Whether means and makespans are within 5 %, and if not, what of packets flow does not know."""
        if max(abs(self.differ), abs(self.makespans_differ)) < CLOSE:
            return "yes"
        return "no: pauses" if self.pauses else "no: queues"


def agreement(scenario: Scenario) -> Agreement:
    """Replay it on both, without congestion control; a flow that waits for another starts at that one's last byte."""
    graph, flows = scenario.graph, scenario.flows
    there, back = paths_of(graph, flows, frozenset())
    packets = replay_packets(graph, as_packets(flows, there, back), SETTINGS)
    sizes = {"payload_bytes": SETTINGS.payload_bytes, "header_bytes": SETTINGS.header_bytes}
    stored = replay(graph, flows, there, flows.size_bytes, build("network", {"name": "flow", **sizes}), 0, _unwatched)
    wire_bytes = flows.size_bytes + -(-flows.size_bytes // SETTINGS.payload_bytes) * SETTINGS.header_bytes
    at_once = replay(graph, flows, there, wire_bytes, build("network", {"name": "flow"}), 0, _unwatched)
    return Agreement(
        scenario=scenario,
        flow_ps=stored.end_ps - stored.start_ps,
        packet_ps=packets.receiver_end_ps - packets.start_ps,
        at_once_ps=at_once.end_ps - at_once.start_ps,
        flow_end_ps=int(stored.end_ps.max()),
        packet_end_ps=int(packets.receiver_end_ps.max()),
        pauses=int(packets.links.pauses.sum()),
    )


def _unwatched(_: int) -> None:
    pass


def show(found: Iterable[Agreement], file: TextIO | None = None) -> None:
    """A row per scenario."""
    print_table(COLUMNS, map(_cells, found), numbers=COLUMNS[1:-1], file=file)


def _cells(found: Agreement) -> list[str]:
    means = (found.flow_ps.mean(), found.packet_ps.mean())
    ends = (found.flow_end_ps, found.packet_end_ps)
    return [
        found.scenario.name,
        str(len(found.flow_ps)),
        *(f"{mean / PS_PER_US:.2f}" for mean in means),
        *(f"{part:+.2%}" for part in (found.differ, found.differ_at_once)),
        *(f"{end / PS_PER_US:.2f}" for end in ends),
        f"{found.makespans_differ:+.2%}",
        str(found.pauses),
        found.verdict,
    ]


if __name__ == "__main__":
    raise SystemExit(main())
