"""Megatron's equal split: the same TP, PP and micro-batch everywhere, whatever the devices are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from xsim.errors import SpecError
from xsim.plan.contracts import Site
from xsim.plan.layout import even_cuts
from xsim.spec.checks import at_least
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.scenario import Scenario
from xsim.units import parse_bytes

__all__ = ["Uniform"]


@dataclass(frozen=True, slots=True)
class Uniform:
    """Equal stages and equal replicas over all ranks, as Megatron-LM deals them out.

    Tensor ranks are neighbours, then come the data-parallel copies of a stage, and stages are farthest apart: rank
    ``(stage * dp + replica) * tp + i`` (https://arxiv.org/abs/2104.04473 section 3.4 keeps tensor ranks in a host).

    Attributes:
        tp: Tensor-parallel degree; 0 takes all devices of the smallest host.
        pp: Pipeline stages; layers that do not divide are dealt out as evenly as possible.
        chunks: Virtual stages of each stage, which hold the layers in turn; more than one needs a schedule for them.
        micro_batch: Samples of one micro-batch.
        sequence_parallel: Cut activations between operators over the sequence.
        recompute: What the backward pass computes again in every layer: ``none``, ``selective`` (attention between its
            projections), ``full``, or the name of one operator.
        bucket: Largest gradient bucket, such as ``100 MB``; empty: one per data-parallel group.
        zero, serial_sync, blocking_sends, tp_async, tp_overlap: Of the deployment, as they are.
    """

    tp: int = 0
    pp: int = 1
    chunks: int = 1
    micro_batch: int = 1
    sequence_parallel: bool = False
    recompute: str = "none"
    bucket: str = ""
    zero: int = 0
    serial_sync: bool = False
    blocking_sends: bool = False
    tp_async: bool = False
    tp_overlap: bool = False

    def __post_init__(self) -> None:
        at_least(self, "tp", 0)
        at_least(self, "pp", 1)
        at_least(self, "chunks", 1)
        at_least(self, "micro_batch", 1)
        if self.zero not in range(4):
            raise SpecError("zero", self.zero, "there is no such stage of ZeRO", "choose 0, 1, 2 or 3")
        self._bucket_bytes()

    def plan(self, scenario: Scenario, site: Site) -> DeploymentPlan:
        tp = self.tp or min(host.size for host in scenario.cluster.hosts)
        dp = self._replicas(scenario, tp)
        cuts = even_cuts(scenario.model.layers, self.pp * self.chunks)
        parts = [range(a + 1, b + 1) for a, b in pairwise(cuts)]
        stages = [tuple(parts[s :: self.pp]) for s in range(self.pp)]
        return DeploymentPlan(
            name=f"uniform_tp{tp}_pp{self.pp}_dp{dp}",
            replicas=tuple(
                Replica(
                    stages=tuple(self._stage((s * dp + r) * tp, tp, layers) for s, layers in enumerate(stages)),
                    micro_batch=self.micro_batch,
                    micro_batches=scenario.batch // (dp * self.micro_batch),
                )
                for r in range(dp)
            ),
            bucket_bytes=self._bucket_bytes(),
            zero=self.zero,
            serial_sync=self.serial_sync,
            blocking_sends=self.blocking_sends,
            tp_async=self.tp_async,
            tp_overlap=self.tp_overlap,
        )

    def _bucket_bytes(self) -> int | None:
        try:
            return parse_bytes(self.bucket) if self.bucket else None
        except SpecError as error:
            raise error.under("bucket") from None

    def _stage(self, first: int, tp: int, layers: tuple[range, ...]) -> Stage:
        group = DeviceGroup(ranks=tuple(range(first, first + tp)), samples=self.micro_batch)
        again = () if self.recompute == "none" else tuple(Recompute(operator=self.recompute, layers=p) for p in layers)
        return Stage(groups=(group,), layers=layers, sequence_parallel=self.sequence_parallel, recompute=again)

    def _replicas(self, scenario: Scenario, tp: int) -> int:
        """The data-parallel degree, if degrees, layers and batch come out even."""
        ranks, layers, heads = scenario.cluster.ranks, scenario.model.layers, scenario.model.heads
        if tp > heads:
            raise SpecError("planner.tp", tp, f"the model has {heads} heads", f"write tp: {heads} or less")
        if self.pp > layers:
            raise SpecError("planner.pp", self.pp, f"the model has {layers} layers", f"write pp: {layers} or less")
        if self.pp * self.chunks > layers:
            problem = f"{self.pp} stages of as many chunks are more than the model's {layers} layers"
            raise SpecError("planner.chunks", self.chunks, problem, f"write chunks: {layers // self.pp} or less")
        dp, rest = divmod(ranks, tp * self.pp)
        if rest:
            problem = f"tp {tp} x pp {self.pp} does not divide the cluster's {ranks} ranks"
            raise SpecError("planner", f"tp={tp}, pp={self.pp}", problem, "choose degrees whose product divides it")
        if scenario.batch % (dp * self.micro_batch):
            problem = f"{dp} replicas of micro-batch {self.micro_batch} do not divide it"
            fix = f"choose a multiple of {dp * self.micro_batch}, or another tp, pp or micro_batch"
            raise SpecError("batch", scenario.batch, problem, fix)
        return dp
