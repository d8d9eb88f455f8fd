"""ETH (arxiv.org/abs/2610.22035), section 7.3, Figure 10b: block-wise against tensor-wise and device-wise all-reduce.

The paper's factors are 1.38 to 1.71 over tensor-wise and 1.56 to 2.74, growing with the model, over device-wise; which
model has which, only the figure shows. docs/eth_allreduce.md compares.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import pytest

from tests.examples import load, scenario
from tests.strategies import WiredSite
from xsim.experiment import Experiment, run
from xsim.families import build
from xsim.plan.layout import Layout
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.model import ModelSpec

SIZES = ("350m", "1_3b", "2_6b", "6_7b", "13b")
HOST = {"350m": 2, "1_3b": 2, "2_6b": 4, "6_7b": 4, "13b": 8}  # devices of a host: Table 2
CLUSTERS = ("eth_b2_b4", "eth_b2_b3", "eth_b3_b4", "eth_a100_3090")
BF16 = 2
PORT_BYTES_PER_S, STEP_S = 12.5e9, 14e-6  # 100 Gbps; a step of a ring between hosts


def middle(low: float, high: float) -> float:
    return math.sqrt(low * high)


def mean(factors: list[float]) -> float:
    """Geometric."""
    return math.exp(sum(map(math.log, factors)) / len(factors))


@cache
def sync_s(cluster: str, size: str, reshard: str) -> float:
    """The gradients of the first stage's layers, alone on the wires; all stages are alike."""
    plan, model = load(DeploymentPlan, f"eth_{size}"), load(ModelSpec, f"gpt3_{size}")
    first = [replica.stages[0] for replica in plan.replicas]
    layers = len(first[0].layers[0])
    whole = layers * model.layer_parameters(1)
    layouts = [Layout.even(group.ranks, whole, layers=layers) for stage in first for group in stage.groups]
    site = WiredSite(build("topology", {"name": "clos"}).build(load(ClusterSpec, cluster)))
    return site.price(build("reshard", {"name": reshard}).reduce(layouts, site), BF16) / 1e12


def factors(cluster: str, slower: str) -> list[float]:
    """How many times as long as block-wise, by model size."""
    return [sync_s(cluster, size, slower) / sync_s(cluster, size, "blockwise") for size in SIZES]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_block_wise_is_fastest_and_padding_costs_more_the_larger_the_model(cluster: str) -> None:
    tensor_wise, device_wise = factors(cluster, "tensorwise"), factors(cluster, "devicewise")

    assert min(tensor_wise + device_wise) > 1
    assert all(before <= after * 1.001 for before, after in pairwise(device_wise))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_means_are_within_a_quarter_of_the_middle_of_the_papers_ranges(cluster: str) -> None:
    assert mean(factors(cluster, "tensorwise")) == pytest.approx(middle(1.38, 1.71), rel=0.25)
    assert mean(factors(cluster, "devicewise")) == pytest.approx(middle(1.56, 2.74), rel=0.25)


def test_the_means_are_those_of_the_page() -> None:
    """docs/eth_allreduce.md: the gradients of the layers alone."""
    assert mean(factors("eth_b2_b4", "tensorwise")) == pytest.approx(1.189, abs=0.001)
    assert mean(factors("eth_b2_b4", "devicewise")) == pytest.approx(2.178, abs=0.001)


@pytest.mark.parametrize("size", SIZES)
def test_padding_costs_what_is_counted(size: str) -> None:
    """V among 2 M devices against V / M twice among three: 3 (2 M - 1) / 8 on hosts of M."""
    counted = {2: 1.125, 4: 2.625, 8: 5.625}[HOST[size]]

    assert sync_s("eth_b2_b4", size, "devicewise") / sync_s("eth_b2_b4", size, "blockwise") == pytest.approx(
        counted, rel=0.01
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_call_costs_four_steps(size: str) -> None:
    """13 calls per layer on each of two blocks instead of one for all layers, and three devices are four steps."""
    model, plan = load(ModelSpec, f"gpt3_{size}"), load(DeploymentPlan, f"eth_{size}")
    layers = len(plan.replicas[0].stages[0].layers[0])
    moved_s = 2 * (2 / 3) * layers * model.layer_parameters(1) * BF16 / (HOST[size] / 2) / PORT_BYTES_PER_S

    assert sync_s("eth_b2_b4", size, "blockwise") == pytest.approx(moved_s + 2 * 4 * STEP_S, rel=0.001)
    assert sync_s("eth_b2_b4", size, "tensorwise") == pytest.approx(moved_s + 13 * layers * 2 * 4 * STEP_S, rel=0.005)


def test_the_order_is_the_same_in_an_iteration() -> None:
    """The smallest model; tests/bench runs all."""
    asked = scenario("eth_b2_b4", "gpt3_350m", "eth_350m")
    times = {}
    for name in ("blockwise", "tensorwise", "devicewise"):
        result = run(Experiment(scenario=asked, reshard=build("reshard", {"name": name}), memory="report"))
        times[name] = dict(result.metrics.operator_time_s)["grad_sync"]

    assert times["tensorwise"] / times["blockwise"] == pytest.approx(1.404, abs=0.005)
    assert times["devicewise"] / times["blockwise"] == pytest.approx(1.124, abs=0.005)
