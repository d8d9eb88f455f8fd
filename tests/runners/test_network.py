"""Files of other simulators go in, and completion times come out."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runners.network import main
from tests.runners.replays import MATRIX, RING, SERVERS, STAR, STARTED, TREE, replayed


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
    head, _, figures, written = capsys.readouterr().out.splitlines()
    assert written == f"Completion time of each flow: {tmp_path / 'out.csv'}"
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
    assert capsys.readouterr().out.startswith("no flows\n")


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


def test_packets_take_the_paths_that_they_are_told_to(tmp_path: Path) -> None:
    """Both flows leave the first leaf by one spine, or share two."""
    flows = "1 0 2 100000 0 -1\n2 1 3 100000 0 -1\n"

    hashed = replayed(tmp_path, TREE, flows, "completion=receiver")
    spread = replayed(tmp_path, TREE, flows, "network.routing=spray", "completion=receiver")

    assert [int(float(row["fct_ns"])) for row in spread] < [int(float(row["fct_ns"])) for row in hashed]
