"""A question to the simulator: this model, this batch, on this cluster, deployed like this."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from xsim.errors import SpecError
from xsim.spec.checks import at_least, at_most, not_negative, plausible
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import MOST_ACTIONS, DeploymentPlan, DeviceGroup, Stage
from xsim.spec.ends import with_ends
from xsim.spec.model import ModelSpec
from xsim.spec.shares import share_cuts
from xsim.units import PS_PER_S

__all__ = ["DTYPE_BYTES", "Scenario", "check_deployment"]

DTYPE_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 2}  # fp8: of what is no factor of a product
OPTIMIZERS = ("adam", "sgd")
ATTENTIONS = ("flash", "unfused")
LOSSES = ("fused", "unfused")
CONTEXTS = ("ring", "all_to_all")
LARGEST_LOAD = 1e6
LARGEST_CAPACITY = 1000
GRADIENT_DTYPES = ("fp32", "fp16", "bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What to simulate.

    Attributes:
        batch: Samples per iteration, over all replicas; no more than passes are simulated.
        deployment: Absent if a planner is to find it.
        precision: Dtype of weights, activations and gradients; the optimizer keeps fp32 copies. With ``fp8`` factors of
            products with weights are cast to it (https://arxiv.org/abs/2209.05433), but those of router and head, as
            in Transformer Engine, and all else is as with ``bf16``.
        attention: The kernels between the projections of attention: ``flash`` is one fused kernel, ``unfused`` computes
            and keeps whole matrices of scores (https://arxiv.org/abs/2205.05198 figure 3).
        loss: The kernels of the loss: ``fused`` reads the logits twice and writes fp32 probabilities, ``unfused`` has a
            kernel for each step of a softmax in fp32 (megatron/core/tensor_parallel/cross_entropy.py of
            https://github.com/NVIDIA/Megatron-LM).
        context_parallel: How ranks with parts of a sequence attend to the others': in a ``ring`` keys and values go
            round, one block ahead of the attention to it (https://arxiv.org/abs/2310.01889), or ``all_to_all`` gives
            every rank whole sequences of a part of its heads (https://arxiv.org/abs/2309.14509).
        expert_load: How many tokens go to each expert, in proportion, such as ``[3, 1, 1, 1]``; empty: as many to each.
        capacity_factor: An expert takes no more of a rank's tokens than so many times what an equal share would be, and
            the others are dropped (https://arxiv.org/abs/2101.03961 section 2.2); 0: none is.
        gradient_dtype: In which gradients of weights are added up and synchronised; absent: as ``precision``.
        launch_ps: What the host takes to launch one kernel or collective, 0 with CUDA graphs; a device waits for its
            host where that is longer than its own work (``xsim.plan.dispatch`` has figures of eager PyTorch).
        framework_bytes: What each device gives to the framework: contexts, kernels, libraries' own buffers.
        fragmentation: Part of what the framework has taken for tensors that lies unusable between them.
        contention: Part of a device's processors that a collective takes from what computes beside it: a product with
            ``tp_overlap`` of the deployment (``xsim.plan.beside`` has figures), attention beside the ring, and
            whatever runs beside syncs of gradients and weights.
    """

    cluster: ClusterSpec
    model: ModelSpec
    batch: int
    deployment: DeploymentPlan | None = None
    precision: Literal["fp32", "tf32", "fp16", "bf16", "fp8"] = "bf16"
    optimizer: Literal["adam", "sgd"] = "adam"
    attention: Literal["flash", "unfused"] = "flash"
    loss: Literal["fused", "unfused"] = "fused"
    context_parallel: Literal["ring", "all_to_all"] = "ring"
    expert_load: tuple[float, ...] = ()
    capacity_factor: float = 0.0
    gradient_dtype: Literal["fp32", "fp16", "bf16"] | None = None
    launch_ps: int = 0
    framework_bytes: int = 0
    fragmentation: float = 0.0
    contention: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, "batch", 1)
        at_most(self, "batch", MOST_ACTIONS)
        not_negative(self, "launch_ps")
        plausible(self, "launch_ps", 0, PS_PER_S, "0 s and 1 s")
        not_negative(self, "framework_bytes")
        for name in ("fragmentation", "contention"):
            if not 0 <= getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "a part of the whole lies in [0, 1)", "write 0.1 for 10 %")
        for name, offered in (
            ("precision", DTYPE_BYTES),
            ("optimizer", OPTIMIZERS),
            ("attention", ATTENTIONS),
            ("loss", LOSSES),
            ("context_parallel", CONTEXTS),
            ("gradient_dtype", (None, *GRADIENT_DTYPES)),
        ):
            if getattr(self, name) not in offered:
                fix = f"choose one of {', '.join(filter(None, offered))}"
                raise SpecError(name, getattr(self, name), "it is unknown", fix)
        self._check_load()
        if self.deployment is not None:
            check_deployment(self.deployment, self)

    def _check_load(self) -> None:
        experts, load = self.model.experts, self.expert_load
        if load and len(load) != experts:
            problem = f"{len(load)} shares for {experts} experts"
            raise SpecError("expert_load", list(load), problem, "give one per expert, or leave it out")
        if any(not 0 <= share < LARGEST_LOAD for share in load) or (load and not sum(load)):
            problem = f"shares are 0 or more and less than {LARGEST_LOAD:.0e}, and not all of them 0"
            raise SpecError("expert_load", list(load), problem, "write such as [3, 1, 1, 1]")
        plausible(self, "capacity_factor", 0, LARGEST_CAPACITY, f"0 and {LARGEST_CAPACITY}")
        if self.capacity_factor and not experts:
            raise SpecError("capacity_factor", self.capacity_factor, "the model has no experts", "leave it out")

    @property
    def dtype_bytes(self) -> int:
        """Bytes of one weight, activation or gradient element."""
        return DTYPE_BYTES[self.precision]

    @property
    def weight_bytes(self) -> int:
        """Bytes that a weight takes: in fp8 it is there a second and a third time, cast, and cast and transposed."""
        return self.dtype_bytes + (2 if self.precision == "fp8" else 0)

    @property
    def gradient_dtype_bytes(self) -> int:
        """Bytes of one element of a weight's gradient."""
        return DTYPE_BYTES[self.gradient_dtype or self.precision]


