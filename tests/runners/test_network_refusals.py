"""A replay that cannot be is one line, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.network import main
from tests.runners.replays import MATRIX, RING, STAR, TREE


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: topology = None: it is missing; write topology=FILE"),
        (["topology=net"], "error: flows = None: it is missing; write flows=FILE"),
        (["topology=net", "flows=nowhere"], "error: flows = 'nowhere': there is no such file"),
        (["topology=.", "flows=ring"], "error: topology = '.': it is a folder; write the path"),
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
        (["topology=/dev/zero", "flows=ring"], "error: topology = '/dev/zero': it is no regular file; write the path"),
        (["topology=net", "flows=/dev/zero"], "error: flows = '/dev/zero': it is no regular file; write the path"),
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
