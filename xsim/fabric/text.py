"""The topology files of HPCC's and SimAI's versions of ns-3 as graphs.

Both are words between white space. HPCC's: ``node_num switch_num link_num``, the numbers of the switches, and of each
link its two ends, ``100Gbps``, ``1000ns`` and the fraction of packets that are lost. Nodes are numbered from 0, and
those that are no switches are hosts. SimAI's first line is ``node_num gpus_per_server nvswitch_num switch_num link_num
gpu_type``; the NVSwitches come before the switches, and the hosts are GPUs. (github.com/alibaba-edu/
High-Precision-Congestion-Control, simulation/mix; github.com/aliyun/SimAI, astra-sim-alibabacloud/inputs/topo.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeVar

from xsim.errors import SpecError
from xsim.fabric.graph import Cable, Graph
from xsim.units import parse_bandwidth, parse_time

__all__ = ["TopologyText", "parse_topology"]

MOST_NODES = 2**22
MOST_LINKS = 2**23
MOST_BITS_PER_S = 10**15
LONGEST_PS = 10**15

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class TopologyText:
    """What a topology file says.

    Attributes:
        graph: All of it; NVSwitches are among the switches.
        nvswitches: Those of them that join the GPUs of a server; HPCC's format has none.
        gpus_per_server: 0 in HPCC's format.
        gpu_type: Empty in HPCC's format.
    """

    graph: Graph
    nvswitches: frozenset[int] = frozenset()
    gpus_per_server: int = 0
    gpu_type: str = ""


@lru_cache(maxsize=4)
def parse_topology(text: str) -> TopologyText:
    """The topology in either format; the length of the first line tells which. The last few are kept.

    Raises:
        SpecError: Its field is ``[line 3]``, where something is wrong there.
    """
    words = _Words(text)
    first = next((line.split() for line in text.splitlines() if line.strip()), [])
    if len(first) not in (3, 6):
        problem = "the first line of a topology has 3 words (HPCC) or 6 (SimAI)"
        raise SpecError("[line 1]", " ".join(first), problem, "write node_num switch_num link_num, say")
    nodes = words.number("node_num", MOST_NODES)
    if len(first) == 3:
        switches, links = words.number("switch_num", nodes), words.number("link_num", MOST_LINKS)
        graph = _graph(words, nodes, [words.node(nodes) for _ in range(switches)], links)
        return TopologyText(graph)
    gpus = words.number("gpus_per_server", nodes)
    nvswitches, switches = words.number("nvswitch_num", nodes), words.number("switch_num", nodes)
    links, gpu_type = words.number("link_num", MOST_LINKS), words.next("gpu_type").text
    found = [words.node(nodes) for _ in range(nvswitches + switches)]
    return TopologyText(_graph(words, nodes, found, links), frozenset(found[:nvswitches]), gpus, gpu_type)


class _Word(NamedTuple):
    line: int
    text: str

    def error(self, problem: str, fix: str) -> SpecError:
        return SpecError(f"[line {self.line}]", self.text, problem, fix)


@dataclass(slots=True)
class _Words:
    """What has not been read yet; ``line`` is that of the last word read."""

    text: str
    line: int = 1
    _rest: Iterator[_Word] = field(init=False)

    def __post_init__(self) -> None:
        lines = enumerate(self.text.splitlines(), start=1)
        self._rest = (_Word(number, word) for number, line in lines for word in line.split())

    def next(self, name: str) -> _Word:
        word = next(self._rest, None)
        if word is None:
            problem = f"the file ends where a {name} should stand"
            raise SpecError(f"[line {self.line}]", "", problem, "check the counts of its first line")
        self.line = word.line
        return word

    def read(self, name: str, parse: Callable[[str], T], fix: str) -> T:
        word = self.next(name)
        try:
            return parse(word.text)
        except SpecError as error:
            raise word.error(error.problem, error.fix) from None
        except ValueError:
            raise word.error(f"it is no {name}", fix) from None

    def number(self, name: str, most: int) -> int:
        def parse(text: str) -> int:
            if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > most:
                raise ValueError
            return int(text)

        return self.read(name, parse, f"write a whole number up to {most}")

    def node(self, nodes: int) -> int:
        return self.number("node", nodes - 1)

    def end(self) -> None:
        word = next(self._rest, None)
        if word is not None:
            raise word.error("it comes after the last link", "check link_num in the first line")


def _graph(words: _Words, nodes: int, switches: list[int], links: int) -> Graph:
    if len(set(switches)) < len(switches):
        twice = next(switch for switch in switches if switches.count(switch) > 1)
        raise SpecError("[line 2]", twice, "this switch is listed twice", "list each once")
    cables = tuple([_cable(words, nodes) for _ in range(links)])
    words.end()
    return Graph(nodes, frozenset(switches), cables)


def _cable(words: _Words, nodes: int) -> Cable:
    a, b = words.node(nodes), words.node(nodes)
    if a == b:
        raise SpecError(f"[line {words.line}]", a, "a link joins two nodes", "write two different numbers")
    bits_per_s = words.read("rate of 1 bps to 1 Pbps", _bits_per_s, "write 100Gbps, say")
    delay_ps = words.read("delay of up to 1000 s", _delay_ps, "write 1000ns, say")
    loss = words.read("fraction of lost packets", _fraction, "write a number from 0 to 1")
    return Cable(a, b, bits_per_s, delay_ps, loss)


def _bits_per_s(text: str) -> int:
    value = round(8 * parse_bandwidth(text))
    if not 1 <= value <= MOST_BITS_PER_S:
        raise ValueError
    return value


def _delay_ps(text: str) -> int:
    value = parse_time(text)
    if value > LONGEST_PS:
        raise ValueError
    return value


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value
