"""Section 2.2, Figure 1: Llama-2 7B on five H100 (ranks 0 to 4) and five A100 (5 to 9)."""

from __future__ import annotations

from tests.paper.example import DG0, DG1, DG2, DG3, FIGURE_1
from xsim.plan.groups import dp_groups

H100, A100 = range(5), range(5, 10)


def test_batches_of_16_and_8() -> None:
    assert [replica.samples for replica in FIGURE_1.replicas] == [16, 8]
    assert FIGURE_1.samples == 24


def test_tensor_parallel_degrees_2_and_3() -> None:
    assert [group.tp for _, group in FIGURE_1.groups()] == [3, 2, 2, 3]


def test_20_layers_on_the_first_group_and_12_on_the_second() -> None:
    assert [len(group.layers) for group in (DG0, DG1)] == [20, 12]
    assert [len(group.layers) for group in (DG2, DG3)] == [15, 17]


def test_replicas_start_on_the_fast_host_and_end_on_the_slow_one() -> None:
    for replica in FIGURE_1.replicas:
        first, last = (stage.groups[0].ranks for stage in replica.stages)
        assert set(first) <= set(H100)
        assert set(last) <= set(A100)


def test_groups_of_unlike_degree_need_resharding() -> None:
    """Two of the three data-parallel groups, and every stage boundary, join a TP degree of 3 with one of 2."""
    holders = (DG0, DG1, DG2, DG3)
    degrees = [[len(holders[member].ranks) for member in group.members] for group in dp_groups(holders)]

    assert degrees == [[3, 2], [3, 3], [2, 3]]
    assert [[len(s.groups[0].ranks) for s in replica.stages] for replica in FIGURE_1.replicas] == [[3, 2], [2, 3]]
