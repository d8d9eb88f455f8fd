"""What a rank keeps from forward to backward passes, as its actions follow one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xsim.plan.operator import Exchange, ShardedOperator, Tensor
from xsim.plan.operators import like_layer
from xsim.plan.recompute import kept_tensors, recomputed
from xsim.plan.workload import Action
from xsim.spec.deployment import Recompute
from xsim.spec.model import ModelSpec

__all__ = ["Activations", "Part"]

Part = ShardedOperator | Exchange


class Activations:
    """By layer what is kept, and what is dropped and computed again.

    Args:
        layers: Of each virtual stage.
        recompute: What is computed again instead of kept.
        parts: What one rank does in the layers that differ, by the first layer like them.
    """

    def __init__(
        self,
        model: ModelSpec,
        layers: Sequence[Sequence[int]],
        recompute: Sequence[Recompute],
        parts: Mapping[int, Sequence[Part]],
    ) -> None:
        self.layers = layers
        self.parts = parts
        whole = {like: _size(kept_tensors(own)) for like, own in parts.items()}
        self.kept: dict[int, int] = {}
        self.dropped: dict[int, int] = {}
        for layer in (layer for part in layers for layer in part):
            like = like_layer(model, layer)
            again = recomputed(recompute, layer, parts[like])
            self.kept[layer] = _size(kept_tensors(parts[like], again)) if again else whole[like]
            self.dropped[layer] = max(0, whole[like] - self.kept[layer])

    def curve(self, actions: Iterable[Action]) -> Iterator[tuple[int, int]]:
        """Of each action, the most bytes that are kept during it, and those that are kept after it.

        Each forward adds its chunk's activations, the last use takes them away. What was dropped is there again for
        one layer at a time, or, of a backward in two halves, for the whole chunk until the gradients of the weights
        are done.
        """
        kept, dropped = ([sum(by[layer] for layer in part) for part in self.layers] for by in (self.kept, self.dropped))
        passing = [max((self.dropped[layer] for layer in part), default=0) for part in self.layers]
        now = 0
        for action in actions:
            chunk = action.chunk
            if action.kind == "F":
                now += kept[chunk]
            elif action.kind == "I":
                now += dropped[chunk]
            during = now + (passing[chunk] if action.kind == "B" else 0)
            if action.completes:
                now -= kept[chunk] + (dropped[chunk] if action.kind == "W" else 0)
            yield during, now

    def widest_bytes(self) -> int:
        """The most that one operator reads and writes."""
        operators = (part for parts in self.parts.values() for part in parts if isinstance(part, ShardedOperator))
        return max(operator.work("forward").moved_bytes for operator in operators)


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.size_bytes for tensor in tensors)
