"""What protocols cost: within their design, of devices that exist, and refused if it cannot be."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest

from xsim.errors import SpecError
from xsim.spec.library import device_names
from xsim.spec.protocols import PROTOCOLS, LinkClass, WireCost, generation, generations

EACH = pytest.mark.parametrize("name", generations())
LINKS = ("scale_up", "pcie", "network")


def test_each_device_belongs_to_one_generation_at_most() -> None:
    listed = list(chain.from_iterable(costs.devices for costs in generations().values()))

    assert set(listed) <= set(device_names())
    assert len(listed) == len(set(listed))
    assert generation("h200") is generation("h100_pcie_80") is generations()["hopper"]
    assert generation("a100_pcie_80") is generations()["ampere"]
    assert generation("rtx_3090") is generation("of my own") is generations()["others"]


def test_what_no_generation_lists_has_figures_of_others() -> None:
    """As the README says."""
    hopper, ampere, ada, others = (generations()[name] for name in ("hopper", "ampere", "ada", "others"))

    assert others.base_ps == hopper.base_ps
    assert others.scale_up == replace(ampere.scale_up, pairs=None)
    assert others.pcie == ada.pcie
    assert others.network == hopper.network == ampere.network == ada.network
    assert others.in_switch is None


@EACH
@pytest.mark.parametrize("link", LINKS)
def test_what_is_quick_to_start_wastes_most(name: str, link: LinkClass) -> None:
    costs = [generations()[name].cost(link, protocol) for protocol in PROTOCOLS]

    assert [cost.delay_ps for cost in costs] == sorted(cost.delay_ps for cost in costs)
    assert [cost.share for cost in costs] == sorted(cost.share for cost in costs)


@EACH
@pytest.mark.parametrize("link", LINKS)
def test_half_of_ll_and_a_sixteenth_of_ll128_are_flags(name: str, link: LinkClass) -> None:
    assert generations()[name].cost(link, "ll").share <= 1 / 2
    assert generations()[name].cost(link, "ll128").share <= 120 / 128


def test_switches_have_their_own_costs_on_scale_up_links_and_pairs_inside_a_host() -> None:
    hopper, ada = generations()["hopper"], generations()["ada"]

    assert hopper.cost("scale_up", "in_switch") is hopper.in_switch
    assert hopper.cost("network", "in_switch") is hopper.network.simple
    assert hopper.scale_up.pairs is not None
    assert hopper.cost("scale_up", "pairs_ll") is hopper.scale_up.pairs.ll
    assert hopper.cost("network", "pairs_ll") is hopper.network.ll
    assert ada.pcie.pairs is not None
    assert ada.cost("pcie", "pairs_simple") is ada.pcie.pairs.simple
    assert ada.cost("pcie", "in_switch") is ada.pcie.simple


@pytest.mark.parametrize("share", [0.0, -0.5, 1.1])
def test_a_share_is_a_part(share: float) -> None:
    with pytest.raises(SpecError, match="it is not a part of the bandwidth; write a number above 0 up to 1"):
        WireCost(delay_ps=0, share=share)
