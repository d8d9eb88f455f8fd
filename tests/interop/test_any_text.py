"""Whatever stands in a file, a reader makes a value of it or says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop import test_flows, test_topologies
from xsim.errors import SpecError
from xsim.interop import flows as plain
from xsim.interop import hpcc, htsim, htsim_topology, simai

READERS: Mapping[str, tuple[Callable[[str, str], object], str]] = {
    "hpcc topology": (hpcc.read_topology, test_topologies.HPCC),
    "simai topology": (simai.read_topology, test_topologies.SIMAI),
    "htsim topology": (lambda text, name: htsim_topology.read_topology(text, name).graph(), test_topologies.TREE),
    "plain flows": (plain.read_flows, test_flows.PLAIN),
    "hpcc flows": (hpcc.read_flows, test_flows.HPCC),
    "htsim flows": (htsim.read_matrix, test_flows.MATRIX),
}
JUNK = (
    "",
    "-1",
    "0",
    "1",
    "2",
    "7",
    "1e9",
    "1_0",
    "+1",
    "\u0663",
    "nan",
    "inf",
    "x",
    "->",
    "1->",
    "#",
    "9" * 30,
    "1.5",
    "\n",
)
WORDS = st.one_of(st.sampled_from(JUNK), st.integers(0, 12).map(str), st.text(max_size=4))


@pytest.mark.parametrize("reader", READERS)
@given(changes=st.lists(st.tuples(st.integers(0, 200), WORDS), min_size=1, max_size=3))
def test_a_changed_file_is_read_or_refused(reader: str, changes: list[tuple[int, str]]) -> None:
    read, text = READERS[reader]
    pieces = re.split(r"(\s+)", text)
    for place, word in changes:
        pieces[place % len(pieces)] = word
    with suppress(SpecError):
        read("".join(pieces), "net")
