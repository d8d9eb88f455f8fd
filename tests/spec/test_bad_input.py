"""What people get wrong most, one message each: path, value, problem, fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xsim.errors import SpecError
from xsim.spec.codec import from_plain
from xsim.spec.scenario import Scenario
from xsim.spec.yaml_text import load

CONF = Path(__file__).parents[2] / "conf"


def plain(kind: str, name: str) -> Any:
    return load((CONF / kind / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def scenario() -> dict[str, Any]:
    """The paper's Figure 4 as plain data, for a test to spoil."""
    return {
        "cluster": plain("cluster", "fig4"),
        "model": plain("model", "llama2_7b"),
        "batch": 24,
        "deployment": plain("deployment", "fig4_7b"),
    }


def message(scenario: dict[str, Any]) -> str:
    with pytest.raises(SpecError) as caught:
        from_plain(Scenario, scenario)
    return str(caught.value)


def test_unknown_device(scenario: dict[str, Any]) -> None:
    scenario["cluster"]["hosts"][0]["devices"][0]["device"] = "h1000"

    assert message(scenario) == (
        "cluster.hosts[0].devices[0].device = 'h1000': there is no such device; did you mean h100_80?"
    )


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "x", True, 2**40])
@pytest.mark.parametrize("place", ["replica", "stage"])
def test_a_micro_batch_that_its_only_group_takes(scenario: dict[str, Any], place: str, wrong: object) -> None:
    """The error names the key that was written, not the samples that follow from it."""
    replica = scenario["deployment"]["replicas"][0]
    for stage in replica["stages"]:
        stage["groups"] = [{"ranks": stage["groups"][0]["ranks"]}]
    where = replica if place == "replica" else replica["stages"][1]
    where["micro_batch"] = wrong
    path = "deployment.replicas[0]" if place == "replica" else "deployment.replicas[0].stages[1]"

    assert message(scenario).startswith(f"{path}.micro_batch = {wrong!r}: it ")


def test_missing_unit(scenario: dict[str, Any]) -> None:
    scenario["cluster"]["hosts"][0]["nic"]["bandwidth"] = 400

    assert message(scenario) == (
        "cluster.hosts[0].nic.bandwidth = 400: a quantity needs its unit; "
        "write a number and one of GB/s, TB/s, Mbps, Gbps, Tbps"
    )


def test_overlapping_ranks(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][1]["stages"][0]["groups"][0]["ranks"] = [2, 4]

    assert message(scenario) == (
        "deployment.replicas[1].stages[0].groups[0].ranks = [2, 4]: "
        "rank 2 is also in replicas[0].stages[0].groups[0]; give each rank to one group"
    )


def test_rank_twice(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][1]["stages"][0]["groups"][0]["ranks"] = [3, 3]

    assert message(scenario) == (
        "deployment.replicas[1].stages[0].groups[0].ranks = [3, 3]: a group needs distinct ranks; list each rank once"
    )


def test_gap_between_stages(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][1]["stages"][1]["layers"] = {"first": 17, "last": 32}

    assert message(scenario) == (
        "deployment.replicas[1].stages[1].layers = 17..32: the stage before it ends at layer 15; start it at layer 16"
    )


def test_stages_end_too_early(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][1]["stages"][1]["layers"] = {"first": 16, "last": 30}

    assert message(scenario) == (
        "deployment.replicas[1].stages[1].layers = 16..30: "
        "its last stage ends at layer 30, the model has 32; end it at 32"
    )


def test_layers_backwards(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][1]["stages"][1]["layers"] = {"first": 16, "last": 3}

    assert message(scenario) == (
        "deployment.replicas[1].stages[1].layers[0].last = 3: the last layer is before the first, 16; "
        "write such as {first: 1, last: 20}"
    )


