"""Files of other simulators go in, completion times come out, and a mistake is one line."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

import runners.network
import runners.warm
from runners.network import main

STAR = """4 1 3
3
0 3 100Gbps 1000ns 0
1 3 100Gbps 1000ns 0
2 3 100Gbps 1000ns 0
"""
SERVERS = """5 2 1 2 3 H100
2 3 4
0 2 2880Gbps 0.000025ms 0
1 2 2880Gbps 0.000025ms 0
0 3 400Gbps 0.0005ms 0
"""
TREE = """Nodes 4
Tiers 2
Podsize 4
Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Downlink_Latency_ns 1000
"""
RING = "1 0 1 100000 0 -1\n2 1 2 100000 0 1\n3 2 0 100000 500 2\n"
STARTED = "2\n0 1 3 100 100000 0.0\n1 2 3 100 100000 0.000001\n"
MATRIX = """Nodes 4
Connections 2
Triggers 1
Failures 1
0->2 id 1 start 0 size 100000 send_done_trigger 1
2->3 id 2 trigger 1 size 100000
trigger id 1 oneshot
failure switch_type TOR switch_id 0 link_id 1
"""


def replayed(folder: Path, topology: str, flows: str, *words: str) -> list[dict[str, str]]:
    """The rows of the table that the command writes."""
    (folder / "net").write_text(topology)
    (folder / "ring.flows").write_text(flows)
    out = folder / "out.csv"
    assert main([f"topology={folder / 'net'}", f"flows={folder / 'ring.flows'}", f"out={out}", *words]) == 0
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("network", "fct_ns", "starts_ns", "makespan_us"),
    [
        ("flow", "10467.840", ["0", "10467.840", "21435.680"], "31.904"),  # a packet more, stored at the switch
        ("analytic", "10384", ["0", "10384", "21268"], "31.652"),
    ],
)
def test_completion_times_are_written(
    tmp_path: Path,
    network: str,
    fct_ns: str,
    starts_ns: list[str],
    makespan_us: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """100,000 bytes are 100 packets of 1048; 80 ps a byte, 1 us a link."""
    rows = replayed(tmp_path, STAR, RING, f"network={network}")

    assert list(rows[0]) == ["scenario", "simulator", "flow_id", "src", "dst", "bytes", "start_ns", "fct_ns"]
    assert [row["flow_id"] for row in rows] == ["1", "2", "3"]
    assert {row["simulator"] for row in rows} == {f"xsim-{network}"}
    assert {row["scenario"] for row in rows} == {"ring"}
    assert [row["start_ns"] for row in rows] == starts_ns
    assert [row["fct_ns"] for row in rows] == [fct_ns] * 3
    head, _, figures = capsys.readouterr().out.splitlines()
    assert head.replace(" ", "").startswith("|flows|mean_fct_us|p50_fct_us|p99_fct_us|max_fct_us|makespan_us|wall_s|")
    took_us = f"{float(fct_ns) / 1000:.3f}"
    assert figures.replace(" ", "").startswith(f"|3|{took_us}|{took_us}|{took_us}|{took_us}|{makespan_us}|")


def test_the_makespan_counts_from_the_first_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replayed(tmp_path, STAR, STARTED.replace("0.0", "2.0"), "network=analytic")

    assert capsys.readouterr().out.splitlines()[2].split("|")[6].strip() == "11.384"


def test_packets_end_with_their_last_acknowledgement(tmp_path: Path) -> None:
    """100 packets of 83 ns and one more behind them at the switch, then an acknowledgement of 4 ns: twice 2 us."""
    rows = replayed(tmp_path, STAR, RING)
    took_ns = 101 * 83 + 2 * 4 + 4000

    assert {row["simulator"] for row in rows} == {"xsim-packet-none1000"}
    assert [row["fct_ns"] for row in rows] == [str(took_ns)] * 3
    assert [row["start_ns"] for row in rows] == ["0", str(took_ns), str(2 * took_ns + 500)]


def test_packets_can_be_told_otherwise(tmp_path: Path) -> None:
    """To the last byte at the receiver, in picoseconds, without pauses, and under another congestion control. The
    second flow begins behind the acknowledgement of the first."""
    rows = replayed(tmp_path, STAR, RING, "completion=receiver", "exact=false", "network.flow_control=none")
    marked = replayed(tmp_path, STAR, STARTED, "congestion=dctcp", "congestion.least_mbps=100")

    assert [row["fct_ns"] for row in rows] == ["10467.840", "10472.640", "10467.840"]
    assert {row["simulator"] for row in marked} == {"xsim-packet-dctcp1000"}


@pytest.mark.parametrize("name", ["star3_incast2_1M", "ft16_ring8_1M"])
def test_the_reference_says_the_same(reference_data: Path, tmp_path: Path, name: str) -> None:
    folder = reference_data / "netref"
    out, topology = tmp_path / "out.csv", folder / "scenarios" / f"{name.partition('_')[0]}.hpcc"

    assert main([f"topology={topology}", f"flows={folder / 'scenarios' / f'{name}.flows'}", f"out={out}"]) == 0

    expected = (folder / f"hpcc_nocc1000_{name}.csv").read_text()
    assert out.read_text() == expected.replace("hpcc-ns3-nocc1000", "xsim-packet-none1000")


def test_packets_can_be_larger_and_headers_smaller(tmp_path: Path) -> None:
    """100,624 bytes and two links; the switch sends on what it has wholly: a packet of 724.160 ns later."""
    rows = replayed(tmp_path, STAR, RING, "payload=9000", "header=52", "network=flow")
    at_once = replayed(tmp_path, STAR, RING, "payload=9000", "header=52", "network=flow", "stored=false")

    assert [row["fct_ns"] for row in rows] == ["10774.080"] * 3
    assert [row["fct_ns"] for row in at_once] == ["10049.920"] * 3


def test_lone_flows_take_as_long_as_their_packets(tmp_path: Path) -> None:
    """On a star a flow of several packets and one of less than one, over links of unlike rates."""
    unlike = STAR.replace("100Gbps", "40Gbps", 1)
    flows = "1 0 1 100000 0 -1\n2 1 0 700 100000 -1\n3 1 2 0 0 -1\n"
    packets = replayed(tmp_path, unlike, flows, "payload=9000", "completion=receiver", "exact=false")
    stored = replayed(tmp_path, unlike, flows, "payload=9000", "network=flow")

    for own, among in zip(stored, packets, strict=True):
        assert abs(float(own["fct_ns"]) - float(among["fct_ns"])) <= 0.002


def test_what_is_seen_of_a_replay_is_in_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each flow has 100 packets of 1048 bytes and as many acknowledgements of 60."""
    tables = tmp_path / "tables"
    replayed(tmp_path, STAR, RING, f"tables={tables}", "sample=1us")

    shown = capsys.readouterr().out
    assert f"Tables of flows, links, completion, queues: {tables}\n" in shown
    assert f"Figure: {tables / 'figures' / 'queues.png'}\n" in shown
    assert (tables / "figures" / "queues.png").stat().st_size > 1000
    flows, links, completion, queues = (
        pq.read_table(tables / f"{name}.parquet") for name in ("flows", "links", "completion", "queues")
    )
    assert flows["flow"].to_pylist() == [1, 2, 3]
    assert flows["duration_ps"].to_pylist() == [12_391_000] * 3
    assert links["link"].to_pylist() == ["0->3", "3->0", "1->3", "3->1", "2->3", "3->2"]
    assert links["sent_bytes"].to_pylist() == [100 * (1048 + 60)] * 6
    assert links["packets"].to_pylist() == [200] * 6
    assert links["busy_ps"].to_pylist() == [100 * 87_000] * 6
    assert set(completion["duration_ps"].to_pylist()) == {12_391_000}
    assert sum(queues["sent_bytes"].to_pylist()) == 6 * 100 * (1048 + 60)
    for table in (flows, links, completion, queues):
        for field in table.schema:
            assert field.metadata[b"doc"], field.name
    assert queues.schema.field("queued_bytes").metadata[b"unit"] == b"B"


