"""Who does what: device groups, stages, replicas (paper section 4.1, abstraction A1).

A stage's number is its position in ``replica.stages``, a replica's its position in ``plan.replicas``. Layers are
numbered 1..L; layer 0 is the embedding, L + 1 the head. Ranges are half-open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from xsim.errors import SpecError, TooLongError
from xsim.spec.checks import at_least

__all__ = ["MOST_ACTIONS", "DeploymentPlan", "DeviceGroup", "Recompute", "Replica", "Stage", "joined"]

MOST_ACTIONS = 10_000_000
LARGEST_SHARE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """Devices that cut the same layers among them.

    Attributes:
        ranks: Global ranks, those of each context rank in tensor order; their count over ``cp`` is the TP degree.
        samples: How many samples of each micro-batch of the stage it takes.
        cp: Context-parallel degree: each context rank has two of ``2 cp`` chunks of every sequence, number i and
            number ``2 cp - 1 - i``, so that all have as much to do where later tokens attend to more (as Megatron-LM
            deals them out), and a copy of the weights.
        tp_shares: What each rank takes of all that the group cuts, in proportion (Xsim paper section 2.1): of heads,
            of the width of the MLP, of the vocabulary, and of the sequence. Empty: as even as can be.
        state_shares: With ``zero``, what each rank keeps of what data-parallel ranks share out, in proportion to those
            of all of them: one with more memory may keep more (Cephalo, https://arxiv.org/abs/2411.01075), as far as
            its group gives it that much. Empty: 1 each.
    """

    ranks: tuple[int, ...]
    samples: int
    cp: int = 1
    tp_shares: tuple[float, ...] = ()
    state_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.ranks or len(set(self.ranks)) != len(self.ranks):
            raise SpecError("ranks", list(self.ranks), "a group needs distinct ranks", "list each rank once")
        if min(self.ranks) < 0:
            raise SpecError("ranks", list(self.ranks), "a rank is 0 or more", "number devices from 0")
        at_least(self, "samples", 1)
        at_least(self, "cp", 1)
        if len(self.ranks) % self.cp:
            raise SpecError("cp", self.cp, f"it does not divide {len(self.ranks)} ranks", "choose a divisor")
        for name, parts in (("tp_shares", self.tp), ("state_shares", len(self.ranks))):
            shares = getattr(self, name)
            if shares and len(shares) != parts:
                problem = f"{len(shares)} shares for {parts} ranks"
                raise SpecError(name, list(shares), problem, "give one share per rank, or leave it out")
            if any(not 0 < share < LARGEST_SHARE for share in shares):
                problem = f"a share is more than 0 and less than {LARGEST_SHARE:.0e}"
                raise SpecError(name, list(shares), problem, "write such as [2, 2, 1]")
        if self.cp > 1 and len(set(self.tp_shares)) > 1:
            problem = f"unequal parts are not cut over {self.cp} context ranks as well"
            raise SpecError("tp_shares", list(self.tp_shares), problem, "leave it out, or write cp: 1")

    @property
    def tp(self) -> int:
        """Tensor-parallel degree."""
        return len(self.ranks) // self.cp

    def contexts(self) -> tuple[DeviceGroup, ...]:
        """The tensor ranks of each context rank: groups that hold the same weights."""
        if self.cp == 1:
            return (self,)
        parts = [slice(start, start + self.tp) for start in range(0, len(self.ranks), self.tp)]
        return tuple(
            replace(self, ranks=self.ranks[part], cp=1, state_shares=self.state_shares[part]) for part in parts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """An operator whose results the forward pass drops and the backward pass computes again.

    Attributes:
        operator: Its name.
        layers: Where.
    """

    operator: str
    layers: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A contiguous part of the model, held by one group or, data-parallel inside the stage, by several.

    Attributes:
        groups: Their samples sum to the micro-batch; their devices and TP degrees may differ.
        layers: Half-open ranges; several are virtual stages.
        sequence_parallel: Activations between operators are cut over the sequence instead of replicated.
        micro_batch: Its own, if it differs from the replica's; both divide the replica's samples.
        ep: Expert-parallel degree: every ``ep`` groups that follow one another hold a part of the experts each, as
            contiguous and as even as can be, and send each other the tokens that go there.
        recompute: What is computed again instead of kept.
    """

    groups: tuple[DeviceGroup, ...]
    layers: tuple[range, ...]
    sequence_parallel: bool = False
    micro_batch: int | None = None
    ep: int = 1
    recompute: tuple[Recompute, ...] = ()

    def __post_init__(self) -> None:
        if not self.groups:
            raise SpecError("groups", [], "a stage needs a device group", "list one under groups")
        if not self.layers or any(len(part) == 0 or part.step != 1 for part in self.layers):
            raise SpecError("layers", list(self.layers), "a stage needs layers", "write {first: 1, last: 16}")
        if self.micro_batch is not None:
            at_least(self, "micro_batch", 1)
        at_least(self, "ep", 1)

    @property
    def samples(self) -> int:
        """Samples of one micro-batch, over all groups."""
        return sum(group.samples for group in self.groups)

    def cells(self) -> Iterator[tuple[DeviceGroup, ...]]:
        """Groups that hold all experts together."""
        for first in range(0, len(self.groups), self.ep):
            yield self.groups[first : first + self.ep]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pipeline: a copy of the model.

    Attributes:
        micro_batch: Samples of one micro-batch.
        micro_batches: How many it works through per iteration.
    """

    stages: tuple[Stage, ...]
    micro_batch: int
    micro_batches: int

    def __post_init__(self) -> None:
        at_least(self, "micro_batch", 1)
        at_least(self, "micro_batches", 1)
        if not self.stages:
            raise SpecError("stages", [], "a replica needs a stage", "list one under stages")
        for index, stage in enumerate(self.stages):
            own = stage.micro_batch or self.micro_batch
            if stage.samples != own:
                problem = f"its groups take {stage.samples} samples, the micro-batch has {own}"
                raise SpecError(f"stages[{index}].groups", stage.samples, problem, "make them equal")
            if self.samples % own:
                problem = f"it does not divide the replica's {self.samples} samples"
                raise SpecError(f"stages[{index}].micro_batch", own, problem, "choose a divisor")
        chunks = len(self.stages[0].layers)
        for index, stage in enumerate(self.stages):
            if len(stage.layers) != chunks:
                problem = f"stage 0 has {chunks} virtual stages"
                raise SpecError(f"stages[{index}].layers", list(stage.layers), problem, "give every stage as many")
        order = [(i, c) for c in range(chunks) for i in range(len(self.stages))]
        for (before, c0), (index, c1) in pairwise(order):
            end, start = self.stages[before].layers[c0].stop, self.stages[index].layers[c1].start
            if start != end:
                problem = f"the stage before it ends at layer {end - 1}"
                path = f"stages[{index}].layers"
                raise SpecError(path, self.stages[index].layers[c1], problem, f"start it at layer {end}")

    @property
    def samples(self) -> int:
        """Samples per iteration."""
        return self.micro_batch * self.micro_batches

    @property
    def passes(self) -> int:
        """Forward and backward passes of all its groups."""
        return 2 * self.micro_batches * sum(len(stage.groups) * len(stage.layers) for stage in self.stages)

    @property
    def layers(self) -> range:
        """All layers, first to last."""
        return range(self.stages[0].layers[0].start, self.stages[-1].layers[-1].stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """Pipelines that train side by side; their samples sum to the batch.

    Attributes:
        bucket_bytes: Largest bucket of gradients, and of sharded weights; absent: one per data-parallel group.
        zero: What data-parallel ranks hold a part of instead of a copy (ZeRO, https://arxiv.org/abs/1910.02054): 0
            nothing, 1 the optimizer states, 2 the gradients too, 3 the weights too, which are then gathered bucket by
            bucket before each pass through their layers: the group stands still until it has them.
        gather_overlap: With ``zero`` 1 or 2, the parameters that an iteration has updated are gathered beside the first
            forward passes of the next, bucket by bucket, the first layers first, instead of after the update. With 3,
            each bucket is gathered beside the pass through the one before.
        serial_sync: A rank in several data-parallel groups syncs with one after the other, last layers first, and not
            with all at once.
        blocking_sends: A group waits until what it sends to another stage has arrived, instead of computing on.
        rendezvous: What goes to another stage moves when both sides have come to it, and both wait until it has
            arrived, the gradient of an exchange before the activations, as in DeepSpeed.
        tp_async: In backward passes, collectives of a device group run beside products that do not need them: the sum
            of gradients of a product's input beside the product for those of its weights.
        tp_overlap: Besides, a collective of a device group runs beside the product that it feeds or follows.
        predicted_ps: How long an iteration takes as whoever made the plan thinks; it changes nothing, and stands beside
            the simulated time.
    """

    replicas: tuple[Replica, ...]
    name: str = ""
    bucket_bytes: int | None = None
    zero: int = 0
    gather_overlap: bool = False
    serial_sync: bool = False
    blocking_sends: bool = False
    rendezvous: bool = False
    tp_async: bool = False
    tp_overlap: bool = False
    predicted_ps: int | None = None

    def __post_init__(self) -> None:
        if not self.replicas:
            raise SpecError("replicas", [], "a deployment needs a replica", "list one under replicas")
        if self.bucket_bytes is not None:
            at_least(self, "bucket_bytes", 1)
        if self.predicted_ps is not None:
            at_least(self, "predicted_ps", 1)
        if self.zero not in range(4):
            raise SpecError("zero", self.zero, "there is no such stage of ZeRO", "choose 0, 1, 2 or 3")
        self._check_actions()
        owner: dict[int, str] = {}
        for path, group in self.groups():
            for rank in group.ranks:
                if rank in owner:
                    problem = f"rank {rank} is also in {owner[rank]}"
                    raise SpecError(f"{path}.ranks", list(group.ranks), problem, "give each rank to one group")
            owner.update(dict.fromkeys(group.ranks, path))

    def _check_actions(self) -> None:
        """Every pass of every group is simulated: refuse what would never end."""
        passes = 0
        for index, replica in enumerate(self.replicas):
            passes += replica.passes
            if passes > MOST_ACTIONS:
                problem = f"that makes more than {MOST_ACTIONS} forward and backward passes to simulate"
                raise TooLongError(f"replicas[{index}].micro_batches", replica.micro_batches, problem, "lower it")

    @property
    def passes(self) -> int:
        """Forward and backward passes of all groups, which are simulated one by one."""
        return sum(replica.passes for replica in self.replicas)

    @property
    def samples(self) -> int:
        """The batch: samples per iteration."""
        return sum(replica.samples for replica in self.replicas)

    def groups(self) -> Iterator[tuple[str, DeviceGroup]]:
        """Path and value of every device group, in order of replica, stage, group."""
        for r, replica in enumerate(self.replicas):
            for s, stage in enumerate(replica.stages):
                for g, group in enumerate(stage.groups):
                    yield f"replicas[{r}].stages[{s}].groups[{g}]", group


def joined(groups: Sequence[DeviceGroup]) -> DeviceGroup:
    """``groups`` that do everything together, as one; ``contexts`` gives those of each back."""
    if len(groups) == 1:
        return groups[0]
    return replace(
        groups[0],
        ranks=tuple(rank for group in groups for rank in group.ranks),
        samples=sum(group.samples for group in groups),
        cp=sum(group.cp for group in groups),
        state_shares=tuple(share for group in groups for share in (group.state_shares or (1.0,) * len(group.ranks)))
        if any(group.state_shares for group in groups)
        else (),
    )
