from __future__ import annotations

import json
from typing import Any

import pytest

from runners.cli import read_command
from runners.inputs import SCHEMA_VERSION, key_of, read, resolved
from runners.points import Point, plan_single

OTHERS = ("seed=1", "memory=report", "model.seq_len=1024", "background=load", "background=job")


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
