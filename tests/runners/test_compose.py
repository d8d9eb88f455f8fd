from __future__ import annotations

import itertools
import json
from pathlib import Path

import hydra
import pytest
import yaml
from omegaconf import OmegaConf

from analysis.titles import USUAL
from runners.cli import read_command
from runners.compose import Plain, delete, place, session
from runners.options import CONF
from runners.points import Point, plan_single, plan_sweep
from xsim import families
from xsim.errors import SpecError


def shared() -> Plain:
    return {"a": {"b": 1, "list": [{"x": 1}, {"x": 2}]}}


def test_placing_copies_what_is_shared() -> None:
    original = shared()
    config = dict(original)

    place(config, "a.list.1.x", 9, add=False)
    place(config, "a.new", 3, add=True)

    assert config == {"a": {"b": 1, "list": [{"x": 1}, {"x": 9}], "new": 3}}
    assert original == shared()


def test_deleting_copies_what_is_shared() -> None:
    original = shared()
    config = dict(original)

    delete(config, "a.list.0")
    delete(config, "a.b")

    assert config == {"a": {"list": [{"x": 2}]}}
    assert original == shared()


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("a.lst", "a.lst = 0: there is no such key; did you mean list"),
        ("c.d", "c.d = 0: there is no such key as c"),
        ("a.list.2.x", "a.list.2 = .*: there is no such entry; write a number from 0 to 1"),
        ("a.b.c", "a.b = 1: it has no keys inside"),
    ],
)
def test_an_unknown_key_is_refused(key: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        place(shared(), key, 0, add=False)


def test_a_misspelt_key_that_a_deployment_may_leave_unwritten_is_recognised() -> None:
    with pytest.raises(SpecError, match=r"deployment.zeroo = 1: there is no such key; did you mean zero\?"):
        plan_single(read_command(["deployment.zeroo=1"], ""))


def seq_len(point: Point) -> object:
    model = point.config["model"]
    assert isinstance(model, dict)
    return model["seq_len"]


def test_values_apply_to_every_option_of_a_swept_group() -> None:
    words = ["model=llama2_7b,gpt3_350m", "deployment=null", "planner=uniform", "batch=60", "model.seq_len=512,1024"]

    plan = plan_sweep(read_command(words, ""))

    found = [(p.labels["model"], p.choice, seq_len(p)) for p in plan.points]
    assert found == [
        ("llama2_7b", "model.seq_len=512", 512),
        ("llama2_7b", "model.seq_len=1024", 1024),
        ("gpt3_350m", "model.seq_len=512", 512),
        ("gpt3_350m", "model.seq_len=1024", 1024),
    ]


def test_what_a_deployment_leaves_unwritten_is_an_axis() -> None:
    words = ["deployment.zero=0,1", "deployment.serial_sync=true", "deployment.bucket=25 MB"]

    plan = plan_sweep(read_command(words, ""))

    found = [json.loads(point.config_json)["deployment"] for point in plan.points]
    assert [(each.get("zero", 0), each["serial_sync"], each["bucket"]) for each in found] == [
        (0, True, "25 MB"),
        (1, True, "25 MB"),
    ]
    assert len({point.key for point in plan.points}) == 2


def test_a_deployment_that_the_planner_does_not_read_is_a_contradiction() -> None:
    words = ["planner=uniform,given", "deployment.zero=1", "batch=24"]

    uniform, given = plan_sweep(read_command(words, "")).points

    assert given.contradiction is None
    assert str(uniform.contradiction) == (
        "deployment.zero = 1: the planner uniform makes a deployment of its own; "
        "write planner.zero if it has this option, or planner=given"
    )


def test_planners_that_begin_with_a_deployment_get_it() -> None:
    words = ["planner=repair,xsim", "planner.lost=[1]", "deployment.zero=1"]
    repair, anew = plan_sweep(read_command([*words, "batch=24"], "")).points
    warm, _ = plan_sweep(read_command(["planner=xsim", "planner.warm_start=true", "deployment.zero=1,0"], "")).points

    for point in (repair, warm):
        assert point.contradiction is None
        assert point.labels["deployment"] == "fig4_7b"
        assert '"zero":1' in point.config_json
    assert anew.labels["deployment"] is None
    assert "the planner xsim makes a deployment of its own" in str(anew.contradiction)


def test_only_ranks_and_layers_suggest_another_cluster_or_model() -> None:
    point = plan_sweep(read_command(["deployment.zero=0,3"], "")).points[1]

    assert point.contradiction is not None
    assert "fig4_7b was written for" not in str(point.contradiction)


def test_options_and_interpolations_of_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("defaults: [llama2_7b, _self_]\nname: mine\nseq_len: ${seed}\n")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "long.yaml").write_text("# @package _global_\nseed: 8192\n")
    words = ["--config-dir", str(tmp_path), "+experiment=long", "model=mine"]

    (point,) = plan_single(read_command(words, "")).points

    assert seq_len(point) == 8192
    assert point.labels["model"] == "mine"


def test_only_the_chosen_members_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    real = families.member

    def fragile(family: str, name: str) -> type:
        if name in ("lcm", "alpacomm"):
            raise SpecError(family, name, "its file is broken", "correct it")
        return real(family, name)

    monkeypatch.setattr(families, "member", fragile)

    assert plan_single(read_command(["reshard=hetauto"], "")).points[0].labels["reshard"] == "hetauto"
    assert plan_sweep(read_command(["reshard=hetauto", "seed=0,1"], "")).points
    with pytest.raises(SpecError, match="reshard = 'lcm': its file is broken"):
        plan_single(read_command([], ""))


