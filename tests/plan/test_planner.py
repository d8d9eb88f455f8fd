from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.toy import cluster, model
from tests.planning import site_of
from xsim.errors import SpecError
from xsim.plan.planner.given import Given
from xsim.plan.planner.uniform import Uniform
from xsim.spec.scenario import Scenario, check_deployment


def test_gpt3_175b_on_1024_devices_is_tp8_pp16_dp8() -> None:
    gpt3 = model(layers=96, hidden=12288, heads=96, ffn=49152, vocab=51200, seq_len=2048)
    asked = Scenario(cluster=cluster(*(8,) * 128), model=gpt3, batch=512)

    found = Uniform(pp=16).plan(asked, site_of(asked))

    assert found.name == "uniform_tp8_pp16_dp8"
    assert len(found.replicas) == 8
    assert {len(replica.stages) for replica in found.replicas} == {16}
    assert {replica.micro_batches for replica in found.replicas} == {64}
    assert {len(stage.layers[0]) for stage in found.replicas[0].stages} == {6}


def test_tensor_ranks_are_neighbours_then_replicas_then_stages() -> None:
    asked = Scenario(cluster=cluster(4, 4), model=model(), batch=8)

    found = Uniform(tp=2, pp=2).plan(asked, site_of(asked))

    ranks = [[stage.groups[0].ranks for stage in replica.stages] for replica in found.replicas]
    assert ranks == [[(0, 1), (4, 5)], [(2, 3), (6, 7)]]


def test_stages_hold_the_chunks_in_turn() -> None:
    asked = Scenario(cluster=cluster(4), model=model(layers=10), batch=8)

    (replica,) = Uniform(tp=2, pp=2, chunks=2).plan(asked, site_of(asked)).replicas

    held = [[(part.start, part.stop - 1) for part in stage.layers] for stage in replica.stages]
    assert held == [[(1, 2), (6, 7)], [(3, 5), (8, 10)]]


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(6, 20))
def test_every_rank_and_sample_is_used_once(tp: int, pp: int, dp: int, micro_batch: int, layers: int) -> None:
    asked = Scenario(cluster=cluster(tp * pp * dp), model=model(layers=layers), batch=2 * dp * micro_batch)

    found = Uniform(tp=tp, pp=pp, micro_batch=micro_batch).plan(asked, site_of(asked))

    assert sorted(rank for _, group in found.groups() for rank in group.ranks) == list(range(tp * pp * dp))
    assert {stage.layers[0].stop - stage.layers[0].start for stage in found.replicas[0].stages} <= {
        layers // pp,
        -(-layers // pp),
    }
    check_deployment(found, asked)


def test_buckets_are_as_large_as_asked() -> None:
    asked = Scenario(cluster=cluster(4), model=model(), batch=8)

    assert Uniform(tp=1).plan(asked, site_of(asked)).bucket_bytes is None
    assert Uniform(tp=1, bucket="100 MB").plan(asked, site_of(asked)).bucket_bytes == 100_000_000
    with pytest.raises(SpecError, match=r"^bucket = '7': a quantity needs its unit"):
        Uniform(bucket="7")


def test_the_default_tensor_degree_is_the_smallest_host() -> None:
    asked = Scenario(cluster=cluster(4, 2, 2), model=model(), batch=8)

    assert Uniform().plan(asked, site_of(asked)).name == "uniform_tp2_pp1_dp4"


@pytest.mark.parametrize(
    ("planner", "batch", "message"),
    [
        (Uniform(tp=3), 8, "planner = 'tp=3, pp=1': tp 3 x pp 1 does not divide the cluster's 8 ranks; "),
        (Uniform(tp=16), 8, "planner.tp = 16: the model has 8 heads; write tp: 8 or less"),
        (Uniform(pp=5), 8, "planner.pp = 5: the model has 4 layers; write pp: 4 or less"),
        (
            Uniform(pp=2, chunks=3),
            8,
            "planner.chunks = 3: 2 stages of as many chunks are more than the model's 4 layers; write chunks: ",
        ),
        (Uniform(tp=2), 6, "batch = 6: 4 replicas of micro-batch 1 do not divide it; choose a multiple of 4, or "),
        (Given(), 8, "deployment = None: the planner 'given' takes the scenario's own deployment, and it has none; "),
    ],
)
def test_what_cannot_be_planned(planner: Given | Uniform, batch: int, message: str) -> None:
    asked = Scenario(cluster=cluster(4, 4), model=model(), batch=batch)

    with pytest.raises(SpecError) as caught:
        planner.plan(asked, site_of(asked))

    assert str(caught.value).startswith(message)
