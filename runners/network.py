"""Replay a list of flows, as other simulators read them, on a network.

python -m runners.network topology=ft16.hpcc flows=ring.flows out=ring.csv
python -m runners.network topology=ft16.hpcc flows=ring.flows network=flow
python -m runners.network topology=ft16.hpcc flows=ring.flows tables=ring sample=1us
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from analysis.command import Parser, exits, tell
from analysis.screen import counted, print_table
from xsim.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from runners.foreign import Wires
    from runners.replay_options import Options
    from runners.replay_tables import Times
    from xsim.fabric.flows import FlowList
    from xsim.fabric.graph import Graph
    from xsim.fabric.hashed_paths import Paths
    from xsim.sim.contracts import NetworkBackend
    from xsim.sim.packets.flows import Flows
    from xsim.sim.packets.settings import Settings

__all__ = ["main"]

QUIET_S = 2.0  # what is over by then says nothing on its way
LINE_EVERY_S = 5.0
PS_PER_NS = 1000
PS_PER_US = 10**6
CSV_COLUMNS = ("scenario", "simulator", "flow_id", "src", "dst", "bytes", "start_ns", "fct_ns")


@exits
def main(argv: Sequence[str]) -> int:
    """Write what was asked for, and print a summary."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False)
    parser.add_argument("words", nargs="*", metavar="key=value")
    parser.add_argument("--help", "-h", action="store_true", help="this page")
    given = parser.parse_intermixed_args(argv)
    from runners.replay_options import epilog, read_options

    if given.help:
        parser.epilog = epilog()
        parser.print_help()
        return 0
    options = read_options(given.words)
    graph, flows, found, wall_s = _replayed(options)
    if options.out is not None:
        from runners.whole_files import write_whole

        write_whole(options.out, _csv(options, flows, found).encode())
    _summarise(found, wall_s)
    if options.out is not None:
        print(f"Completion time of each flow: {options.out}")
    if options.tables is not None:
        _tabulate(options.tables, graph, flows, found)
    return 0


def _check_lossless(options: Options, graph: Graph) -> None:
    for cable in graph.cables:
        if cable.loss:
            problem = f"the cable {cable.a} - {cable.b} loses packets, and this network knows none"
            raise SpecError("topology", options.topology.name, problem, "set its error to 0, or use network=packet")


def _check_one_class(options: Options, flows: FlowList) -> None:
    classes = np.unique(flows.classes)
    if len(classes) > 1:
        problem = f"flows are of the classes {', '.join(map(str, classes))}, and this network serves all alike"
        raise SpecError("flows", options.flows.name, problem, "write one class for all, or use network=packet")


def _replayed(options: Options) -> tuple[Graph, FlowList, Times, float]:
    """What was read, how it went, and the seconds in which ways were found and all was simulated."""
    from runners.foreign import named, read_flows, read_topology
    from runners.hard_work import check_work
    from runners.lasting import check_ends, check_lasting
    from runners.warm import warm, warm_packets
    from xsim.fabric.hashed_paths import paths_of
    from xsim.sim.packets.settings import Settings
    from xsim.sim.replay import as_packets

    listed = read_flows(options.flows, options.format)
    wires, flows = read_topology(options.topology, listed.failures), listed.flows
    started_s = time.perf_counter()
    with named(options.flows.name):
        there, back = paths_of(wires.graph, flows, wires.nvswitches)
        check_lasting(wires.graph, flows, there)
    if isinstance(options.model, Settings):
        with named(options.flows.name):
            packets = _with_ways(as_packets(flows, there, back), wires, there, options.model)
        _check_order(options.model, flows)
        _check_completion(options.model, flows)
        check_work(wires.graph, flows, there, options.model)
        started_s += warm_packets(options.model)
        found = _packet_by_packet(options.model, wires, packets)
    else:
        _check_lossless(options, wires.graph)
        _check_one_class(options, flows)
        started_s += warm(options.model)
        found = _transfer_by_transfer(options, options.model, wires.graph, flows, there)
    with named(options.flows.name):
        check_ends(flows, found.start_ps, found.end_ps)
    return wires.graph, flows, found, time.perf_counter() - started_s


def _with_ways(packets: Flows, wires: Wires, hashed: Paths, settings: Settings) -> Flows:
    """With all the paths that they may take, if these are asked for."""
    from xsim.fabric.equal_paths import path_sets
    from xsim.sim.packets.ways import sample

    if settings.routing == "hash":
        return packets
    found = path_sets(wires.graph, hashed, packets.dst, wires.nvswitches, sample)
    return replace(packets, ways=found.sets, ways_of=found.of_flow)


