"""The lines of links ``a b rate delay error`` that the topologies of HPCC and SimAI have in common."""

from __future__ import annotations

from xsim.errors import SpecError
from xsim.fabric.graph import Cable
from xsim.interop.words import Words, integer
from xsim.units import parse_bandwidth, parse_time

__all__ = ["MOST_VERTICES", "read_cables", "read_vertices", "write_cables"]

MOST_VERTICES = 2**20
MOST_BITS_PER_S = 10**15
LONGEST_PS = 10**15

_RATES = {"Gbps": 10**9, "Mbps": 10**6, "Kbps": 10**3, "bps": 1}


def read_vertices(words: Words, count: int, vertices: int, what: str) -> tuple[int, ...]:
    """The next ``count`` words: distinct vertices below ``vertices``."""
    found: dict[int, None] = {}
    for _ in range(count):
        at, text = words.take(what)
        vertex = integer(at, text, what, 0, vertices - 1)
        if vertex in found:
            raise SpecError(at, text, f"this {what} is there twice", "list each once")
        found[vertex] = None
    return tuple(found)


def read_cables(words: Words, count: int, vertices: int) -> tuple[Cable, ...]:
    """The next ``count`` cables, between vertices below ``vertices``."""
    return tuple(_cable(words, vertices) for _ in range(count))


def _cable(words: Words, vertices: int) -> Cable:
    a = words.integer("an end of a link", 0, vertices - 1)
    at, text = words.take("an end of a link")
    b = integer(at, text, "an end of a link", 0, vertices - 1)
    if a == b:
        raise SpecError(at, text, "a link joins two vertices", "name another one")
    return Cable(
        a, b, _rate(*words.take("a rate")), _delay(*words.take("a delay")), _loss(*words.take("an error rate"))
    )


def _rate(at: str, text: str) -> int:
    try:
        bits_per_s = 8 * parse_bandwidth(text)
    except SpecError as error:
        raise error.under(at) from None
    if not 1 <= bits_per_s <= MOST_BITS_PER_S or bits_per_s != int(bits_per_s):
        problem = "a rate is a whole number of bits per second, at most 1 Pbps"
        raise SpecError(at, text, problem, "write 100Gbps or the like")
    return int(bits_per_s)


def _delay(at: str, text: str) -> int:
    try:
        delay_ps = parse_time(text)
    except SpecError as error:
        raise error.under(at) from None
    if delay_ps > LONGEST_PS:
        raise SpecError(at, text, "a link is at most 1000 s long", "write a shorter delay")
    return delay_ps


def _loss(at: str, text: str) -> float:
    try:
        loss = float(text)
    except ValueError:
        loss = -1.0
    if not 0 <= loss <= 1:
        raise SpecError(at, text, "an error rate is the fraction of packets that are lost", "write 0 to 1")
    return loss


def write_cables(cables: tuple[Cable, ...]) -> list[str]:
    """A line per cable."""
    return [
        f"{x.a} {x.b} {_rate_text(x.bandwidth_bits_per_s)} {_delay_text(x.delay_ps)} {f'{x.loss!r}' if x.loss else '0'}"
        for x in cables
    ]


def _rate_text(bits_per_s: int) -> str:
    unit = next(unit for unit, factor in _RATES.items() if bits_per_s % factor == 0)
    return f"{bits_per_s // _RATES[unit]}{unit}"


def _delay_text(delay_ps: int) -> str:
    return f"{delay_ps}ps" if delay_ps % 1000 else f"{delay_ps // 1000}ns"
