"""A network of one's own."""

from __future__ import annotations

from dataclasses import dataclass

from xsim.fabric.fabric import Fabric
from xsim.sim.contracts import Stream

__all__ = ["Quiet"]


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nobody else is on the network."""

    def traffic(self, fabric: Fabric, seed: int) -> tuple[Stream, ...]:
        return ()
