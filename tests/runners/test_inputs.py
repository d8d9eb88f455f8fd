from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cli import read_command
from runners.inputs import SCHEMA_VERSION, canonical, key_of, read, resolved
from runners.points import Point, plan_single
from runners.settings import SETTING_KEYS
from xsim.errors import SpecError

OTHERS = (
    *("seed=1", "memory=report", "model.seq_len=1024"),
    *("background=load", "background=job", "noise=devices", "data_loading=1 ms"),
)


def point(*words: str) -> Point:
    return plan_single(read_command(words, "")).points[0]


@pytest.fixture(scope="module")
def fig4() -> Point:
    return point("network=analytic")


def test_reading_what_is_spelled_out_gives_the_same(fig4: Point) -> None:
    inputs = read(fig4.config)

    assert read(resolved(inputs)) == inputs
    assert json.loads(fig4.config_json) == json.loads(json.dumps(resolved(inputs)))


def test_the_key_ignores_spelling_and_sees_every_value(fig4: Point) -> None:
    assert point("network=analytic", "batch=24", "precision=bf16", "num_workers=3", "out=elsewhere").key == fig4.key
    others = [point("network=analytic", word).key for word in OTHERS]
    assert len({fig4.key, *others}) == 1 + len(OTHERS)


def test_without_noise_and_with_one_iteration_a_config_is_as_it_was(fig4: Point) -> None:
    config = {key: value for key, value in fig4.config.items() if key not in ("noise", "iterations", "data_loading")}

    assert read(config) == read(fig4.config)
    assert not {"noise", "iterations", "data_loading"} & set(json.loads(fig4.config_json))
    assert point("network=analytic", "noise=none", "iterations=1", "data_loading=0 s").key == fig4.key


def test_a_time_to_load_data_has_its_unit() -> None:
    late = point("data_loading=50 ms")

    assert read(late.config).experiment().data_loading_ps == 50 * 10**9
    assert late.key == point("data_loading=0.05 s").key
    assert read(resolved(read(late.config))) == read(late.config)
    for text, problem in (("50", "a quantity needs its unit"), ("7200 s", "not within 0 s to 3600 s")):
        with pytest.raises(SpecError, match=f"^data_loading = .*{problem}"):
            read({**late.config, "data_loading": text}).experiment()


def test_iterations_are_part_of_the_key_and_reach_the_experiment() -> None:
    few, more = (point("noise=devices", f"iterations={count}") for count in (3, 4))

    assert few.key != more.key
    assert read(resolved(read(few.config))) == read(few.config)
    assert [read(each.config).experiment().iterations for each in (few, more)] == [3, 4]
    with pytest.raises(SpecError, match="iterations = 2: neither noise nor background traffic"):
        point("iterations=2")


def test_a_congestion_control_is_part_of_the_key_however_it_is_chosen() -> None:
    chosen = point("network=packet", "network.congestion=dcqcn")
    spelled = point("network=packet", "network.congestion={name:dcqcn,gain:0.00390625}")
    told = point("network=packet", "network.congestion.gain=0.5", "network.congestion=dcqcn")
    as_whole = point("network=packet", "network.congestion={name:dcqcn,gain:0.5}")

    assert chosen.key == spelled.key
    assert told.key == as_whole.key
    assert len({point("network=packet").key, chosen.key, told.key}) == 3
    assert read(resolved(read(told.config))) == read(told.config)


def test_the_key_depends_on_the_code(fig4: Point) -> None:
    assert key_of(fig4.config_json, fig4.code) == fig4.key
    assert key_of(fig4.config_json, "another") != fig4.key
    assert SCHEMA_VERSION == 4


def test_units_may_be_spelled_differently(fig4: Point) -> None:
    config: dict[str, Any] = json.loads(json.dumps(fig4.config))
    text = json.dumps(config)
    assert "400 Gbps" in text

    same = json.loads(text.replace("400 Gbps", "50 GB/s"))

    assert resolved(read(same)) == resolved(read(config))


