"""Megatron's equal split: the same TP, PP and micro-batch everywhere, whatever the devices are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from xsim.errors import NoPlanError, SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.layout import even_cuts
from xsim.plan.memory import shortfall
from xsim.plan.recompute import check_operator, recomputable
from xsim.plan.search.deployed import Deployed
from xsim.plan.search.grids import grids, powers_of_two
from xsim.plan.search.price import price
from xsim.plan.search.shortage import Shortage, nothing_fits
from xsim.plan.search.tables import tables
from xsim.plan.sketch import sketch_of
from xsim.spec.checks import at_least
from xsim.spec.cluster import rank_devices
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Recompute, Replica, Stage
from xsim.spec.scenario import Scenario, check_deployment
from xsim.units import parse_bytes

__all__ = ["Uniform"]

LARGEST_MICRO_BATCH = 8  # that is tried
SHORTEST = 4096  # tokens of a context rank that is tried: with less, work hides little of what keys and values take


@dataclass(frozen=True, slots=True)
class Uniform:
    """Equal stages and equal replicas over all ranks, as Megatron-LM deals them out.

    Tensor ranks are neighbours, then come the context ranks, then the data-parallel copies of a stage, and stages are
    farthest apart: rank ``((stage * dp + copy) * cp + context) * tp + i``, the order ``tp-cp-ep-dp-pp`` of Megatron-LM
    (https://arxiv.org/abs/2104.04473 section 3.4 keeps tensor ranks in a host). Every ``ep`` copies that follow one
    another are the groups of one stage, and share out its experts.

    Attributes:
        tp: Tensor-parallel degree; 0 takes all devices of the smallest host.
        cp: Context-parallel degree; 0 with ``search``: the best, each context rank having 4096 tokens or more.
        ep: Expert-parallel degree; it divides the data-parallel one; 0 with ``search``: the best power of two.
        pp: Pipeline stages; layers that do not divide are dealt out as evenly as possible.
        chunks: Virtual stages of each stage, which hold the layers in turn; more than one needs a schedule for them.
        micro_batch: Samples of one micro-batch.
        sequence_parallel: Cut activations between operators over the sequence.
        recompute: What the backward pass computes again in every layer: ``none``, ``selective`` (attention between its
            projections), ``full``, or the name of one operator.
        bucket: Largest gradient bucket, such as ``100 MB``; empty: one per data-parallel group.
        search: Take the ``tp``, ``pp`` and ``micro_batch`` that fit and have the shortest iteration by its closed form,
            which is that without ``zero`` and without the settings after it; none of the three is given then. Grids
            that cannot be, such as two stages with ``zero: 3`` and a tied model, are passed over.
        zero, gather_overlap, serial_sync, blocking_sends, rendezvous, tp_async, tp_overlap: Of the deployment, as they
            are.
    """

    tp: int = 0
    cp: int = 1
    ep: int = 1
    pp: int = 1
    chunks: int = 1
    micro_batch: int = 1
    sequence_parallel: bool = False
    recompute: str = "none"
    bucket: str = ""
    search: bool = False
    zero: int = 0
    gather_overlap: bool = False
    serial_sync: bool = False
    blocking_sends: bool = False
    rendezvous: bool = False
    tp_async: bool = False
    tp_overlap: bool = False

    def __post_init__(self) -> None:
        at_least(self, "tp", 0)
        at_least(self, "cp", 0 if self.search else 1)
        at_least(self, "ep", 0 if self.search else 1)
        at_least(self, "pp", 1)
        at_least(self, "chunks", 1)
        at_least(self, "micro_batch", 1)
        if self.zero not in range(4):
            raise SpecError("zero", self.zero, "there is no such stage of ZeRO", "choose 0, 1, 2 or 3")
        self._bucket_bytes()
        self._check_search()

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        if self.recompute != "none":
            check_operator("planner.recompute", self.recompute, recomputable(scenario))
        return self._best(scenario, site) if self.search else self._grid(scenario)

    def _grid(self, scenario: Scenario) -> DeploymentPlan:
        tp = self.tp or min(host.size for host in scenario.cluster.hosts)
        dp = self._replicas(scenario, tp)
        cuts = even_cuts(scenario.model.layers, self.pp * self.chunks)
        parts = [range(a + 1, b + 1) for a, b in pairwise(cuts)]
        stages = [tuple(parts[s :: self.pp]) for s in range(self.pp)]
        return DeploymentPlan(
            name=f"uniform_tp{tp}{self._more()}_pp{self.pp}_dp{dp}",
            replicas=tuple(
                Replica(
                    stages=tuple(self._stage(s * dp + first, tp, layers) for s, layers in enumerate(stages)),
                    micro_batch=self.ep * self.micro_batch,
                    micro_batches=scenario.batch // (dp * self.micro_batch),
                )
                for first in range(0, dp, self.ep)
            ),
            bucket_bytes=self._bucket_bytes(),
            zero=self.zero,
            gather_overlap=self.gather_overlap,
            serial_sync=self.serial_sync,
            blocking_sends=self.blocking_sends,
            rendezvous=self.rendezvous,
            tp_async=self.tp_async,
            tp_overlap=self.tp_overlap,
        )

    def _check_search(self) -> None:
        usual = {"tp": 0, "pp": 1, "chunks": 1, "micro_batch": 1}
        for name, value in usual.items() if self.search else ():
            if getattr(self, name) != value:
                problem = "with search: true stages are not virtual" if name == "chunks" else "search: true finds it"
                raise SpecError(name, getattr(self, name), problem, "leave it out, or write search: false")

    def _best(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        """Of the grids that fit the one with the shortest iteration; of equals the one with the smallest degrees.

        Raises:
            NoPlanError: None fits, or none can be at all: then it says of the first why.
        """
        shortage, refused = Shortage(), list[SpecError]()
        timed = sorted(self._timed(scenario, site, refused), key=lambda each: each[0])
        if refused and not timed:
            first = refused[0]
            raise NoPlanError(first.field, first.value, first.problem, first.fix)
        for predicted_ps, deployment in timed:
            rank, lacks_bytes = shortfall(scenario, deployment, site.schedule.order)
            if not lacks_bytes:
                return replace(deployment, predicted_ps=predicted_ps)
            shortage.note(rank_devices(scenario.cluster)[rank].name, lacks_bytes)
        raise nothing_fits("uniform", scenario, rank_devices(scenario.cluster), shortage)

    def _timed(
        self, scenario: Scenario, site: PlannerSite, refused: list[SpecError]
    ) -> Iterator[tuple[int, DeploymentPlan]]:
        """Of each grid that can be what it takes; of the others ``refused`` gets why."""
        priced = tables(scenario, site, sequence_parallel=self.sequence_parallel)
        cut, deployed = priced.sequence_parallel, Deployed(scenario, site)
        each = [(cp, own) for cp in self._contexts(scenario) for own in grids(scenario, 0, LARGEST_MICRO_BATCH, cp)]
        for number, (cp, grid) in enumerate(each):
            site.progress(number, len(each), "grids")
            if not replace(grid, dp=cp * grid.dp).stages(scenario):
                continue
            own = replace(self, search=False, tp=grid.tp, cp=cp, ep=1, pp=grid.pp, micro_batch=grid.samples)
            for ep in self._expert_degrees(scenario, grid.dp):
                found = replace(own, sequence_parallel=cut, ep=ep)
                try:
                    deployment = check_deployment(found.plan(scenario, site), scenario)
                except SpecError as error:
                    refused.append(error)
                    continue
                if cp * ep > 1:
                    yield deployed.price_ps(deployment), deployment
                else:
                    yield price(sketch_of(deployment, scenario), priced).iteration_ps, deployment

    def _contexts(self, scenario: Scenario) -> Sequence[int]:
        return (self.cp,) if self.cp else powers_of_two(max(1, scenario.model.seq_len // SHORTEST))

    def _expert_degrees(self, scenario: Scenario, dp: int) -> list[int]:
        each = [self.ep] if self.ep else powers_of_two(max(1, min(dp, scenario.model.experts)))
        return [ep for ep in each if dp % ep == 0]

    def _bucket_bytes(self) -> int | None:
        try:
            return parse_bytes(self.bucket) if self.bucket else None
        except SpecError as error:
            raise error.under("bucket") from None

    def _more(self) -> str:
        return "".join(f"_{name}{degree}" for name, degree in (("cp", self.cp), ("ep", self.ep)) if degree > 1)

    def _stage(self, first: int, tp: int, layers: tuple[range, ...]) -> Stage:
        """Of the copies from number ``first`` on."""
        size = tp * self.cp
        groups = tuple(
            DeviceGroup(ranks=tuple(range(copy * size, (copy + 1) * size)), samples=self.micro_batch, cp=self.cp)
            for copy in range(first, first + self.ep)
        )
        again = () if self.recompute == "none" else tuple(Recompute(operator=self.recompute, layers=p) for p in layers)
        cut = self.sequence_parallel
        return Stage(groups=groups, layers=layers, sequence_parallel=cut, ep=self.ep, recompute=again)

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
        dp, rest = divmod(ranks, tp * self.cp * self.pp)
        if rest:
            degrees = {"tp": tp} | ({"cp": self.cp} if self.cp > 1 else {}) | {"pp": self.pp}
            problem = (
                f"{' x '.join(f'{k} {v}' for k, v in degrees.items())} does not divide the cluster's {ranks} ranks"
            )
            shown = ", ".join(f"{k}={v}" for k, v in degrees.items())
            raise SpecError("planner", shown, problem, "choose degrees whose product divides it")
        if dp % self.ep:
            problem = f"it does not divide the {dp} data-parallel copies of a stage"
            raise SpecError("planner.ep", self.ep, problem, "choose a divisor, or other degrees")
        if scenario.batch % (dp * self.micro_batch):
            problem = f"{dp} replicas of micro-batch {self.micro_batch} do not divide it"
            fix = f"choose a multiple of {dp * self.micro_batch}, or other degrees or micro_batch"
            raise SpecError("batch", scenario.batch, problem, fix)
        return dp
