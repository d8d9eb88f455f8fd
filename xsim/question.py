"""What a run is asked: a scenario, and one member of every family."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from xsim.errors import SpecError
from xsim.fabric.fabric import Topology
from xsim.families import build, name_of
from xsim.plan.contracts import (
    CollectiveAlgorithm,
    ComputeModel,
    Estimator,
    Noise,
    Planner,
    Reshard,
    Schedule,
)
from xsim.sim.contracts import Background, Fault, NetworkBackend
from xsim.spec.checks import at_least
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S, format_time

__all__ = ["Experiment"]

LONGEST_LOADING_PS = 3600 * PS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A scenario and one member of every family: all that a result depends on.

    Attributes:
        seed: For backends, background traffic and noise that draw random numbers.
        iterations: How many to simulate, each with random numbers of its own; those of the first are the same
            whatever their count.
        data_loading_ps: How late the samples of an iteration come, in spite of all that loads them ahead; 0, as each
            worker of PyTorch's DataLoader has two batches ready unless told otherwise (``prefetch_factor`` in
            https://pytorch.org/docs/stable/data.html).
        faults: Links that fail during the run; they work while collectives and deployments are priced.
        memory: ``enforce`` raises ``DoesNotFitError`` before simulating, ``report`` simulates all the same.
        verify: Let the judge prove every communication plan, its transfers, and every collective of the run.
        fold: False walks every action step by step: slower, and no number may change.
    """

    scenario: Scenario
    planner: Planner = field(default_factory=partial(build, "planner", {"name": "given"}))
    reshard: Reshard = field(default_factory=partial(build, "reshard", {"name": "lcm"}))
    collective: CollectiveAlgorithm = field(default_factory=partial(build, "collective", {"name": "ring"}))
    schedule: Schedule = field(default_factory=partial(build, "schedule", {"name": "one_f_one_b"}))
    compute: ComputeModel = field(default_factory=partial(build, "compute", {"name": "roofline"}))
    topology: Topology = field(default_factory=partial(build, "topology", {"name": "clos"}))
    network: NetworkBackend = field(default_factory=partial(build, "network", {"name": "flow"}))
    background: Background = field(default_factory=partial(build, "background", {"name": "none"}))
    noise: Noise = field(default_factory=partial(build, "noise", {"name": "none"}))
    estimate: Estimator = field(default_factory=partial(build, "estimate", {"name": "none"}))
    seed: int = 0
    iterations: int = 1
    data_loading_ps: int = 0
    faults: tuple[Fault, ...] = ()
    memory: Literal["enforce", "report"] = "enforce"
    verify: bool = False
    fold: bool = True

    def __post_init__(self) -> None:
        at_least(self, "iterations", 1)
        if not 0 <= self.data_loading_ps <= LONGEST_LOADING_PS:
            fix = "check the number and its unit"
            raise SpecError("data_loading", format_time(self.data_loading_ps), "it is not within 0 s to 3600 s", fix)
        if self.iterations > 1 and not self.noise.varies() and name_of("background", self.background) == "none":
            problem = "neither noise nor background traffic makes one unlike another"
            raise SpecError("iterations", self.iterations, problem, "write 1, or choose noise=devices, say")
