"""YAML without its surprises."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from xsim.errors import SpecError
from xsim.spec.yaml_text import dump, load


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: no", {"a": "no"}),
        ("a: on", {"a": "on"}),
        ("a: true", {"a": True}),
        ("a: 1e9", {"a": 1e9}),
        ("a: 2.0e9", {"a": 2e9}),
        ("a: 010", {"a": "010"}),
        ("a: 1:30", {"a": "1:30"}),
        ("a: 1_3", {"a": "1_3"}),
        ("a: 2026-01-31", {"a": "2026-01-31"}),
        ("a: 0x10", {"a": 16}),
        ("a: -4", {"a": -4}),
        ("a: ~\nb:", {"a": None, "b": None}),
        ("a: '4'", {"a": "4"}),
        ("a: &x [1, 2]\nb: *x", {"a": [1, 2], "b": [1, 2]}),
        ("", None),
    ],
)
def test_reads(text: str, value: object) -> None:
    assert load(text) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' stands here twice"),
        ("a: [1, 2", "line 1, column 9: expected ',' or ']', but got '<stream end>'"),
        ("[1]: 2", "line 1, column 1: a key must be text"),
        ("a: !!python/object:os.system x", "line 1, column 4: could not determine a constructor for the tag"),
        ("a: !!int x", "line 1, column 4: 'x' is not such a value"),
        ("a: 1" + "0" * 5000, "line 1, column 4: '1000"),
        ("a: &x [*x]", "line 1, column 4: found unconstructable recursive node"),
        ("a: 1\n---\nb: 2", "line 2, column 1: but found another document"),
        ("a: \x00", "it is not YAML: unacceptable character"),
        ("[" * 3000, "it is nested too deeply"),
    ],
)
def test_refuses(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(text)
    assert caught.value.problem.startswith(problem)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_what_is_written_comes_back(value: object) -> None:
    assert load(dump(value)) == value


@pytest.mark.parametrize("word", ["no", "yes", "on", "1e9", "010", "1:30", "1_3", "2026-01-31", "null", "=", "<<"])
def test_other_readers_see_text_too(word: str) -> None:
    assert yaml.safe_load(dump({"a": word})) == load(dump({"a": word})) == {"a": word}