def test_cp_that_does_not_divide(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][0]["stages"][0]["groups"][0]["cp"] = 2

    assert message(scenario) == (
        "deployment.replicas[0].stages[0].groups[0].cp = 2: it does not divide 3 ranks; choose a divisor"
    )


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("tp_shares", [2, 1], "[2.0, 1.0]: 2 shares for 3 ranks; give one share per rank, or leave it out"),
        (
            "tp_shares",
            [2, 1, 0],
            "[2.0, 1.0, 0.0]: a share is more than 0 and less than 1e+06; write such as [2, 2, 1]",
        ),
        (
            "tp_shares",
            [1, 99, 99],
            "[1.0, 99.0, 99.0]: of 32 groups of heads rank 0 would get none; give it a larger share",
        ),
        (
            "state_shares",
            [1, 0.5, 0],
            "[1.0, 0.5, 0.0]: a share is more than 0 and less than 1e+06; write such as [2, 2, 1]",
        ),
        (
            "state_shares",
            [1, 1, 2],
            "[1.0, 1.0, 2.0]: with zero: 0 every rank keeps all states of its own; leave it out, or write zero: 1, 2 "
            "or 3",
        ),
        ("cp", 3, "3: 4096 tokens are not cut into 6 equal chunks; choose one whose double divides seq_len"),
    ],
)
def test_a_group_that_cannot_be(scenario: dict[str, Any], path: str, value: object, told: str) -> None:
    scenario["deployment"]["replicas"][0]["stages"][0]["groups"][0][path] = value

    assert message(scenario) == f"deployment.replicas[0].stages[0].groups[0].{path} = {told}"


def test_what_is_not_simulated_is_refused(scenario: dict[str, Any]) -> None:
    stage = scenario["deployment"]["replicas"][0]["stages"][1]
    path = "deployment.replicas[0].stages[1]"

    stage["recompute"] = [{"operator": "core", "layers": {"first": 20, "last": 32}}]
    assert message(scenario) == (
        f"{path}.recompute[0].layers = 20..32: the stage has no transformer layer 20; name layers of 21..32"
    )
    stage["recompute"] = []
    stage["ep"] = 2
    assert message(scenario) == f"{path}.ep = 2: the model has no experts; write ep: 1"
    stage["micro_batch"], stage["groups"][0]["samples"] = 2, 2
    assert message(scenario) == (
        f"{path}.micro_batch = 2: the replica's is 1, and regrouping between stages is not simulated yet; write 1"
    )
    stage["micro_batch"], stage["groups"][0]["samples"] = 3, 3
    assert message(scenario) == f"{path}.micro_batch = 3: it does not divide the replica's 16 samples; choose a divisor"


def test_there_is_no_fourth_stage_of_zero(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["zero"] = 4

    assert message(scenario) == "deployment.zero = 4: there is no such stage of ZeRO; choose 0, 1, 2 or 3"


def test_batch_that_does_not_add_up(scenario: dict[str, Any]) -> None:
    scenario["batch"] = 32

    assert (
        message(scenario) == "batch = 32: the deployment trains 24 samples; write 24, or share out 32 in the deployment"
    )


def test_samples_that_do_not_add_up(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][0]["stages"][0]["groups"][0]["samples"] = 2

    assert message(scenario) == (
        "deployment.replicas[0].stages[0].groups = 2: its groups take 2 samples, the micro-batch has 1; make them equal"
    )


def test_deployment_larger_than_the_cluster(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][1]["stages"][1]["groups"][0]["ranks"] = [7, 8, 10]

    assert message(scenario) == (
        "deployment.replicas[1].stages[1].groups[0].ranks = [7, 8, 10]: the cluster fig4 has 10 ranks; use ranks 0..9"
    )


def test_misspelt_key(scenario: dict[str, Any]) -> None:
    scenario["deployment"]["replicas"][0]["microbatches"] = 4

    assert message(scenario) == (
        "deployment.replicas[0].microbatches = 4: Replica has no such key; did you mean micro_batches?"
    )


def test_unknown_precision(scenario: dict[str, Any]) -> None:
    scenario["precision"] = "bf61"

    assert message(scenario) == "precision = 'bf61': it is unknown; choose one of fp32, tf32, fp16, bf16, fp8"


def test_missing_part(scenario: dict[str, Any]) -> None:
    del scenario["model"]

    assert message(scenario) == "model = None: it is missing; Scenario needs it"
