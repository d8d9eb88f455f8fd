from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from analysis.pairs import Pairs, paired

TIME = "training_time_s"


def row(reshard: str = "lcm", time_s: float | None = 2.0, seq_len: int = 2048, **more: Any) -> dict[str, Any]:
    config = json.dumps({"model": {"name": more.get("model", "m"), "seq_len": seq_len}})
    named = {"cluster": "fig4", "model": "llama", "network": "flow", "reshard": reshard, "point": "", "seed": 0}
    status = "ok" if time_s is not None else "failed"
    rest = {"status": status, "reason": "", "code": "c0", "config_json": config, TIME: time_s, "energy_j": 5.0}
    return named | rest | more


def pairs(one: list[dict[str, Any]], other: list[dict[str, Any]], metric: str = TIME) -> Pairs:
    return paired(pa.Table.from_pylist(one), pa.Table.from_pylist(other), metric)


def test_equal_rows_have_nothing_that_changed() -> None:
    found = pairs([row(), row("star", float("nan"))], [row("star", float("nan")), row()])

    assert [pair.changed for pair in found.pairs] == [(), ()]
    assert (found.between, found.only_one, found.only_other) == ((), 0, 0)


def test_the_same_points_side_by_side() -> None:
    found = pairs([row(), row("star", 3.0), row("ntp", None)], [row("star", 6.0), row(energy_j=6.0), row("best")])

    lcm, star = found.pairs
    assert (lcm.name, lcm.ratio, lcm.changed) == ("lcm", 1.0, ("energy_j",))
    assert not lcm.equal
    assert (star.name, star.one, star.other, star.ratio, star.changed) == ("star", 3.0, 6.0, 2.0, (TIME,))
    assert (found.only_one, found.only_other) == (1, 1)


def test_an_option_of_the_whole_sweep_is_what_is_compared() -> None:
    one = [row(network="flow", point="a=1"), row("star", network="flow", point="a=1")]
    other = [row(network="packet", point="a=2"), row("star", 4.0, network="packet", point="a=2")]

    found = pairs(one, other)

    assert found.between == ("network flow -> packet", "point a=1 -> a=2")
    assert [pair.ratio for pair in found.pairs] == [1.0, 2.0]


def test_inputs_that_changed_are_named_once_if_they_are_the_same_everywhere() -> None:
    one = [row(seq_len=2048), row("star", seq_len=2048), row("ntp", seq_len=2048, code="c0")]
    other = [row(seq_len=512), row("star", seq_len=512), row("ntp", seq_len=512)]

    found = pairs(one, other)
    assert found.between == ("model.seq_len 2048 -> 512",)
    assert [pair.changed for pair in found.pairs] == [(), (), ()]

    mixed = pairs(one, [other[0], *one[1:]])
    assert mixed.between == ()
    assert [pair.changed for pair in mixed.pairs] == [("model.seq_len 2048 -> 512",), (), ()]
    assert [pair.equal for pair in mixed.pairs] == [True, True, True], "an input is no figure"


def test_a_row_that_failed_since_is_told() -> None:
    (pair,) = pairs([row()], [row(time_s=None, code="c1")]).pairs

    assert (pair.one, pair.other, pair.ratio) == (2.0, "failed", None)
    assert pair.changed == ("status ok -> failed",)
    assert pairs([row()], [row(code="c1")]).between == ("the simulator's code",)


@pytest.mark.parametrize("rows", [[row()], [row(), row("star")]])
def test_nothing_is_shared(rows: list[dict[str, Any]]) -> None:
    found = pairs(rows, [row("ntp"), row("best")])

    assert found.pairs == ()
    assert (found.only_one, found.only_other) == (len(rows), 2)
