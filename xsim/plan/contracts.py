"""The seams of the planning side: what a member of each family must do.

A member is one frozen dataclass in one file of the family's folder; its fields, all with defaults, are its options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from xsim.fabric.fabric import Fabric
from xsim.fabric.transfers import TransferGraph
from xsim.plan.comm import Collective, CommPlan
from xsim.plan.draw import Draw
from xsim.plan.layout import Layout
from xsim.plan.operator import Pass, Place, ShardedOperator
from xsim.plan.workload import Action, Workload
from xsim.spec.cluster import ClusterSpec, DeviceSpec
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario

__all__ = [
    "CollectiveAlgorithm",
    "ComputeModel",
    "Elsewhere",
    "Estimate",
    "EstimateSite",
    "Estimator",
    "Holding",
    "Noise",
    "Pass",
    "Planner",
    "PlannerSite",
    "Reshard",
    "Schedule",
    "ShardedOperator",
    "Site",
    "unheard",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a simulation tells a planner about a deployment."""

    training_time_ps: int
    fits: bool


class Site(Protocol):
    """What a member may ask beyond its arguments."""

    @property
    def fabric(self) -> Fabric:
        """The wires."""

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of the tensors that are moved."""

    def device(self, rank: int) -> DeviceSpec:
        """The device of a rank."""

    @property
    def reshards(self) -> tuple[str, ...]:
        """Names of all resharding strategies, sorted."""

    def reshard(self, name: str) -> Reshard:
        """The resharding strategy of that name, with its default options; a SpecError if it cannot be had."""

    @property
    def collectives(self) -> tuple[str, ...]:
        """Names of all collective algorithms, sorted."""

    def collective(self, name: str, **options: object) -> CollectiveAlgorithm:
        """The collective algorithm of that name with these options; a SpecError if it cannot be had."""

    def price(self, plan: CommPlan, element_bytes: int = 1) -> int:
        """Picoseconds that ``plan`` takes alone on the fabric, all ranks starting together."""

    def fair_ps(self, graph: TransferGraph) -> int:
        """Picoseconds that ``graph`` takes alone where flows share links fairly, whatever network was chosen.

        All ranks start together; its spans are in elements.
        """

    def simulate(self, deployment: DeploymentPlan) -> Estimate:
        """One iteration of ``deployment`` with the other chosen members."""

    def progress(self, done: int, of: int, what: str) -> None:
        """Tell whoever waits how far a search is: ``done`` of ``of`` such as ``what`` says, ``orders of devices``."""


def unheard(*_: object) -> None:
    """Progress that nobody waits for."""


class PlannerSite(Site, Protocol):
    """What a planner may ask beyond its arguments: the other chosen members too."""

    @property
    def compute(self) -> ComputeModel:
        """How long operators take."""

    @property
    def algorithm(self) -> CollectiveAlgorithm:
        """How collectives become transfers."""

    @property
    def strategy(self) -> Reshard:
        """How tensors move between unlike layouts, and gradients are summed."""

    @property
    def schedule(self) -> Schedule:
        """The order of passes in a pipeline."""

    def planner(self, name: str, **options: object) -> Planner:
        """The planner of that name with these options; a SpecError if it cannot be had."""


class Planner(Protocol):
    """Finds a deployment."""

    def plan(self, scenario: Scenario, site: PlannerSite) -> DeploymentPlan:
        """A deployment that fits cluster, model and batch, or a SpecError that says why there is none.

        What the planner thinks that an iteration takes stands in its ``predicted_ps``.
        """


class Reshard(Protocol):
    """Moves tensors between unlike layouts. Every plan must pass the judge (``xsim.plan.judge``)."""

    def move(self, source: Layout, target: Layout, site: Site) -> CommPlan:
        """Hand a tensor over at a pipeline boundary: afterwards every target rank holds its part."""

    def reduce(self, layouts: Sequence[Layout], site: Site) -> CommPlan:
        """Sum gradients: afterwards every rank of every layout holds the sum on its own part."""

    def reduce_scatter(self, layouts: Sequence[Layout], shards: Layout, site: Site) -> CommPlan:
        """The first half of a sum: afterwards every rank holds it on its shard.

        No layout is replicated; a shard lies inside what its rank holds. ``xsim.plan.halves`` has ready-made halves.
        """

    def gather(self, shards: Layout, layouts: Sequence[Layout], site: Site) -> CommPlan:
        """The second half: what every rank has on its shard goes to all who hold it."""


class CollectiveAlgorithm(Protocol):
    """Turns a collective into transfers."""

    def expand(self, collective: Collective, site: Site) -> TransferGraph:
        """Its transfers; one party, spans in the collective's own units (elements of ``site.element_bytes``)."""


class Schedule(Protocol):
    """The order of forward and backward passes of one stage."""

    def order(self, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> tuple[Action, ...]:
        """Of every micro-batch and chunk exactly one F, and one B or its halves I and W.

        A bidirectional schedule has ``chunks`` more, those of the mirrored stage, for the second half of the
        micro-batches, as ``xsim.plan.route`` says. A SpecError (``stages``, ``micro_batches`` or ``chunks``) refuses a
        shape.
        """


class Noise(Protocol):
    """What makes one iteration unlike another, and devices that are alike."""

    def draw(self, fabric: Fabric, seed: int, iteration: int) -> Draw:
        """That of an iteration, from 0; of each its own, whatever others are drawn."""

    def varies(self) -> bool:
        """Whether iterations differ."""


@runtime_checkable
class Holding(Protocol):
    """A compute model that knows times of whole layers, in which the collectives of tensor parallelism may be."""

    def holds(self, device: DeviceSpec, place: Place) -> bool:
        """Whether the times of the operators in ``place`` sum to one with the collectives of their layers in it.

        The collectives are simulated; what each takes alone is taken off the operators.
        """


class ComputeModel(Protocol):
    """How long an operator takes on a device."""

    def time_ps(self, device: DeviceSpec, operator: ShardedOperator, pass_: Pass) -> int:
        """Picoseconds of one pass; 0 if the operator has no such pass."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A workload on another cluster, and the wires that it would run on.

    Attributes:
        alone_ps: What transfers take alone on them, where flows share links fairly.
    """

    workload: Workload
    alone_ps: Callable[[TransferGraph], int]


class EstimateSite(Site, Protocol):
    """What an estimate may ask beyond its arguments."""

    def lowered(self, deployment: DeploymentPlan, cluster: ClusterSpec) -> Elsewhere:
        """``deployment`` on ``cluster``, with the other chosen members."""


class Estimator(Protocol):
    """How long another tool thinks that an iteration takes, by a formula of its own."""

    def time_ps(self, scenario: Scenario, deployment: DeploymentPlan, site: EstimateSite) -> int | None:
        """The iteration; None if nothing is estimated."""
