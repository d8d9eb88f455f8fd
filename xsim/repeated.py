"""The iterations of an experiment, one after another, each with random numbers of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from xsim.company import beside_syncs
from xsim.fabric.fabric import Fabric
from xsim.iterations import Iterations
from xsim.plan.lower import Lowered
from xsim.plan.stalls import loading, stalled
from xsim.plan.workload import Workload
from xsim.question import Experiment
from xsim.sim.contracts import Network
from xsim.sim.executor import execute
from xsim.sim.timeline import Timeline
from xsim.spec.cluster import rank_devices

__all__ = ["Simulated", "simulated"]


@dataclass(frozen=True, slots=True)
class Simulated:
    """One iteration, the network that has run it, and how fast the device of each rank was."""

    speeds: tuple[float, ...]
    workload: Workload
    fabric: Fabric
    network: Network
    timeline: Timeline


def simulated(
    experiment: Experiment, lowered: Lowered, fabric: Fabric, begins: Callable[[int], None]
) -> tuple[Iterations, Simulated]:
    """What all took, and the one with the median time. Few are kept while others run: they can be large."""
    times_ps: list[int] = []
    for number in range(experiment.iterations):
        begins(number)
        found = _iteration(experiment, lowered, fabric, number)
        times_ps.append(found.timeline.makespan_ps)
    iterations = Iterations(tuple(times_ps))
    if iterations.median != experiment.iterations - 1:
        begins(iterations.median)
        found = _iteration(experiment, lowered, fabric, iterations.median)
    return iterations, found


def _iteration(experiment: Experiment, lowered: Lowered, nominal: Fabric, number: int) -> Simulated:
    draw = experiment.noise.draw(nominal, experiment.seed, number)
    seed = _seed(experiment.seed, number)
    devices = draw.devices(rank_devices(experiment.scenario.cluster))
    workload = lowered.on(devices) if draw.speeds else lowered.workload
    workload = loading(stalled(workload, draw.stalls), experiment.data_loading_ps)
    fabric = draw.fabric(nominal)

    def executed(workload: Workload) -> tuple[Network, Timeline]:
        network = experiment.network.open(fabric, seed, experiment.faults)
        background = experiment.background.traffic(nominal, seed)
        return network, execute(workload, network, fabric, fold=experiment.fold, background=background)

    network, timeline = executed(workload)
    if (share := experiment.scenario.contention) and workload.syncs:
        workload = beside_syncs(workload, timeline, share)
        network, timeline = executed(workload)
    return Simulated(tuple(device.speed for device in devices), workload, fabric, network, timeline)


def _seed(seed: int, iteration: int) -> int:
    """That of an iteration: of the first the run's own."""
    if not iteration:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {iteration}".encode()).digest()[:6])
