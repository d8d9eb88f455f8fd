"""What can be said about a point without simulating it."""

from __future__ import annotations

from runners.inputs import read
from runners.points import Point
from xsim.errors import SpecError
from xsim.plan.memory import deployment_memory
from xsim.spec.scenario import check_deployment

__all__ = ["line"]


def line(point: Point) -> str:
    """Title, what is known to go wrong, and the beginning of the key under which the result will lie."""
    fate = _fate(point)
    return f"{point.title}{f'  {fate}' if fate else ''}  [{point.key[:8]}]"


def _fate(point: Point) -> str:
    if point.contradiction:
        return f"invalid: {point.contradiction}"
    experiment = read(point.config).experiment()
    scenario = experiment.scenario
    if point.labels["planner"] != "given" or scenario.deployment is None:
        return "(memory is known when it is planned)"
    deployment = check_deployment(scenario.deployment, scenario)
    try:
        memory = deployment_memory(scenario, deployment, experiment.schedule.order)
    except SpecError as refusal:  # of the schedule: the pipeline has not the shape that it needs
        return f"invalid: {refusal}"
    if memory.fits:
        return ""
    return f"{'does_not_fit' if experiment.memory == 'enforce' else 'simulated, but does not fit'}: {memory.text}"