def _check_order(settings: Settings, flows: FlowList) -> None:
    """Refuse an order of classes, which nobody sets but on purpose, where there is one."""
    from xsim.sim.packets.unused import check_used

    if settings.class_order == "strict" and len(flows):
        classes = tuple(np.unique(flows.classes).tolist())
        try:
            check_used(replace(settings, classes=classes), {"class_order": settings.class_order})
        except SpecError as error:
            raise error.under("network") from None


def _check_completion(settings: Settings, flows: FlowList) -> None:
    if len(flows.after) and flows.awaited == "receiver" and settings.completion == "sender":
        problem = "the flows wait for last bytes at receivers"
        raise SpecError("completion", settings.completion, problem, "write completion=receiver")


def _packet_by_packet(settings: Settings, wires: Wires, flows: Flows) -> Times:
    from runners.replay_tables import Times
    from xsim.sim.packets.replay import replay

    watch = _Watch(len(flows.src))
    found = replay(wires.graph, flows, settings, lambda now_ps, ended: watch.show(ended, now_ps), wires.nvswitches)
    return Times(
        start_ps=found.start_ps,
        end_ps=found.sender_end_ps if settings.completion == "sender" else found.receiver_end_ps,
        busy_ps=found.busy_ps,
        go_backs=found.go_backs,
        counts=found.links,
        samples=found.samples,
    )


def _transfer_by_transfer(
    options: Options, model: NetworkBackend, graph: Graph, flows: FlowList, there: Paths
) -> Times:
    from runners.replay_tables import Times
    from xsim.sim.replay import replay, stored_ps

    payload, header = options.payload_bytes, options.header_bytes
    wire_bytes = flows.size_bytes + -(-flows.size_bytes // payload) * header
    delay_ps = stored_ps(graph, flows, there, payload, header) if options.stored else None
    found = replay(graph, flows, there, wire_bytes, model, options.seed, _Watch(len(flows)).show, delay_ps)
    return Times(found.start_ps, found.end_ps, found.stats.link_busy_ps, found.stats.link_bytes)


@dataclass(slots=True)
class _Watch:
    """Says on stderr how far a long replay is."""

    total: int
    started_s: float = field(default_factory=time.monotonic)
    next_s: float = field(default_factory=lambda: QUIET_S)

    def show(self, ended: int, now_ps: int | None = None) -> None:
        """So many flows have ended, by this instant."""
        passed_s = time.monotonic() - self.started_s
        if passed_s >= self.next_s:
            self.next_s = passed_s + LINE_EVERY_S
            instant = "" if now_ps is None else f", {now_ps / PS_PER_US:.0f} us simulated"
            tell(f"[{passed_s:6.1f} s] {ended} of {counted(self.total, 'flow')} done{instant}")


def _csv(options: Options, flows: FlowList, found: Times) -> str:
    """A line per flow, in the order of the list."""
    columns = (flows.number, flows.src, flows.dst, flows.size_bytes, found.start_ps, found.took_ps)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for *said, start_ps, took_ps in zip(*(own.tolist() for own in columns), strict=True):
        writer.writerow([options.flows.stem, options.simulator, *said, _ns(start_ps), _ns(took_ps)])
    return text.getvalue()


def _ns(time_ps: int) -> str:
    whole, rest = divmod(time_ps, PS_PER_NS)
    return f"{whole}.{rest:03}" if rest else f"{whole}"


def _summarise(found: Times, wall_s: float) -> None:
    took_ps = found.took_ps
    names = ("flows", "mean_fct_us", "p50_fct_us", "p99_fct_us", "max_fct_us", "makespan_us", "wall_s")
    if not len(took_ps):
        print("no flows")
        return
    figures = (took_ps.mean(), _part(took_ps, 0.5), _part(took_ps, 0.99), took_ps.max(), found.makespan_ps)
    print_table(names, [[str(len(took_ps)), *(f"{x / PS_PER_US:.3f}" for x in figures), f"{wall_s:.2f}"]], names)


def _tabulate(folder: Path, graph: Graph, flows: FlowList, found: Times) -> None:
    """Tables, and if queues were noted, their figure."""
    from runners.detail import write_tables
    from runners.replay_tables import tables_of

    tables = tables_of(graph, flows, found)
    write_tables(folder, tables)
    print(f"Tables of {', '.join(tables)}: {folder}")
    if "queues" in tables:
        from analysis.queues import draw

        print(f"Figure: {draw(folder)}")


def _part(values: NDArray[np.int64], share: float) -> int:
    """The smallest of ``values`` that is not exceeded by this share of them."""
    return int(np.quantile(values, share, method="inverted_cdf"))


if __name__ == "__main__":
    raise SystemExit(main())
