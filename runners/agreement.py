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
from xsim.fabric.graph import Graph
from xsim.fabric.hashed_paths import Paths, paths_of
from xsim.families import build
from xsim.sim.packets.replay import replay as replay_packets
from xsim.sim.packets.settings import Settings
from xsim.sim.replay import as_packets, replay

__all__ = ["Agreement", "agreement", "alone_ps", "main", "show"]

Ints = NDArray[np.int64]
SETTINGS = Settings(payload_bytes=9000, completion="receiver")
PS_PER_US = 10**6
BITS_TO_PS = 8 * 10**12
COLUMNS = (
    *("scenario", "flows", "flow [us]", "packet [us]", "flow is", "stored", "rest"),
    *("last: flow", "last: packet", "flow ends", "pauses"),
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
        stored_ps: What packets take longer than flows if each flow is alone: they are stored on the way, N.
        flow_end_ps, packet_end_ps: When all is over.
        pauses: How often switches paused their neighbours.
    """

    scenario: Scenario
    flow_ps: Ints
    packet_ps: Ints
    stored_ps: Ints
    flow_end_ps: int
    packet_end_ps: int
    pauses: int

    @property
    def differ(self) -> float:
        """How much longer flow takes, on the mean."""
        return float(self.flow_ps.mean() / self.packet_ps.mean() - 1)

    @property
    def rest(self) -> float:
        """The same, if a flow took as much longer as packets do alone."""
        return float((self.flow_ps + self.stored_ps).mean() / self.packet_ps.mean() - 1)

    @property
    def makespans_differ(self) -> float:
        """How much later flow ends."""
        return self.flow_end_ps / self.packet_end_ps - 1


def agreement(scenario: Scenario) -> Agreement:
    """Replay it on both, without congestion control; a flow that waits for another starts at that one's last byte."""
    graph, flows = scenario.graph, scenario.flows
    there, back = paths_of(graph, flows, frozenset())
    packets = replay_packets(graph, as_packets(flows, there, back), SETTINGS)
    wire_bytes = flows.size_bytes + -(-flows.size_bytes // SETTINGS.payload_bytes) * SETTINGS.header_bytes
    shared = replay(graph, flows, there, wire_bytes, build("network", {"name": "flow"}), 0, lambda _: None)
    apart = replay(graph, flows, there, wire_bytes, build("network", {"name": "analytic"}), 0, lambda _: None)
    alone = [alone_ps(graph, there, row, int(size)) for row, size in enumerate(flows.size_bytes)]
    return Agreement(
        scenario=scenario,
        flow_ps=shared.end_ps - shared.start_ps,
        packet_ps=packets.receiver_end_ps - packets.start_ps,
        stored_ps=np.array(alone) - (apart.end_ps - apart.start_ps),
        flow_end_ps=int(shared.end_ps.max()),
        packet_end_ps=int(packets.receiver_end_ps.max()),
        pauses=int(packets.links.pauses.sum()),
    )


def show(found: Iterable[Agreement], file: TextIO | None = None) -> None:
    """A row per scenario."""
    print_table(COLUMNS, map(_cells, found), numbers=COLUMNS[1:], file=file)


def alone_ps(graph: Graph, paths: Paths, row: int, size_bytes: int) -> int:
    """When the last byte of a flow that nobody disturbs is at its receiver: each link sends what it has wholly."""
    whole, rest = divmod(size_bytes, SETTINGS.payload_bytes)
    sizes = np.array([SETTINGS.payload_bytes] * whole + [rest] * bool(rest)) + SETTINGS.header_bytes
    at = np.zeros(len(sizes), dtype=np.int64)
    for link in paths.links[paths.ptr[row] : paths.ptr[row + 1]].tolist():
        cable = graph.cables[link // 2]
        sending = sizes * BITS_TO_PS // cable.bandwidth_bits_per_s
        sent = np.cumsum(sending)
        at = np.maximum.accumulate(at - (sent - sending)) + sent + cable.delay_ps
    return int(at[-1])


def _cells(found: Agreement) -> list[str]:
    means = (found.flow_ps.mean(), found.packet_ps.mean())
    parts = (found.differ, found.rest - found.differ, found.rest)
    ends = (found.flow_end_ps, found.packet_end_ps)
    return [
        found.scenario.name,
        str(len(found.flow_ps)),
        *(f"{mean / PS_PER_US:.2f}" for mean in means),
        *(f"{part:+.2%}" for part in parts),
        *(f"{end / PS_PER_US:.2f}" for end in ends),
        f"{found.makespans_differ:+.2%}",
        str(found.pauses),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