def check_deployment(plan: DeploymentPlan, scenario: Scenario) -> DeploymentPlan:
    """``plan`` with its ends (embedding, head), if it fits cluster, model and batch.

    Raises:
        SpecError: A rank is not in the cluster, a layer is missing, the samples do not add up, or replicas are too
            unlike to share out what ``zero`` says.
    """
    ranks = scenario.cluster.ranks
    for path, group in plan.groups():
        if max(group.ranks) >= ranks:
            problem = f"the cluster {scenario.cluster.name} has {ranks} ranks"
            raise SpecError(f"deployment.{path}.ranks", list(group.ranks), problem, f"use ranks 0..{ranks - 1}")
        if group.tp > scenario.model.heads:
            problem = f"TP {group.tp} is more than the model's {scenario.model.heads} heads"
            raise SpecError(f"deployment.{path}.ranks", list(group.ranks), problem, "use fewer ranks per group")
        _check_shares(group, scenario.model, f"deployment.{path}.tp_shares")
        _check_contexts(group, scenario, f"deployment.{path}.cp")
    if plan.samples != scenario.batch:
        problem = f"the deployment trains {plan.samples} samples"
        fix = f"write {plan.samples}, or share out {scenario.batch} in the deployment"
        raise SpecError("batch", scenario.batch, problem, fix)
    _check_simulated(plan, scenario.model)
    try:
        complete = with_ends(plan, scenario.model.layers)
    except SpecError as error:
        raise error.under("deployment") from None
    if plan.zero == 3:
        _check_one_order(plan, scenario.model)
    return complete


def _check_shares(group: DeviceGroup, model: ModelSpec, path: str) -> None:
    """Heads are cut whole, in groups of those that share keys and values where there are enough of these."""
    heads = model.heads if model.kv_heads < group.tp else model.kv_heads
    cuts = share_cuts(heads, group.tp, group.tp_shares)
    for rank, start, stop in zip(group.ranks, cuts, cuts[1:], strict=False):
        if start == stop:
            problem = f"of {heads} groups of heads rank {rank} would get none"
            raise SpecError(path, list(group.tp_shares), problem, "give it a larger share")


def _check_cells(stage: Stage, model: ModelSpec, path: str) -> None:
    """Groups that share out experts do everything together."""
    if model.experts and not stage.sequence_parallel and any(group.tp > 1 for group in stage.groups):
        problem = "tensor ranks without parts of the sequence would send each token to its experts several times"
        raise SpecError(f"{path}.sequence_parallel", False, problem, "write true, or groups of one tensor rank")
    if stage.ep == 1:
        return
    count = len(stage.groups)
    if stage.ep > model.experts:
        some = model.experts > 0
        problem = f"the model has {model.experts if some else 'no'} experts"
        raise SpecError(
            f"{path}.ep", stage.ep, problem, f"write ep: {model.experts} or less" if some else "write ep: 1"
        )
    if count % stage.ep:
        problem = f"the stage's {count} groups do not come out in sets of {stage.ep}"
        raise SpecError(f"{path}.ep", stage.ep, problem, "choose a divisor, or list more groups")
    for cell in stage.cells():
        if len({(group.tp, group.cp, group.samples) for group in cell}) > 1:
            problem = "groups that share out experts differ in ranks, cp or samples"
            raise SpecError(f"{path}.ep", stage.ep, problem, "make them alike, or write ep: 1")
        if any(len(set(group.tp_shares)) > 1 for group in cell):
            problem = "unequal tp_shares are not cut over groups that share out experts as well"
            raise SpecError(f"{path}.ep", stage.ep, problem, "leave tp_shares out, or write ep: 1")


