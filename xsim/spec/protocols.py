"""What NCCL's protocols cost on each generation of devices: ``protocols.yaml`` beside this file, with sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from xsim.errors import SpecError
from xsim.spec.checks import not_negative
from xsim.spec.codec import from_plain
from xsim.spec.yaml_text import load

__all__ = [
    "PROTOCOLS",
    "GenerationCosts",
    "LinkClass",
    "LinkCosts",
    "Mode",
    "PairCosts",
    "Protocol",
    "WireCost",
    "generation",
    "generations",
    "is_listed",
]

Protocol = Literal["ll", "ll128", "simple"]
LinkClass = Literal["scale_up", "pcie", "network"]
Mode = Literal[Protocol, "in_switch", "pairs_ll", "pairs_simple"]
PROTOCOLS: tuple[Protocol, ...] = ("ll", "ll128", "simple")
OTHERS = "others"  # the generation of every device that no other lists


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCost:
    """What one step costs besides the wires' own latency and bandwidth.

    Attributes:
        delay_ps: Of each transfer.
        share: Part of the bandwidth that is left for payload, above 0 and at most 1.
    """

    delay_ps: int
    share: float

    def __post_init__(self) -> None:
        not_negative(self, "delay_ps")
        if not 0 < self.share <= 1:
            raise SpecError("share", self.share, "it is not a part of the bandwidth", "write a number above 0 up to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCosts:
    """Of sends and receives of many pairs at once."""

    ll: WireCost
    simple: WireCost


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCosts:
    """Of each protocol, on one class of links.

    Attributes:
        pairs: Absent where they cost what the protocols do.
    """

    ll: WireCost
    ll128: WireCost
    simple: WireCost
    pairs: PairCosts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InSwitchCost(WireCost):
    """Of a step of a sum in the switches of a scale-up fabric.

    Attributes:
        ranks: The fewest of a host for which the switches are used.
    """

    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationCosts:
    """All that one generation of devices adds to ideal wires.

    Attributes:
        devices: Names in the device library.
        base_ps: From the launch of a collective to its first transfer.
        most_channels: How many rings or trees one collective runs at once at most.
        in_switch: Absent where the switches do not sum.
    """

    devices: tuple[str, ...] = ()
    base_ps: int
    most_channels: int
    scale_up: LinkCosts
    pcie: LinkCosts
    network: LinkCosts
    in_switch: InSwitchCost | None = None

    def cost(self, link: LinkClass, protocol: Mode) -> WireCost:
        """Of a step over ``link``. Switches that sum have costs of their own on scale-up links alone."""
        if protocol == "in_switch":
            return self.in_switch if self.in_switch is not None and link == "scale_up" else self.cost(link, "simple")
        costs: LinkCosts = getattr(self, link)
        own = costs.pairs if costs.pairs is not None and protocol.startswith("pairs") else costs
        found: WireCost = getattr(own, protocol.removeprefix("pairs_"))
        return found


@cache
def generations() -> Mapping[str, GenerationCosts]:
    """All generations by name."""
    text = resources.files("xsim.spec").joinpath("protocols.yaml").read_text(encoding="utf-8")
    return {name: from_plain(GenerationCosts, value, name) for name, value in load(text).items()}


@cache
def generation(device: str) -> GenerationCosts:
    """Of the device of that name; that of ``others`` if none lists it."""
    listed = (costs for costs in generations().values() if device in costs.devices)
    return next(listed, generations()[OTHERS])


def is_listed(device: str) -> bool:
    """Whether some generation lists the device of that name."""
    return any(device in costs.devices for costs in generations().values())
