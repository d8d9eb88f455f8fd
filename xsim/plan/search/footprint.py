"""How many bytes a stage needs, as ``xsim.plan.load`` counts them, for any number of layers at once.

Transformer layers are alike, so that the need follows from how many there are, which ends are among them, and how many
micro-batches are in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from xsim.plan.load import Load, activations, parts_of
from xsim.plan.operator import Exchange, ShardedOperator
from xsim.plan.optimizer import optimizer_state_bytes
from xsim.plan.recompute import kept_tensors, recomputed
from xsim.plan.search.contracts import Again, Ints
from xsim.plan.shard import Shard
from xsim.spec.deployment import Recompute
from xsim.spec.scenario import Scenario

__all__ = ["Footprint"]


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """What the last rank of a tensor group needs, which of equal shares is never the smallest.

    Attributes:
        kept: Bytes that one micro-batch leaves in embedding, a transformer layer, and head.
        widest: Bytes that the widest operator of each reads and writes.
        parameters: Of each, of the whole model's layer.
        shared: Parameters that a holder of both ends needs only once.
        state: Bytes of weight, gradient and optimizer per parameter.
        handed: Bytes to and from one neighbouring stage.
        halves: Whether the schedule cuts backward passes in two: then nothing is saved by computing again, as what was
            dropped is there again from the first half to the second.
        whole: What the rank does in a transformer layer.
        known: What computing operators again has been found to save.
    """

    tp: int
    kept: tuple[int, int, int]
    widest: tuple[int, int, int]
    parameters: tuple[int, int, int]
    shared: int
    state: int
    handed: int
    framework: int
    fragmentation: float
    halves: bool
    whole: tuple[ShardedOperator | Exchange, ...]
    known: dict[frozenset[str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: Scenario, tp: int, samples: int, *, sequence_parallel: bool, halves: bool) -> Footprint:
        """Of a copy of any stage that takes so many samples of a micro-batch."""
        model = scenario.model
        ends = (0, 1, model.layers + 1)
        load = Load(tuple(range(i, i + 1) for i in ends), samples, tp, (), sequence_parallel, ())
        found = activations(scenario, load, tp - 1)
        parts = {like: parts_of(scenario, load, like, tp - 1) for like in ends}
        widths = {like: _widest(own) for like, own in parts.items()}
        shard = Shard(
            model, samples, tp, tp - 1, scenario.precision, sequence_parallel, (), scenario.gradient_dtype_bytes
        )
        optimizer = optimizer_state_bytes(scenario.optimizer, scenario.precision)
        return cls(
            tp=tp,
            kept=(found.kept[0], found.kept[1], found.kept[model.layers + 1]),
            widest=(widths[0], widths[1], widths[model.layers + 1]),
            parameters=(model.layer_parameters(0), model.layer_parameters(1), model.layer_parameters(model.layers + 1)),
            shared=model.vocab * model.hidden if model.tied else 0,
            state=scenario.weight_bytes + scenario.gradient_dtype_bytes + optimizer,
            handed=2 * shard.own * scenario.dtype_bytes,
            framework=scenario.framework_bytes,
            fragmentation=scenario.fragmentation,
            halves=halves,
            whole=parts[1],
        )

    def saved(self, names: frozenset[str]) -> int:
        """Bytes of a micro-batch that a transformer layer does not keep if these operators are computed again."""
        if not names or self.halves:
            return 0
        if names not in self.known:
            entries = tuple(Recompute(operator=name, layers=range(1, 2)) for name in sorted(names))
            kept = kept_tensors(self.whole, recomputed(entries, 1, self.whole))
            self.known[names] = max(0, self.kept[1] - sum(tensor.size_bytes for tensor in kept))
        return self.known[names]

    def need(self, layers: range, last: int, in_flight: int, recompute: Again = ()) -> int:
        """Of a stage that holds ``layers``, of which ``last`` is the head's number."""
        ends = (0 in layers, last in layers)
        inner = len(layers) - sum(ends)
        saved, passing = 0, 0
        for names, count in self.sets(recompute, inner):
            once = self.saved(names)
            saved, passing = saved + count * once, max(passing, once)
        column = self.column(np.array([inner]), ends, in_flight, saved, passing)
        return int(column[0])

    def column(self, inner: Ints, ends: tuple[bool, bool], in_flight: int, saved: int = 0, passing: int = 0) -> Ints:
        """Of stages that hold so many transformer layers, and these ends.

        Args:
            saved: Bytes of a micro-batch that are not kept.
            passing: The most that is there again while one layer's backward pass needs it.
        """
        first, last = ends
        weights = np.array([first, 0, last], dtype=np.int64)
        held = inner * self.parameters[1] + int(weights @ self.parameters) - (self.shared if first and last else 0)
        own = held - held * (self.tp - 1) // self.tp
        kept = inner * self.kept[1] + int(weights @ self.kept) - saved
        widest = np.maximum(max(self.widest[0] * first, self.widest[2] * last), self.widest[1] * (inner > 0))
        total = own * self.state + in_flight * kept + passing + widest + (2 - first - last) * self.handed
        if not (self.framework or self.fragmentation):
            return np.asarray(total, dtype=np.int64)
        part = float(Fraction(self.fragmentation) / (1 - Fraction(self.fragmentation)))
        return np.asarray(total + self.framework + np.floor(total * part + 1e-3).astype(np.int64), dtype=np.int64)

    @staticmethod
    def sets(recompute: Again, layers: int) -> list[tuple[frozenset[str], int]]:
        """(operators, in how many layers exactly these are computed again), of a stage with so many layers."""
        edges = sorted({0, *(min(count, layers) for _, count in recompute)})
        spans = (
            (frozenset(n for n, count in recompute if count > start), stop - start) for start, stop in pairwise(edges)
        )
        return [(names, count) for names, count in spans if names]


def _widest(parts: tuple[ShardedOperator | Exchange, ...]) -> int:
    operators = (part for part in parts if isinstance(part, ShardedOperator))
    return max((operator.work("forward").moved_bytes for operator in operators), default=0)
