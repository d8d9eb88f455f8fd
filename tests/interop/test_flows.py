"""Flow files of other simulators, read, and written again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop.examples import barriers, chains, columns
from xsim.errors import SpecError
from xsim.fabric.flows import FlowList
from xsim.interop import flows as plain
from xsim.interop import hpcc, htsim

PLAIN = """# id src dst bytes start_ns dep
1 0 1 125000 0 -1
2 1 2 125000 0.5 1
7 3 0 9 1000 -1
"""
HPCC = """2
0 1 3 100 1000000 2.0
3 1 3 5000 200 2.000000001
"""
MATRIX = """Nodes 4
Connections 5
Triggers 2
Failures 1
0->1 id 3 start 2000 size 100 send_done_trigger 1
0->2 id 4 trigger 1 size 200 send_done_trigger 2
3->2 id 6 start 0 size 300 send_done_trigger 2
1->2 id 7 trigger 2 size 400
1->3 trigger 2 size 500
trigger id 1 oneshot
trigger id 2 barrier count 2
failure switch_type AGG switch_id 0 link_id 3
"""
MULTISHOT = """Nodes 3
Connections 3
Triggers 1
1->2 id 2 trigger 5 size 1 recv_done_trigger 5
0->1 id 1 start 0 size 1 recv_done_trigger 5
2->0 id 3 trigger 5 size 1
trigger id 5 multishot
"""


def waits(flows: FlowList) -> dict[int, list[int]]:
    """By their numbers, what each flow waits for."""
    return {int(own): flows.number[flows.awaits(row)].tolist() for row, own in enumerate(flows.number.tolist())}


def test_the_plain_form() -> None:
    flows = plain.read_flows(PLAIN)

    assert waits(flows) == {1: [], 2: [1], 7: []}
    assert (flows.src.tolist(), flows.dst.tolist()) == ([0, 1, 3], [1, 2, 0])
    assert flows.start_ps.tolist() == [0, 500, 1_000_000]
    assert flows.size_bytes.tolist() == [125000, 125000, 9]
    assert flows.classes.tolist() == [3, 3, 3]


def test_every_format_says_to_which_class_a_flow_belongs() -> None:
    """As a seventh word, as ``pg`` and as ``prio``; what says nothing is in class 3."""
    classes = (
        plain.read_flows(PLAIN.replace("0.5 1", "0.5 1 0")).classes.tolist(),
        hpcc.read_flows(HPCC.replace("3 1 3", "3 1 7")).classes.tolist(),
        htsim.read_matrix(MATRIX.replace("size 300", "prio 0 size 300")).flows.classes.tolist(),
    )
    assert classes == ([3, 0, 3], [3, 7], [3, 3, 0, 3, 3])


def test_a_flow_file_of_hpcc() -> None:
    flows = hpcc.read_flows(HPCC)

    assert (flows.number.tolist(), flows.src.tolist(), flows.dst.tolist()) == ([1, 2], [0, 3], [1, 1])
    assert flows.start_ps.tolist() == [2_000_000_000_000, 2_000_000_001_000]
    assert (flows.size_bytes.tolist(), flows.port.tolist()) == ([1000000, 200], [100, 5000])


def test_a_matrix_of_htsim() -> None:
    """Trigger 1 has one flow to wait for, trigger 2 two; the fifth connection has no id and takes its place."""
    matrix = htsim.read_matrix(MATRIX)

    assert matrix.nodes == 4
    assert waits(matrix.flows) == {3: [], 4: [3], 6: [], 7: [4, 6], 5: [4, 6]}
    assert matrix.failures == (htsim.Failure("AGG", 0, 3),)


def test_a_multishot_starts_one_flow_after_the_other() -> None:
    flows = htsim.read_matrix(MULTISHOT).flows

    assert waits(flows) == {1: [], 2: [1], 3: [2]}
    assert flows.awaited == "receiver"


@given(chains())
def test_what_is_written_plainly_reads_the_same(flows: FlowList) -> None:
    assert columns(plain.read_flows(plain.write_flows(flows))) == columns(flows)


@given(chains())
def test_what_is_written_for_hpcc_is_the_same_by_start(flows: FlowList) -> None:
    count = len(flows)
    free = replace(flows, after_ptr=np.zeros(count + 1, dtype=np.int64), after=np.zeros(0, dtype=np.int64))
    order = np.argsort(flows.start_ps, kind="stable")
    ordered = {
        name: getattr(flows, name)[order] for name in ("src", "dst", "size_bytes", "start_ps", "port", "classes")
    }

    found = hpcc.read_flows(hpcc.write_flows(free))

    assert columns(found) == columns(replace(free, number=np.arange(1, count + 1), **ordered))


@given(
    barriers(),
    st.lists(st.builds(htsim.Failure, st.sampled_from(["TOR", "AGG"]), st.integers(0, 9), st.integers(0, 9))),
)
def test_what_is_written_for_htsim_reads_the_same(flows: FlowList, failures: list[htsim.Failure]) -> None:
    matrix = htsim.Matrix(9, flows, tuple(failures))

    found = htsim.read_matrix(htsim.write_matrix(matrix))

    assert columns(found.flows) == columns(flows)
    assert (found.nodes, found.failures) == (9, tuple(failures))


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (
            PLAIN,
            "125000 0 -1",
            "125000 0",
            "ring line 2 = '1 0 1 125000 0': a flow is six words, or seven;",
        ),
        (PLAIN, "125000 0 -1", "125e3 0 -1", "ring line 2 = 125e3: bytes is a whole number; write digits only"),
        (
            PLAIN,
            "125000 0 -1",
            "125000 -5 -1",
            "ring line 2 = '-5': start_ns is a time from 0 on; write a decimal number",
        ),
        (PLAIN, "0.5", "0.0005", "ring line 3 = '0.0005': start_ns is finer than a picosecond; write fewer decimals"),
        (
            PLAIN,
            "0.5",
            "1ns",
            "ring line 3 = 1ns: start_ns is a time from 0 on; write a decimal number",
        ),
        (PLAIN, "7 3 0", "2 3 0", "ring line 4 = 2: ring line 3 has this id too; give each flow its own"),
        (PLAIN, "0.5 1", "0.5 3", "ring line 3 = 3: there is no flow with this id; write the id of a flow, or -1"),
        (PLAIN, "0.5 1", "0.5 2", "flow 2 after = 2: it waits for its own end; let one of them start"),
        (PLAIN, "0 -1\n2 1 2 125000 0.5 1", "0 2\n2 1 2 125000 0.5 2", "flow 2 after = 2: it waits for its own end"),
        (
            PLAIN,
            "9 1000",
            f"1{0:018} 1000",
            "ring line 4 = '1000000000000000000': bytes is a whole number; write digits only, at",
        ),
        (PLAIN, "7 3 0", "7 3 3", "flow 7 = '3 -> 3': it ends where it begins; name two"),
        (PLAIN, "9 1000", "\u0669 1000", "ring line 4 = '\u0669': bytes is a whole number"),
        (HPCC, "2\n", "1\n", "ring line 1 = '1': 2 lines follow; write how many flows there are"),
        (HPCC, "2\n", "0\n", "ring line 1 = '0': 2 lines follow; write how many flows there are"),
        (HPCC, "2\n", "5\n", "ring line 1 = '5': 2 lines follow; write how many flows there are"),
        (HPCC, "2\n", "2 flows\n", "ring line 1 = 2 flows: the first line is the number of flows; write it alone"),
        (HPCC, "3 100", "8 100", "ring line 2 = '8': pg, the traffic class, lies between 0 and 7"),
        (HPCC, "2.000000001", "1.9", "ring line 3 = '1.9': it starts before the flow above it; sort the flows"),
        (MATRIX, "Connections 5", "Connections 4", "ring Connections = 4: there are 5; write Connections 5"),
        (MATRIX, "Nodes 4\n", "", "ring Nodes = None: it is missing; write Nodes and how many hosts there are"),
        (MATRIX, "Nodes 4\n", "Nodes 3\n", "ring line 7 = '3->2': there are 3 nodes; write numbers below 3"),
        (MATRIX, "Failures 1\n", "Failures 1\nFailures 1\n", "ring line 5 = 'Failures 1': the head has each word once"),
        (MATRIX, "0->1 id 3", "0 -> 1 id 3", "ring line 5 = '0': a connection begins with its ends; write src->dst"),
        (MATRIX, "id 4", "id 3", "ring line 6 = 3: a connection with this id is there; give each its own"),
        (MATRIX, "size 300", "size 300 prio 8", "ring line 7 = '8': prio lies between 0 and 7"),
        (MATRIX, "size 300", "size 300 size 3", "ring line 7 = 'size': it is there twice; write each of id, start"),
        (MATRIX, "size 300", "bytes 300", "ring line 7 = 'bytes': a connection has no such word; write each of id"),
        (MATRIX, " size 300", "", "ring line 7 = '3->2 id 6 start 0 send_done_trigger 2': its size is missing"),
        (
            MATRIX,
            "start 0 size",
            "size",
            "ring line 7 = '3->2 id 6 size 300 send_done_trigger 2': it has to start",
        ),
        (MATRIX, "id 6", "id", "ring line 7 = 'start': id is a whole number; write digits only"),
        (MATRIX, "500", "500 send_done_trigger 9", "ring line 9 = 9: there is no trigger with this id"),
        (MATRIX, "500", "500 recv_done_trigger 1", "ring line 9 = '1->3': connections fire triggers at both ends"),
        (MATRIX, "count 2", "count 3", "ring line 11 = 'barrier': 2 of the 3 connections that it waits for fire it"),
        (MATRIX, "barrier count 2", "oneshot", "ring line 11 = 'oneshot': 2 connections fire it, and which of them"),
        (MATRIX, "barrier count 2", "multishot", "ring line 11 = 'multishot': which of its connections is started by"),
        (MATRIX, "barrier count 2", "barrier", "ring line 11 = 'trigger id 2 barrier': it is no trigger"),
        (MATRIX, "barrier count 2", "twice", "ring line 11 = 'twice': there is no such trigger; write oneshot"),
        (MATRIX, "id 2 barrier", "id 1 barrier", "ring line 11 = 1: a trigger with this id is there"),
        (MATRIX, "AGG", "LEAF", "ring line 12 = 'LEAF': there is no such type of switch; write TOR, AGG or CORE"),
        (MATRIX, " link_id 3", "", "ring line 12 = 'failure switch_type AGG switch_id 0': it is no failure"),
        (MULTISHOT, "trigger 5 size 1 recv_done_trigger 5", "trigger 5 size 1", "ring line 7 = 'multishot': which of"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, old: str, new: str, message: str) -> None:
    readers = {PLAIN: plain.read_flows, HPCC: hpcc.read_flows}
    assert old in text

    with pytest.raises(SpecError) as caught:
        readers.get(text, htsim.read_matrix)(text.replace(old, new, 1), "ring")

    assert str(caught.value).startswith(message)


def test_what_a_format_cannot_say_is_refused() -> None:
    matrix = htsim.read_matrix(MATRIX)
    both = replace(matrix.flows, after_ptr=np.array([0, 0, 1, 1, 3, 4]), after=np.array([0, 1, 2, 2]))
    late = replace(matrix.flows, start_ps=np.ones(5, dtype=np.int64))
    named = replace(hpcc.read_flows(HPCC), number=np.array([0, 1]))
    long = replace(matrix.flows, size_bytes=np.full(5, 2**31))

    multishot = htsim.read_matrix(MULTISHOT).flows

    def matrix_of(flows: FlowList) -> str:
        return htsim.write_matrix(htsim.Matrix(4, flows))

    refused: list[tuple[Callable[[FlowList], str], FlowList, str]] = [
        (plain.write_flows, matrix.flows, "flow 7 = 2: in this format a flow waits for one other"),
        (plain.write_flows, multishot, "flows = 'receiver': in this format flows wait for the end at the sender"),
        (plain.write_flows, hpcc.read_flows(HPCC), "flow 2 = 5000: in this format all ports are 100"),
        (hpcc.write_flows, matrix.flows, "flow 4 = 'after': a flow file of HPCC cannot say that a flow waits"),
        (matrix_of, both, "flow 5 = 'after': it waits for flow 6, which fires another trigger in a .cm file"),
        (matrix_of, late, "flow 4 = 1 ps: in a .cm file what waits for others starts when they end"),
        (matrix_of, named, "flow 0 = 0: a connection of a .cm file cannot have the id 0"),
        (matrix_of, long, "flow 3 = 2147483648: a connection of a .cm file has at most 2147483647 bytes"),
    ]
    for write, flows, message in refused:
        with pytest.raises(SpecError) as caught:
            write(flows)
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "count", "waiting"),
    [
        ("single_2hop_1M", 1, 0),
        ("single_4hop_1M", 1, 0),
        ("single_6hop_10K", 1, 0),
        ("single_6hop_10M", 1, 0),
        ("single_6hop_1M", 1, 0),
        ("star3_incast2_1M", 2, 0),
        ("star17_incast16_1M", 16, 0),
        ("star9_ring8_1M", 112, 104),
        ("star9_ring8_4M", 112, 104),
        ("ft16_perm_1M", 16, 0),
        ("ft16_ring8_1M", 112, 104),
        ("ft16_ring8_4M", 112, 104),
        ("ft16_ring16_1M", 480, 464),
        ("ft16_ring16_4M", 480, 464),
        ("ft128_incast16_1M", 16, 0),
        ("ft128_perm_1M", 128, 0),
        ("ft432_perm_1M", 432, 0),
        ("ft1024_perm_1M", 1024, 0),
    ],
)
def test_the_reference_scenarios_are_read(reference_data: Path, name: str, count: int, waiting: int) -> None:
    text = (reference_data / "netref" / "scenarios" / f"{name}.flows").read_text()

    flows = plain.read_flows(text, name)

    assert (len(flows), len(flows.after)) == (count, waiting)
    assert plain.write_flows(flows) == text