def _check_contexts(group: DeviceGroup, scenario: Scenario, path: str) -> None:
    """Context ranks have two equal chunks of a sequence; an all-to-all deals whole heads, with their keys and values.

    A ring adds up what blocks of keys give, as fused attention does it; the matrices of the other are whole.
    """
    model, cp = scenario.model, group.cp
    if cp == 1:
        return
    if model.seq_len % (2 * cp):
        problem = f"{model.seq_len} tokens are not cut into {2 * cp} equal chunks"
        raise SpecError(path, cp, problem, "choose one whose double divides seq_len")
    if scenario.context_parallel == "ring" and scenario.attention != "flash":
        problem = f"with cp: {cp} a ring of keys and values needs fused attention"
        raise SpecError("attention", scenario.attention, problem, "write flash, or context_parallel: all_to_all")
    heads = share_cuts(model.kv_heads, group.tp)
    if scenario.context_parallel == "all_to_all" and any((b - a) % cp or a == b for a, b in pairwise(heads)):
        problem = f"an all-to-all deals heads whole, and {model.kv_heads} of keys over tp {group.tp} do not divide"
        raise SpecError(path, cp, problem, "choose one that divides the heads of a rank, or context_parallel: ring")


def _check_simulated(plan: DeploymentPlan, model: ModelSpec) -> None:
    """Refuse what a deployment can say and the simulation does not know.

    Raises:
        SpecError: Names the field and what to write instead.
    """
    for r, replica in enumerate(plan.replicas):
        for s, stage in enumerate(replica.stages):
            path = f"deployment.replicas[{r}].stages[{s}]"
            if stage.micro_batch not in (None, replica.micro_batch):
                problem = f"the replica's is {replica.micro_batch}, and regrouping between stages is not simulated yet"
                raise SpecError(f"{path}.micro_batch", stage.micro_batch, problem, f"write {replica.micro_batch}")
            _check_cells(stage, model, path)
            _check_recompute(stage, model, path)
    for path, group in plan.groups():
        if group.state_shares and not plan.zero:
            problem = "with zero: 0 every rank keeps all states of its own"
            fix = "leave it out, or write zero: 1, 2 or 3"
            raise SpecError(f"deployment.{path}.state_shares", list(group.state_shares), problem, fix)
    if plan.gather_overlap and not plan.zero:
        problem, fix = "with zero: 0 no parameters are gathered", "leave it out, or write zero: 1, 2 or 3"
        raise SpecError("deployment.gather_overlap", True, problem, fix)
    if plan.zero >= 2:
        _check_equal_counts(plan)


def _check_recompute(stage: Stage, model: ModelSpec, path: str) -> None:
    """Transformer layers are recomputed, where the stage has them."""
    own = {layer for part in stage.layers for layer in part if 1 <= layer <= model.layers}
    for number, entry in enumerate(stage.recompute):
        stray = [layer for layer in entry.layers if layer not in own]
        if stray:
            problem = f"the stage has no transformer layer {stray[0]}"
            fix = f"name layers of {', '.join(f'{part.start}..{part.stop - 1}' for part in stage.layers)}"
            raise SpecError(f"{path}.recompute[{number}].layers", entry.layers, problem, fix)


def _check_equal_counts(plan: DeploymentPlan) -> None:
    """Sharded gradients are summed micro-batch by micro-batch, so that all replicas need as many."""
    count = plan.replicas[0].micro_batches
    for r, replica in enumerate(plan.replicas):
        if replica.micro_batches != count:
            why = f"with zero: {plan.zero} gradients are summed after every micro-batch"
            path = f"deployment.replicas[{r}].micro_batches"
            problem, fix = f"replicas[0] has {count}, and {why}", "give all replicas as many, or write zero: 1"
            raise SpecError(path, replica.micro_batches, problem, fix)


def _check_one_order(plan: DeploymentPlan, model: ModelSpec) -> None:
    """All who hold a sharded weight gather it in the midst of their work, so that they need it in one order."""
    first = plan.replicas[0]
    why = "with zero: 3 all who hold a layer gather its weights together"
    for r, replica in enumerate(plan.replicas):
        path = f"deployment.replicas[{r}].stages"
        if len(replica.stages) != len(first.stages):
            problem = f"replicas[0] has {len(first.stages)} of them, and {why}"
            fix = "cut all replicas into the same stages, or write zero: 2"
            raise SpecError(path, len(replica.stages), problem, fix)
        for s, (stage, other) in enumerate(zip(replica.stages, first.stages, strict=True)):
            if _inner(stage, model) != _inner(other, model):
                problem = f"replicas[0] has {_inner(other, model)}, and {why}"
                fix = "give all replicas the same, or write zero: 2"
                raise SpecError(f"{path}[{s}].layers", _inner(stage, model), problem, fix)
    if model.tied and len(first.stages) > 1:
        problem = "the first and the last stage hold the tied token table and need it at unlike times"
        raise SpecError("deployment.zero", plan.zero, problem, "write zero: 2, or use one stage, or a model not tied")


def _inner(stage: Stage, model: ModelSpec) -> list[range]:
    """The layers of each virtual stage without embedding and head, which a deployment may leave unsaid."""
    return [range(max(part.start, 1), min(part.stop, model.layers + 1)) for part in stage.layers]
