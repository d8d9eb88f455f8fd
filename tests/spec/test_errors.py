"""The four parts of an error, its way up, and its way to another process."""

from __future__ import annotations

import pickle

import pytest

from xsim.errors import SpecError


def test_the_path_grows_on_the_way_up() -> None:
    error = SpecError("bandwidth", 400, "a quantity needs its unit", "write 400 Gbps")
    seen = error.under("nic").under("[0]").under("hosts").under("").under("cluster")

    assert str(seen) == "cluster.hosts[0].nic.bandwidth = 400: a quantity needs its unit; write 400 Gbps"


def test_a_whole_document_has_a_name() -> None:
    assert str(SpecError("", [], "it is not a mapping", "write {}")) == "document = []: it is not a mapping; write {}"


def test_it_survives_pickling() -> None:
    error = SpecError("batch", 32, "the deployment trains 24 samples", "make them equal")
    again = pickle.loads(pickle.dumps(error))

    assert (again.field, again.value, again.problem, again.fix) == (error.field, 32, error.problem, error.fix)
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("400", "'400'"),
        ("400 Gbps", "400 Gbps"),
        ("h100", "'h100'"),
        (range(17, 33), "17..32"),
        ([0, 1, 2], "[0, 1, 2]"),
        pytest.param(2**5000, "<an integer of 5001 bits>", id="huge"),
        pytest.param(10**5000, "<an integer of 16610 bits>", id="beyond str()"),
    ],
)
def test_values_as_their_author_wrote_them(value: object, shown: str) -> None:
    assert str(SpecError("x", value, "p", "f")) == f"x = {shown}: p; f"


def test_long_values_are_cut() -> None:
    tree: list[object] = []
    for _ in range(60):
        tree = [tree] * 9
    for value in ("1" * 10**6, "a" * 10**6, list(range(10**5)), {str(i): i for i in range(10**4)}, tree):
        length = len(str(SpecError("x", value, "p", "f")))
        assert length < 300