SETTINGS = {
    "out": "elsewhere",
    "num_workers": "3",
    "timeout_s": "5",
    "retries": "4",
    "retry": "failed",
    "force": "true",
    "only": "00",
    "dry_run": "true",
    "tracking": "none",
    "ray": "local",
    "reserve": "{packet:{cpus:2}}",
    "max_failures": "3",
    "time_budget": "8h",
    "shard": "1/2",
    "on_done": "echo",
    "detail": "[ranks]",
    "copy_to": "copies",
}


def test_nothing_that_says_where_and_how_a_sweep_runs_is_part_of_the_key(fig4: Point) -> None:
    words = [f"{key}={SETTINGS[key]}" for key in SETTING_KEYS]

    assert point("network=analytic", *words).key == fig4.key


@pytest.fixture(scope="module")
def packets() -> Point:
    """Many options: floats, whole numbers, texts, nested ones."""
    words = ["topology=fat_tree", "topology.oversubscription=2", "background=load", "network.congestion=dcqcn"]
    return point("network=packet", "+cluster.hosts.0.scale_up=nvswitch", *words)


def leaves(node: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else None
    if items is None:
        yield path
        return
    for key, child in items:
        yield from leaves(child, (*path, key))


def changed(config: object, path: tuple[str | int, ...], change: Callable[[Any], object]) -> Any:
    copy: Any = json.loads(json.dumps(config))
    node = copy
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = change(node[path[-1]])
    return copy


CHANGES: Mapping[str, Callable[[Any], object]] = {
    "one more": lambda value: value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else value,
    "a float": lambda value: float(value) if isinstance(value, int) and not isinstance(value, bool) else value,
    "the opposite": lambda value: not value if isinstance(value, bool) else value,
    "in other units": lambda value: value.replace("400 Gbps", "50 GB/s") if isinstance(value, str) else value,
    "another amount": lambda value: re.sub(r"^\d", "3", value) if isinstance(value, str) else value,
    "absent": lambda value: None,
}


@given(st.data())
def test_equal_experiments_have_one_key_and_others_another(packets: Point, data: st.DataObject) -> None:
    """Whatever value of a config is changed or only spelled differently."""
    paths = [path for path in leaves(packets.config) if path[-1] != "name"]
    path = data.draw(st.sampled_from(paths))
    change = CHANGES[data.draw(st.sampled_from(sorted(CHANGES)))]
    original = read(packets.config)
    try:
        other = read(changed(packets.config, path, change))
    except SpecError:
        return

    assert (canonical(other) == canonical(original)) == (other == original)
    assert json.loads(canonical(other)) == json.loads(json.dumps(resolved(other)))


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("launch=20", "launch = 20: a quantity needs its unit"),
        ("launch=2s", "launch = 2s: no host takes so long for one kernel"),
        ("framework=1", "framework = 1: a quantity needs its unit"),
        ("fragmentation=1", "fragmentation = 1.0: a part of the whole"),
        ("contention=much", "contention = 'much': its type is str"),
    ],
)
def test_what_frameworks_add_is_read_with_care(word: str, problem: str) -> None:
    with pytest.raises(SpecError, match="^" + re.escape(problem)):
        read(point("network=analytic", word).config).experiment()


@pytest.mark.parametrize("word", ["launch=20us", "framework=1.3GB", "fragmentation=0.1", "contention=0.12"])
def test_what_frameworks_add_is_part_of_the_key(fig4: Point, word: str) -> None:
    changed = point("network=analytic", word)

    assert changed.key != fig4.key
    assert read(changed.config) != read(fig4.config)


def test_a_whole_number_is_the_same_as_a_float_of_its_value(packets: Point) -> None:
    floats = ["topology.oversubscription=2.0", "background.load=1", "network.congestion.gain=1"]
    wholes = ["topology.oversubscription=2", "background.load=1.0", "network.congestion.gain=1.0"]
    words = ["network=packet", "network.congestion=dcqcn", "topology=fat_tree", "background=load"]

    assert point(*words, *floats).key == point(*words, *wholes).key
