"""Devices that differ though they are alike, and from one iteration to the next; slow NICs; ranks that stand still."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

from xsim.errors import SpecError
from xsim.fabric.fabric import Fabric
from xsim.plan.draw import Draw, Stall
from xsim.spec.checks import plausible
from xsim.units import PS_PER_S, parse_time

__all__ = ["Devices"]

_PS_PER_HOUR = 3600 * PS_PER_S
_DIGITS = 6  # of a factor: it is the same where the last digit of a logarithm is another


@dataclass(frozen=True, slots=True)
class Devices:
    """Each device has a speed of its own, which changes a little with each iteration.

    The factors of time are spread as a lognormal distribution is: half of the devices are faster than the cluster's
    file says. What a rank draws depends on the seed, the rank and, of what changes, the iteration, on nothing else.
    Planners, reshardings and collectives are chosen as if nothing were noisy.

    Attributes:
        spread: Standard deviation of the logarithm of speed among devices, the same in all iterations; 0 to 1.
        jitter: That of the speed of one device among iterations; 0 to 1.
        slow: The part of the devices that are slow all the time; 0 to 1.
        slow_speed: Of the speed that they would have, 0.01 to 1.
        slow_nics: The part of the NICs whose links are slow all the time, both ways; 0 to 1.
        slow_rate: Of their bandwidth, 0.01 to 1.
        stalls_per_hour: How often a rank stands still, on average, in an hour in which it computes; 0 to 1e6.
        stall: For how long, with its unit.
    """

    # 8 % between GPUs of one model in five clusters (https://arxiv.org/abs/2208.11035), taken as the whiskers of a box
    # plot, which are 5.4 standard deviations of a normal distribution apart
    spread: float = 0.015
    # of five iterations in a row, 126.995, 125.554, 127.805, 130.555 and 127.860 s: 1.4 %
    # (https://github.com/epfLLM/Megatron-LLM/issues/11)
    jitter: float = 0.014
    slow: float = 0.0
    slow_speed: float = 0.67  # outliers are up to 1.5 times slower than the median (https://arxiv.org/abs/2208.11035)
    slow_nics: float = 0.0
    slow_rate: float = 0.5  # a link that has lost half of its lanes
    # trainers let all ranks collect garbage at once (https://github.com/pytorch/torchtitan/pull/148)
    stalls_per_hour: float = 0.0
    # a collection of all garbage, 1.25 to 1.46 s (https://github.com/marin-community/marin/pull/9224)
    stall: str = "1.3 s"

    def __post_init__(self) -> None:
        for name in ("spread", "jitter", "slow", "slow_nics"):
            plausible(self, name, 0, 1, "0 to 1")
        for name in ("slow_speed", "slow_rate"):
            plausible(self, name, 0.01, 1, "0.01 to 1")
        plausible(self, "stalls_per_hour", 0, 1e6, "0 to 1e6")
        _check_stall(self.stall)

    def draw(self, fabric: Fabric, seed: int, iteration: int) -> Draw:
        draw = Draw(self._speeds(len(fabric.hosts), seed, iteration), self._rates(fabric, seed))
        if not self.stalls_per_hour:
            return draw
        return Draw(draw.speeds, draw.rates, partial(self._stalls, seed, iteration))

    def varies(self) -> bool:
        return self.jitter > 0 or self.stalls_per_hour > 0

    def _speeds(self, ranks: int, seed: int, iteration: int) -> tuple[float, ...]:
        if not (self.spread or self.jitter or self.slow):
            return ()
        return tuple(self._speed(rank, seed, iteration) for rank in range(ranks))

    def _speed(self, rank: int, seed: int, iteration: int) -> float:
        lasting = random.Random(f"device {seed} {rank}")
        logarithm = self.spread * _normal(lasting)
        factor = self.slow_speed if lasting.random() < self.slow else 1.0
        if self.jitter:
            logarithm += self.jitter * _normal(random.Random(f"jitter {seed} {rank} {iteration}"))
        return round(factor * math.exp(logarithm), _DIGITS)

    def _rates(self, fabric: Fabric, seed: int) -> dict[int, float]:
        """By link of a NIC that is slow."""
        if not self.slow_nics or self.slow_rate == 1.0:
            return {}
        return {
            number: self.slow_rate
            for number, link in enumerate(fabric.links)
            if link.kind == "nic" and random.Random(f"nic {seed} {_nic(fabric, number)}").random() < self.slow_nics
        }

    def _stalls(self, seed: int, iteration: int, rank: int) -> Iterator[Stall]:
        instants, for_ps, at_ps = random.Random(f"stall {seed} {iteration} {rank}"), parse_time(self.stall), 0
        while True:
            at_ps += round(-math.log(1 - instants.random()) * _PS_PER_HOUR / self.stalls_per_hour)
            yield Stall(at_ps, for_ps)


def _normal(draw: random.Random) -> float:
    """A standard normal number: a quantile, whose algorithm is fixed, of a uniform one within (0, 1)."""
    return NormalDist().inv_cdf((draw.getrandbits(53) + 0.5) / 2**53)


def _nic(fabric: Fabric, link: int) -> str:
    """The name of the NIC at which a link begins or ends."""
    start, _, end = fabric.links[link].name.partition(" -> ")
    return start if fabric.vertices[fabric.start[link]] == "nic" else end


def _check_stall(text: str) -> None:
    try:
        for_ps = parse_time(text)
    except SpecError as error:
        raise SpecError("stall", error.value, error.problem, error.fix) from None
    if not 1 <= for_ps <= _PS_PER_HOUR:
        raise SpecError("stall", text, "it is not within 1 ps to 3600 s", "check the number and its unit")
