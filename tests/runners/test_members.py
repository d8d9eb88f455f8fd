from __future__ import annotations

import ast

import pytest

from runners import members
from runners.members import described
from runners.options import spelled, unwritten
from xsim import families


@pytest.mark.parametrize("family", [*families.FAMILIES, *families.INSIDE])
def test_every_member_is_described_as_it_is(family: str) -> None:
    found = {member.name: member for member in described(family)}

    place = f"{families.INSIDE[family]}.{family}" if family in families.INSIDE else family
    assert tuple(found) == families.names(family)
    for name, cls in families.members(family):
        assert found[name].about == (cls.__doc__ or "").partition("\n")[0]
        assert not found[name].meanings or all(found[name].meanings), "the docstring says what each option is"
        told = dict(option.partition("=")[::2] for option in found[name].options)
        usual = {f"{place}.{option}": spelled(value) for option, value in families.defaults(cls).items()}
        computed = {option for option, value in told.items() if value == "" != usual[option]}
        assert told == usual | dict.fromkeys(computed, "")
        assert computed <= {"collective.protocols", "network.congestion"}


def test_a_file_that_cannot_be_read_is_named_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "names", lambda family: ("lcm", "missing"))

    whole, broken = described("reshard")

    assert whole.about.startswith("LCM chunks")
    assert (broken.name, broken.about, broken.options) == ("missing", "", ())


def test_a_private_class_or_a_plain_one_is_no_member() -> None:
    tree = ast.parse("class Plain:\n    x: int = 1\n@dataclass\nclass _Own:\n    y: int = 2\n")

    assert members._description("reshard", "mine", tree).options == ()


def test_what_a_deployment_leaves_unwritten_has_its_value() -> None:
    assert {"deployment.bucket=null", "deployment.zero=0", "deployment.tp_overlap=false"} <= set(unwritten())