@pytest.mark.parametrize(
    ("fixed", "axes"),
    [
        ("+experiment=fig4_13b ~cluster.scale_out.spines", "reshard=lcm,star seed=0,7 model.seq_len=512,1024"),
        ("planner=uniform batch=64 ++cluster.hosts.0.count=2", "cluster=fig4,gpt3_1024 model=llama2_7b,gpt3_175b"),
        ("deployment.replicas.0.micro_batch=3 +deployment.zero=1", "network=packet,flow network.reuse=true,false"),
    ],
)
def test_points_are_joined_as_hydra_would_compose_them(fixed: str, axes: str) -> None:
    """Each composed by Hydra alone."""
    columns = [
        [f"{key}={value}" for value in text.split(",")] for key, _, text in (a.partition("=") for a in axes.split())
    ]
    points = plan_sweep(read_command([*fixed.split(), *axes.split()], "")).points

    with session():
        for point, choice in zip(points, itertools.product(*columns), strict=True):
            chosen = [word for word in choice if not word.startswith("network.")]  # Hydra knows no options of members
            plain = OmegaConf.to_container(hydra.compose("config", [*fixed.split(), *chosen]), resolve=True)
            assert isinstance(plain, dict)
            if point.labels["planner"] != "given":
                plain["deployment"] = None
            for key in ("cluster", "model", "deployment", "precision", "optimizer", "seed", "memory", "verify"):
                node = plain[key]
                assert point.config[key] == ({"name": point.labels[key]} | node if isinstance(node, dict) else node)
            for family in families.FAMILIES:
                assert plain[family]["name"] == point.labels[family]
                node = json.loads(point.config_json).get(family, {"name": "none"})
                assert node["name"] == point.labels[family]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["planner.tp=8"],
            "planner.tp = 8: planner=given has no option tp; planner=malleus and planner=uniform have it",
        ),
        (
            ["+planner.tp=8"],
            "planner.tp = 8: planner=given has no option tp; planner=malleus and planner=uniform have it",
        ),
        (["reshard.knob=5"], "reshard.knob = 5: reshard=lcm has no option knob; it has max_concurrent_rings"),
        (["reshard=hetauto", "reshard.knob=5"], "reshard.knob = 5: reshard=hetauto has no option knob; it has none"),
        (["planner=uniform", "planner.ppp=8"], "planner=uniform has no option ppp; did you mean pp"),
    ],
)
def test_an_option_of_another_member_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan_single(read_command(words, ""))


def test_a_title_says_what_was_set() -> None:
    (point,) = plan_single(
        read_command(["model.seq_len=1024", "memory=report", "network=analytic", "seed=3"], "")
    ).points

    assert point.title == "fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/analytic/model.seq_len=1024, memory=report/s3"


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("", "fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/flow/s0"),
        (
            "collective=ring compute=roofline topology=clos planner=given",
            "fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/flow/s0",
        ),
        ("collective=nvls topology=rail", "fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/nvls/rail/flow/s0"),
        (
            "topology=rail topology.pxn=true",
            "fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/rail/flow/topology.pxn=true/s0",
        ),
        (
            "background=load background.load=0.5",
            "fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/flow/load/background.load=0.5/s0",
        ),
        ("noise=devices iterations=3", "fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/flow/devices/iterations=3/s0"),
        ("planner=uniform deployment=null batch=60", "fig4/llama2_7b/uniform/one_f_one_b/lcm/flow/b60/s0"),
        ("timeout_s=null network.reuse=false", "fig4/llama2_7b/fig4_7b/one_f_one_b/lcm/flow/network.reuse=false/s0"),
    ],
)
def test_a_title_names_what_is_not_the_default(words: str, title: str) -> None:
    (point,) = plan_single(read_command(words.split(), "")).points

    assert point.title == title


def test_what_a_title_need_not_name_is_what_a_command_gets_that_says_nothing() -> None:
    defaults = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    usual = {group: option for entry in defaults if isinstance(entry, dict) for group, option in entry.items()}

    assert USUAL.items() <= usual.items()


@pytest.mark.parametrize(
    "words",
    [
        "collective=ring,nvls topology=clos,rail network=flow,analytic",
        "schedule=one_f_one_b,gpipe reshard=lcm,star seed=0,1 verify=true,false",
        "planner=uniform deployment=null batch=60,120 planner.sequence_parallel=true,false",
        "deployment.zero=0,1 deployment.bucket=null,25MB",
    ],
)
def test_every_point_of_a_sweep_has_a_title_of_its_own(words: str) -> None:
    points = plan_sweep(read_command(words.split(), "")).points

    assert len({point.title for point in points}) == len(points) == 2 ** words.count(",")


def test_the_example_grid_has_48_points() -> None:
    points = plan_sweep(read_command(["+grid=hetero_llama"], "")).points

    assert len(points) == 48
    assert {point.labels["reshard"] for point in points} == {"lcm", "hetauto", "alpacomm"}
    assert all(str(point.labels["deployment"]).startswith(str(point.labels["cluster"])) for point in points)
    assert not any(point.contradiction for point in points)
