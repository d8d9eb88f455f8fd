"""What several iterations of one run took: their mean, how sure that is, and the one that stands for them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xsim.units import PS_PER_S

__all__ = ["Iterations"]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Iterations:
    """Iterations of one run, drawn independently, one or more.

    Attributes:
        times_ps: How long each took, in their order.
    """

    times_ps: tuple[int, ...]

    @property
    def mean_s(self) -> float:
        """Of their times."""
        return sum(self.times_ps) / (len(self.times_ps) * PS_PER_S)

    @property
    def median(self) -> int:
        """Number of the iteration with the median time (nearest rank: of an even count the lower one)."""
        order = sorted(range(len(self.times_ps)), key=lambda number: (self.times_ps[number], number))
        return order[_nearest(50, len(order))]

    def percentile_s(self, percent: int) -> float:
        """The shortest time that at least ``percent`` in a hundred of them do not exceed (nearest rank)."""
        return sorted(self.times_ps)[_nearest(percent, len(self.times_ps))] / PS_PER_S

    @property
    def half_width_s(self) -> float:
        """Half of the 95 % confidence interval of the mean; 0 of one iteration, which tells nothing of it.

        Student's ``t s / sqrt(n)`` with n - 1 degrees of freedom, s the sample's standard deviation
        (https://www.itl.nist.gov/div898/handbook/eda/section3/eda352.htm). Times of iterations are not quite normal, as
        each is that of its slowest rank.
        """
        count = len(self.times_ps)
        if count == 1:
            return 0.0
        from scipy.special import stdtrit  # loads with the first run that needs it

        total_ps = sum(self.times_ps)
        variance_ps2 = (count * sum(time * time for time in self.times_ps) - total_ps * total_ps) / (
            count * (count - 1)
        )
        quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
        return quantile * math.sqrt(variance_ps2 / count) / PS_PER_S


def _nearest(percent: int, count: int) -> int:
    """Position of the nearest rank among so many in order."""
    return -(-count * percent // 100) - 1
