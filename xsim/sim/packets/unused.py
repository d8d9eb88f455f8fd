"""Options of packets that would change nothing beside others."""

from __future__ import annotations

from collections.abc import Mapping

from xsim.errors import SpecError
from xsim.sim.packets.engine import Engine
from xsim.sim.packets.settings import OF_MEMORY, Settings
from xsim.sim.packets.skip import engine_for

__all__ = ["check_used"]


def check_used(settings: Settings, given: Mapping[str, object], *, credit_inside: bool = False) -> None:
    """Refuse what is ``given`` and has no say.

    Args:
        given: Values by names of fields of the settings.
        credit_inside: Whether links work by credit in any case, those inside hosts.

    Raises:
        SpecError: An option has no say; by its name.
    """
    for name, (problem, fix) in _unused(settings, credit_inside=credit_inside).items():
        if name in given:
            raise SpecError(name, given[name], problem, f"leave it out, or {fix}")


def _unused(settings: Settings, *, credit_inside: bool) -> Mapping[str, tuple[str, str]]:
    """What nothing depends on: why, and what would let something."""
    found: dict[str, tuple[str, str]] = {}
    control = settings.flow_control
    if control != "credit" and not credit_inside:
        found["credit_bytes"] = f"with flow_control={control} no link works by credit", "set flow_control=credit"
    if control != "pause":
        paused = (f"with flow_control={control} nobody is paused", "set flow_control=pause")
        found |= dict.fromkeys(("resume_gap_bytes", "pfc_bytes"), paused)
    if control == "credit":
        problem = "with flow_control=credit each link has a buffer of its own"
        found |= dict.fromkeys(OF_MEMORY, (problem, "set credit_bytes"))
    if settings.congestion.asking and control != "credit":
        problem = "switches that cut packets neither pause anybody nor mark nor lose packets"
        found |= dict.fromkeys((*OF_MEMORY, "ecn"), (problem, "choose another congestion control"))
    if len(settings.lanes) == 1:
        found["class_order"] = "all packets are of one class", "give some another class"
    if settings.selective:
        found["nack_interval_ps"] = "a selective receiver never asks for what is missing", "set receiver=in_order"
    if settings.fast_forward and engine_for(settings) is Engine:
        problem = "with these options every packet is simulated"
        found["fast_forward"] = problem, "choose other ways, flow and congestion controls, and no sample"
    if settings.retry_ps is None:
        found["retries"] = "without retry_ps no sender goes back by itself", "set retry_ps"
    return found
