"""Files of other simulators go in, completion times come out, and a mistake is one line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import runners.network
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


@pytest.mark.parametrize("network", ["flow", "analytic"])
def test_completion_times_are_written(tmp_path: Path, network: str, capsys: pytest.CaptureFixture[str]) -> None:
    """100,000 bytes are 100 packets of 1048; 80 ps a byte, 1 us a link."""
    rows = replayed(tmp_path, STAR, RING, f"network={network}")

    assert list(rows[0]) == ["scenario", "simulator", "flow_id", "src", "dst", "bytes", "start_ns", "fct_ns"]
    assert [row["flow_id"] for row in rows] == ["1", "2", "3"]
    assert {row["simulator"] for row in rows} == {f"xsim-{network}"}
    assert {row["scenario"] for row in rows} == {"ring"}
    assert [row["start_ns"] for row in rows] == ["0", "10384", "21268"]
    assert [row["fct_ns"] for row in rows] == ["10384"] * 3
    head, _, figures = capsys.readouterr().out.splitlines()
    assert head.replace(" ", "").startswith("|flows|mean_fct_us|p50_fct_us|p99_fct_us|max_fct_us|makespan_us|wall_s|")
    assert figures.replace(" ", "").startswith("|3|10.384|10.384|10.384|10.384|31.652|")


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
    rows = replayed(tmp_path, STAR, RING, "payload=9000", "header=52", "network=flow")

    assert rows[0]["fct_ns"] == "10049.920"  # 100,624 bytes and two links


def test_a_long_replay_of_packets_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runners.network, "SAID_HOPS", 10**5)

    replayed(tmp_path, STAR, "0 0 1 1000000000 0 -1\n", "payload=9000")

    assert capsys.readouterr().err == "simulating 0 million hops of packets\n"


def test_every_format_is_recognised(tmp_path: Path) -> None:
    started = replayed(tmp_path, STAR, STARTED, "network=flow")
    tree = replayed(tmp_path, TREE, MATRIX, "network=flow")
    servers = replayed(tmp_path, SERVERS, "1 0 1 360000 0 -1\n", "network=flow", "header=0")

    assert [row["start_ns"] for row in started] == ["0", "1000"]
    assert [(row["flow_id"], row["start_ns"]) for row in tree] == [("1", "0"), ("2", "12384")]
    assert [row["fct_ns"] for row in servers] == ["1050"]


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
        (
            ["topology=net", "flows=ring", "network.flow_control=pfc"],
            "error: network.flow_control = 'pfc': this option does not",
        ),
        (["topology=net", "flows=ring", "network.seed=2"], "error: network.seed = 2: it is no option of its own"),
        (["topology=net", "flows=ring", "exact=1"], "error: exact = '1': there is no such option; choose one of true"),
        (["topology=net", "flows=ring", "network=flow", "exact=true"], "error: exact = 'true': network=flow knows no"),
        (
            ["topology=lossy", "flows=ring"],
            "error: flows = (0, 1, 2): packets were lost that nobody asks for again; set",
        ),
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
