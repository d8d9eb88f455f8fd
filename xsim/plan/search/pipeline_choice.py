"""The best ways to configure a pipeline of given devices, whatever share of the batch it gets.

ETH (https://arxiv.org/abs/2610.22035, section 4.2.3) configures each pipeline for the whole batch (Equation 1), and
once more when it knows its share. Equation 1 knows a configuration by two times, so that those which are best for some
share can be kept the first time, and none is searched for twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xsim.plan.search.groupings import Composition, Grouping
from xsim.plan.search.stage_balance import Configuration, StageBalance
from xsim.plan.search.stage_lists import stage_lists

__all__ = ["Choices", "PipelineChoice"]

MOST_EXTRA = 4.0  # times the mean of its peers that a group's variance counts at most, and one over it at least


@dataclass(frozen=True, slots=True)
class Choices:
    """Configurations of pipelines of the same devices, none of which is worse than another for every share."""

    found: tuple[Configuration, ...]

    def best(self, samples: int, sizes: Collection[int]) -> Configuration | None:
        """The one that ends first with so many samples, of those whose micro-batch divides them and is in ``sizes``."""
        fitting = (c for c in self.found if c.micro_batch in sizes and samples % c.micro_batch == 0)
        return min(fitting, key=lambda c: (c.end_ps(samples), c.micro_batch), default=None)

    def throughput(self, batch: int) -> float:
        """Samples per picosecond of the best with the whole batch; 0 if none fits."""
        ends = [c.end_ps(batch) for c in self.found]
        return batch / min(ends) if ends else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class PipelineChoice:
    """Chooses configurations for pipelines of one model on one cluster.

    Attributes:
        batch: Samples of an iteration, of all pipelines.
        unit: Devices of one unit in which stages are dealt out, per kind.
        memory_bytes, speeds: Of a device of each kind; speeds in any unit.
        total: Devices of the cluster, per kind.
        limit: Sequences of stages that are all tried, at most.
        budget: States to look at for each sequence and micro-batch.
        adaptive: Share the budget out by variance (section 6), else equally.
        bound: Leave out sequences that cannot be best for any share that this pipeline may get.
        starts: Sequences and micro-batches from which a pipeline is balanced, those of the least bound; 0: all.
        most: States to look at in all; 0: no limit. When they are spent, no pipeline is configured any more.
    """

    balance: StageBalance
    batch: int
    unit: int
    memory_bytes: tuple[int, ...]
    speeds: tuple[float, ...]
    total: Composition
    limit: int
    budget: int
    adaptive: bool = True
    bound: bool = True
    starts: int = 0
    most: int = 0

    @property
    def spent(self) -> bool:
        """Whether the limit has been reached."""
        return 0 < self.most <= self.balance.spent.states

    def choices(self, devices: Composition) -> Choices:
        """For a pipeline of these devices, whole units of each kind."""
        layers = self.balance.options.passes.tables.layers
        lists = [
            tuple(tuple(count * self.unit for count in stage) for stage in stages)
            for stages in stage_lists(tuple(count // self.unit for count in devices), layers, self.limit)
        ]
        budgets = self._budgets(lists)
        few = self._least_share(devices)
        found: list[Configuration] = []
        left = self.starts or -1
        for least, stages, micro_batch in sorted(self._starts(lists)):
            if self.spent or left == 0:
                break
            if self.bound and self._covered(found, Configuration(micro_batch, *least[1:], ()), few):
                continue
            left -= 1
            for each in self.balance.balanced(stages, micro_batch, self.batch, budgets[stages]):
                if not self._covered(found, each, few):
                    found = [c for c in found if not self._covered([each], c, few)]
                    found.append(each)
        return Choices(tuple(found))

    def _starts(self, lists: Sequence[Grouping]) -> Iterator[tuple[tuple[int, int, int, int], Grouping, int]]:
        """(Equation 5, fill, straggler, what follows) at least, stages, and size of a micro-batch."""
        options = self.balance.options
        for stages in lists:
            for size in options.micro_batches(stages, self.batch):
                least = options.least_ps(options.of(stages, size, self.batch))
                if least is not None:
                    yield (Configuration(size, *least, ()).end_ps(self.batch), *least), stages, size

    def _least_share(self, devices: Composition) -> int:
        """Half of what its devices would get by their compute power."""
        own, every = (
            sum(n * rate for n, rate in zip(counts, self.speeds, strict=True)) for counts in (devices, self.total)
        )
        return max(1, int(self.batch * own / every / 2))

    def _covered(self, found: Sequence[Configuration], other: Configuration, few: int) -> bool:
        """Whether one of ``found`` ends no later than ``other``, whether it gets ``few`` samples or the batch."""
        size = other.micro_batch
        first, last = other.end_ps(few), other.end_ps(self.batch)
        return any(size % c.micro_batch == 0 and c.end_ps(few) <= first and c.end_ps(self.batch) <= last for c in found)

    def _budgets(self, lists: Sequence[Grouping]) -> dict[Grouping, int]:
        """States to look at: the more alike the stages of a sequence next to its peers of as many stages, the more."""
        if not self.adaptive:
            return dict.fromkeys(lists, self.budget)
        spread = {stages: (_spread(stages, self.memory_bytes), _spread(stages, self.speeds)) for stages in lists}
        peers: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for stages, own in spread.items():
            peers[len(stages)].append(own)
        means = {
            count: tuple(sum(column) / len(every) for column in zip(*every, strict=True))
            for count, every in peers.items()
        }
        found = {}
        for stages, own in spread.items():
            factor = 1.0
            for value, mean in zip(own, means[len(stages)], strict=True):
                factor *= min(MOST_EXTRA, max(1 / MOST_EXTRA, value / mean)) if mean else 1.0
            found[stages] = max(1, round(self.budget / factor))
        return found


def _spread(stages: Grouping, each: Sequence[float]) -> float:
    """Variance of what stages have in all."""
    sums = [sum(n * value for n, value in zip(stage, each, strict=True)) for stage in stages]
    mean = sum(sums) / len(sums)
    return sum((value - mean) ** 2 for value in sums) / len(sums)
