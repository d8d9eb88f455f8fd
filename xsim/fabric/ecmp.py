"""Which of several equal ways a switch takes for a pair of ranks."""

from __future__ import annotations

__all__ = ["ecmp"]

_MASK = (1 << 64) - 1
_HOP = 0xD1342543DE82EF95  # odd, and no multiple of the other: what differs in the hop alone falls apart as well


def ecmp(src: int, dst: int, ways: int, hop: int = 0) -> int:
    """ECMP: which of 0..``ways`` is taken by what rank ``src`` sends to rank ``dst``.

    The pair is mixed by the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
    Generators, OOPSLA 2014), and the upper bits choose: like a switch's hash, blind to load, and the same on every run.

    Args:
        hop: How many switches on the way have chosen before this one: they choose apart from each other.
    """
    mixed = ((src << 32 | dst) * 0x9E3779B97F4A7C15 + hop * _HOP) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return (mixed ^ mixed >> 31) * ways >> 64