def test_a_replay_without_packets_has_tables_of_transfers(tmp_path: Path) -> None:
    replayed(tmp_path, STAR, RING, f"tables={tmp_path / 'tables'}", "network=flow")

    links = pq.read_table(tmp_path / "tables" / "links.parquet")
    assert links["carried_bytes"].to_pylist() == [104_800] * 6
    assert "packets" not in links.column_names
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        "completion.parquet",
        "flows.parquet",
        "links.parquet",
    ]


def test_a_long_replay_of_packets_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runners.network, "QUIET_S", 0.0)
    monkeypatch.setattr(runners.network, "LINE_EVERY_S", 0.0)

    replayed(tmp_path, STAR, RING)

    lines = [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == "0 of 3 flows done, 1 us simulated"
    assert lines[-1] == "3 of 3 flows done, 38 us simulated"


def test_compiling_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Once, and only where something is compiled."""
    monkeypatch.setattr(runners.warm, "QUIET_S", 0.001)
    misses = {"before": 1}
    monkeypatch.setattr("xsim.sim.kernels.packet.run", Mock(stats=Mock(cache_misses=misses)))
    for found in ({}, {"signature": 1}, {}):
        with runners.warm.announced() as passed_s:
            misses |= found
            time.sleep(0.1)
        assert passed_s() >= 0.1

    assert capsys.readouterr().err == "compiling the packet simulation, once\n"


def test_waiting_for_another_process_that_compiles_is_announced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.warm.QUIET_S", 0.01)
    monkeypatch.setattr("xsim.sim.kernels.turn.waits", lambda: True)
    with runners.warm.announced() as passed_s:
        while passed_s() < 0.1:
            time.sleep(0.01)

    assert capsys.readouterr().err == "another process compiles simulations, which takes a while; waiting for it\n"


def test_every_format_is_recognised(tmp_path: Path) -> None:
    started = replayed(tmp_path, STAR, STARTED, "network=flow")
    tree = replayed(tmp_path, TREE, MATRIX, "network=flow")
    servers = replayed(tmp_path, SERVERS, "1 0 1 360000 0 -1\n", "network=flow", "header=0")

    assert [row["start_ns"] for row in started] == ["0", "1000"]
    behind_ns = f"{103 * 83.84 + 4000:.3f}"  # 100 packets of 83.84 ns, the last of them sent by three more switches
    assert [(row["flow_id"], row["start_ns"]) for row in tree] == [("1", "0"), ("2", behind_ns)]
    assert [row["fct_ns"] for row in servers] == ["1052.497"]  # 361 packets of 2777 ps


def test_a_format_can_be_named(tmp_path: Path) -> None:
    rows = replayed(tmp_path, STAR, "# no word of this is read\n" + RING, "format=plain", "network=analytic")

    assert len(rows) == 3


def test_the_same_is_written_again(tmp_path: Path) -> None:
    replayed(tmp_path, STAR, RING)
    first = (tmp_path / "out.csv").read_bytes()
    replayed(tmp_path, STAR, RING)

    assert (tmp_path / "out.csv").read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net", "out.csv", "ring.flows"]


def test_an_empty_list_has_an_empty_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replayed(tmp_path, STAR, "# nothing\n", "format=plain", "network=flow") == []
    assert capsys.readouterr().out == "no flows\n"


def test_classes_and_marks_of_packets_are_set(tmp_path: Path) -> None:
    """Two flows to one host: both end together, or that of the smaller class first; marks slow both down."""
    flows = "1 0 2 400000 0 -1 5\n2 1 2 400000 0 -1 4\n"

    def ends(*words: str, listed: str = flows) -> list[int]:
        return [int(row["fct_ns"]) for row in replayed(tmp_path, STAR, listed, *words)]

    in_turn, strict, marked = (
        ends(),
        ends("network.class_order=strict"),
        ends("congestion=dctcp", "network.ecn=1Gbps:2KB:2KB:1"),
    )
    assert abs(in_turn[0] - in_turn[1]) < 200
    assert strict[1] < 0.6 * in_turn[1]
    assert strict[0] == max(in_turn)
    assert min(marked) > 1.1 * max(ends("congestion=dctcp", "network.ecn=none"))
    assert ends(listed=flows.replace(" 5\n", "\n").replace(" 4\n", "\n"))[0] != strict[0]


def test_a_long_replay_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runners.network, "QUIET_S", 0.0)
    monkeypatch.setattr(runners.network, "LINE_EVERY_S", 0.0)

    replayed(tmp_path, STAR, RING, "network=analytic")

    assert [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()] == [
        f"{count} of 3 flows done" for count in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: topology = None: it is missing; write topology=FILE"),
        (["topology=net"], "error: flows = None: it is missing; write flows=FILE"),
        (["topology=net", "flows=nowhere"], "error: flows = 'nowhere': there is no such file"),
        (["topology=.", "flows=ring"], "error: topology = '.': there is no such file"),
        (["topology=image", "flows=ring"], "error: topology = 'image': it is not text"),
        (["topology=net", "flows=net"], "error: net line 1 = '4 1 3': no list of flows begins like this"),
        (["topology=long", "flows=ring"], "error: long line 1 = '1 0 1 100000': no topology begins like this"),
        (
            ["topology=net", "flows=matrix"],
            "error: topology = 'net': the flows say which links of an htsim topology are",
        ),
        (["topology=words", "flows=ring"], "error: words line 1 = 'Dear reader,': no topology begins like this; begin"),
        (["topology=net", "flows=words"], "error: words line 1 = 'Dear reader,': no list of flows begins like this;"),
        (
            ["topology=net", "flows=classes", "network=flow"],
            "error: flows = 'classes': flows are of the classes 1, 3, and this network serves all alike; write one",
        ),
        (["topology=net", "flows=ring", "format=hpcc"], "error: ring line 1 = '1 0 1 100000 0 -1': the first line is"),
        (["topology=net", "flows=ring", "format=ns3"], "error: format = 'ns3': there is no such option; choose one of"),
        (["topology=net", "flows=loop"], "error: loop flow 1 after = 2: it waits for its own end"),
        (["topology=net", "flows=far"], "error: far flow 4 = 9: it is no host: there are 4 vertices"),
        (
            ["topology=net", "flows=ring", "congestion=bbr"],
            "error: congestion = 'bbr': there is no such option",
        ),
        (
            ["topology=net", "flows=ring", "congestion.gain=0.5"],
            "error: congestion.gain = 0.5: none has no such",
        ),
        (
            ["topology=net", "flows=ring", "congestion=timely", "congestion.low_ns=600000"],
            "error: congestion.low_ns = 600000: it is above high_ns = 500000; choose a shorter trip",
        ),
        (
            ["topology=net", "flows=ring", "congestion=hpcc", "congestion.stages=-1"],
            "error: congestion.stages = -1: it is negative; choose at least 0",
        ),
        (
            ["topology=net", "flows=ring", "congestion=dcqcn", "congestion.step_mbps=-5"],
            "error: congestion.step_mbps = -5: it is negative; choose at least 0",
        ),
        (["topology=net", "flows=ring", "network.retry_ps=9"], "error: network.retry_ps = 9: it is less than a tick"),
        (["topology=net", "flows=ring", "header=0"], "error: header = 0: it is not positive; choose at least 1"),
        (
            ["topology=net", "flows=ring", "network.buffer_bytes=1"],
            "error: network.buffer_bytes = 1: a switch holds at",
        ),
        (
            ["topology=net", "flows=ring", "network.buffer_bytes=9000"],
            "error: network.buffer_bytes = 9000: the ports of switch 3 alone keep more, as their headroom and reserve;",
        ),
        (
            ["topology=net", "flows=ring", "payload=9000", "network.credit_bytes=9000"],
            "error: network.credit_bytes = 9000: a packet would never have room; choose at least 9048",
        ),
        (
            ["topology=net", "flows=ring", "network.flow_control=pfc"],
            "error: network.flow_control = 'pfc': this option does not",
        ),
        (["topology=net", "flows=ring", "network.seed=2"], "error: network.seed = 2: it is no option of its own"),
        (["topology=net", "flows=ring", "exact=1"], "error: exact = '1': there is no such option; choose one of true"),
        (["topology=net", "flows=ring", "network=flow", "exact=true"], "error: exact = 'true': network=flow knows no"),
        (
            ["topology=lossy", "flows=ring"],
            "error: flows = (1,): packets were lost that nobody asks for again, on 0->3, ",
        ),
        (
            ["topology=lossy", "flows=ring", "network=flow"],
            "error: topology = 'lossy': the cable 0 - 3 loses packets, and this network knows none; set its error to 0",
        ),
        (
            ["topology=net", "flows=ring", "network=udp"],
            "error: network = 'udp': there is no such option; choose one of analytic, flow, packet",
        ),
        (
            ["topology=net", "flows=ring", "network.credit_bytes=9000"],
            "error: network.credit_bytes = 9000: with flow_control=pause no link works by credit; leave it out, or set",
        ),
        (
            ["topology=net", "flows=ring", "network.flow_control=credit", "network.headroom=2"],
            "error: network.headroom = 2: with flow_control=credit each link has a buffer of its own; leave it out, or",
        ),
        (
            ["topology=net", "flows=ring", "congestion=ndp", "network.buffer_bytes=99999999"],
            "error: network.buffer_bytes = 99999999: switches that cut packets neither pause anybody nor mark nor lose",
        ),
        (
            ["topology=net", "flows=ring", "network.routing=spray", "network.fast_forward=true"],
            "error: network.fast_forward = True: with these options every packet is simulated; leave it out, or choose",
        ),
        (["topology=net", "flows=ring", "network.retries=3"], "error: network.retries = 3: without retry_ps no sender"),
        (["topology=net", "flows=ring", "network.ecn=10Gbps"], "error: network.ecn = 10Gbps: it does not say how a"),
        (["topology=net", "flows=ring", "network.classes=1"], "error: network.classes = 1: it is no option of its own"),
        (
            ["topology=net", "flows=ring", "network.class_order=fair"],
            "error: network.class_order = 'fair': this option does",
        ),
        (
            ["topology=net", "flows=ring", "tables=there", "sample=1ps", "exact=false"],
            "error: sample = 1 ps: links are looked at no more often than each ns; choose at least 1 ns, better 1 us",
        ),
        (
            ["topology=net", "flows=ring", "out=x.parquet"],
            "error: out = 'x.parquet': what is written there is CSV;",
        ),
        (["topology=net", "flows=ring", "network.retries=1" + 20 * "0"], "error: network.retries = 1"),
        (["topology=tree", "flows=barrier"], "error: barrier flow 3 = 'after 2 others': among packets, a flow waits"),
        (
            ["topology=tree", "flows=received"],
            "error: completion = 'sender': the flows wait for last bytes at",
        ),
        (["topology=net", "flows=ring", "network=fluid"], "error: network = 'fluid': there is no such option"),
        (
            ["topology=net", "flows=ring", "network=flow", "network.reuse=1"],
            "error: network.reuse = 1: this option does",
        ),
        (
            ["topology=net", "flows=ring", "network=flow", "network.fast=1"],
            "error: network.fast = 1: flow has no such",
        ),
        (
            ["topology=net", "flows=ring", "network=flow", "network.payload_bytes=1"],
            "error: network.payload_bytes = 1: it is no option of its own; --help lists the keys",
        ),
        (["topology=net", "flows=ring", "stored=false"], "error: stored = 'false': network=packet always stores them"),
        (
            ["topology=net", "flows=ring", "network=analytic", "stored=true"],
            "error: stored = 'true': network=analytic stores nothing; leave it out, or use network=flow",
        ),
        (["topology=net", "flows=ring", "network=flow", "stored=1"], "error: stored = '1': there is no such option;"),
        (["topology=net", "flows=ring", "payload=0"], "error: payload = '0': it is no whole number from 1 to"),
        (["topology=net", "flows=ring", "seed=-1"], "error: seed = '-1': it is no whole number from 0 to"),
        (
            ["topology=net", "flows=ring", "topologie=x"],
            "error: command line = 'topologie=x': there is no such key; did",
        ),
        (["topology=net", "flows=ring", "seed"], "error: command line = 'seed': it cannot be read; write key=value"),
        (["topology=net", "flows=ring", "seed=1", "seed=2"], "error: seed = '2': it is set twice; set it once"),
        (["topology=net", "flows=ring", "--fast"], "error: command line = "),
        (["topology=net", "flows=ring", "out=no/out.csv"], "error: out = 'no/out.csv': its folder does not exist"),
        (["topology=net", "flows=ring", "out=."], "error: out = '.': it is a folder"),
        (["topology=net", "flows=ring", "out=/proc/out.csv"], "error: out = '/proc': No such file or directory; name"),
        (["topology=net", "flows=ring", "sample=1us"], "error: sample = 1us: what is noted is not written; write"),
        (["topology=net", "flows=ring", "sample=1", "tables=t"], "error: sample = '1': a quantity needs its unit"),
        (
            ["topology=net", "flows=ring", "sample=2ps", "tables=t"],
            "error: sample = 2 ps: it is no whole number of",
        ),
        (["topology=net", "flows=ring", "sample=1us", "tables=t", "network=flow"], "error: sample = 1us: network=flow"),
        (["topology=net", "flows=ring", "tables=ring"], "error: tables = 'ring': Not a directory; name a place"),
        (["topology=net", "flows=ring", "out=ring"], "error: out = 'ring': it is read too; choose another file"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"net": STAR, "ring": RING, "matrix": MATRIX, "long": "1 0 1 100000\n"}
    barrier = "0->1 id 1 start 0 size 9 send_done_trigger 1\n1->2 id 2 start 0 size 9 send_done_trigger 1\n"
    barrier += "2->3 id 3 trigger 1 size 9\ntrigger id 1 barrier count 2\n"
    files["lossy"] = STAR.replace("1000ns 0", "1000ns 0.5")
    files |= {"tree": TREE, "barrier": f"Nodes 4\nConnections 3\nTriggers 1\n{barrier}"}
    files |= {"received": MATRIX.replace("send_done", "recv_done")}
    files |= {"words": "Dear reader,\nthis is a letter.\n", "classes": RING.replace("-1", "-1 1")}
    files |= {"loop": "1 0 1 1 0 2\n2 1 0 1 0 1\n", "far": RING + "4 0 9 1 0 -1\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "image").write_bytes(b"\xff\xd8\xff")
    monkeypatch.chdir(tmp_path)

    assert main([*words, "out=out.csv"] if not any(word.startswith("out=") for word in words) else words) == 2

    said = capsys.readouterr()
    assert said.err.startswith(message)
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*files, "image"])
    assert (tmp_path / "ring").read_text() == RING


def test_the_help_lists_all_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    shown = capsys.readouterr().out
    for key in ("topology", "flows", "out", "format", "network", "payload", "header", "seed", "congestion", "exact"):
        assert f"\n  {key}: " in shown
    assert "network.reuse=true" in shown


def test_packets_take_the_paths_that_they_are_told_to(tmp_path: Path) -> None:
    """Both flows leave the first leaf by one spine, or share two."""
    flows = "1 0 2 100000 0 -1\n2 1 3 100000 0 -1\n"

    hashed = replayed(tmp_path, TREE, flows, "completion=receiver")
    spread = replayed(tmp_path, TREE, flows, "network.routing=spray", "completion=receiver")

    assert [int(float(row["fct_ns"])) for row in spread] < [int(float(row["fct_ns"])) for row in hashed]
