"""Whole iterations of ETH's pipelines with its three ways to synchronise gradients: the grid eth_allreduce."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.examples import scenario
from tests.paper.test_eth_all_reduce import CLUSTERS, SIZES, mean, middle
from xsim.experiment import Experiment, run
from xsim.families import build

LIMIT_S = 60


def syncing_s(cluster: str, size: str, reshard: str) -> float:
    """Mean over ranks of the time in gradient syncs."""
    asked = scenario(cluster, f"gpt3_{size}", f"eth_{size}")
    result = run(Experiment(scenario=asked, reshard=build("reshard", {"name": reshard}), memory="report"))
    return dict(result.metrics.operator_time_s)["grad_sync"]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_three_all_reduces_of_five_models(benchmark: Any, cluster: str) -> None:
    def factors() -> list[list[float]]:
        block_wise = [syncing_s(cluster, size, "blockwise") for size in SIZES]
        return [
            [syncing_s(cluster, size, slower) / fast for size, fast in zip(SIZES, block_wise, strict=True)]
            for slower in ("tensorwise", "devicewise")
        ]

    tensor_wise, device_wise = benchmark.pedantic(factors, rounds=1)

    assert min(tensor_wise + device_wise) > 1
    assert all(before <= after for before, after in pairwise(device_wise))
    assert mean(tensor_wise) == pytest.approx(middle(1.38, 1.71), rel=0.25)
    assert mean(device_wise) == pytest.approx(middle(1.56, 2.74), rel=0.25)
    assert benchmark.stats.stats.max < LIMIT_S
