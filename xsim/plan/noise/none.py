"""Devices and links that are all as their data sheets have them, always."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.plan.draw import Draw

__all__ = ["Silent"]


@dataclass(frozen=True, slots=True)
class Silent:
    """Every device runs at its speed, every link at its rate, and nobody stands still."""

    def draw(self, fabric: Fabric, seed: int, iteration: int) -> Draw:
        return Draw()

    def varies(self) -> bool:
        return False
