"""The folder is the registry, and a broken file in it harms nobody but its own option."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xsim import families
from xsim.errors import SpecError
from xsim.families import FAMILIES, INSIDE, build, defaults, member, members, name_of, names, plain
from xsim.plan import reshard

GOOD = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    knob: int = 3
    parts: tuple[int, ...] = (1, 2)
    def move(self, source, target, site): ...
    def reduce(self, layouts, site): ...
    def reduce_scatter(self, layouts, shards, site): ...
    def gather(self, shards, layouts, site): ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose files are strategies beside those of the package."""
    monkeypatch.setattr(reshard, "__path__", [*reshard.__path__, str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    names.cache_clear()
    yield tmp_path
    names.cache_clear()


def test_a_file_is_an_option(folder: Path) -> None:
    (folder / "fine.py").write_text(GOOD)

    assert {"fine", "lcm"} <= set(names("reshard"))
    assert defaults(member("reshard", "fine")) == {"knob": 3, "parts": (1, 2)}
    assert build("reshard", {"name": "fine", "knob": 7}).knob == 7


def test_an_option_may_be_a_member_of_another_family() -> None:
    usual, named = build("network", {"name": "packet"}), build("network", {"name": "packet", "congestion": "dcqcn"})
    told = build("network", {"name": "packet", "congestion": {"name": "dcqcn", "gain": 1}})

    assert plain(usual)["congestion"] == {"name": "none"}
    assert named == build("network", {"name": "packet", **plain(named)}) != told
    assert plain(told)["congestion"] == defaults(member("congestion", "dcqcn")) | {"name": "dcqcn", "gain": 1.0}
    with pytest.raises(SpecError, match="congestion = 'dcqcn': it is no congestion control; build one of dcqcn, "):
        member("network", "packet")(congestion="dcqcn")


def test_a_list_serves_as_a_tuple(folder: Path) -> None:
    (folder / "fine.py").write_text(GOOD)

    assert build("reshard", {"name": "fine", "parts": [3, 4]}).parts == (3, 4)
    with pytest.raises(
        SpecError, match=r"reshard\.parts = \[3, 'x'\]: this option does not take it; write a list, .*int"
    ):
        build("reshard", {"name": "fine", "parts": [3, "x"]})


@pytest.mark.parametrize(
    ("family", "node", "message"),
    [
        (
            "collective",
            {"name": "ring", "protocol": "LL"},
            "collective.protocol = 'LL': this option does not take it; choose one of none, ll, ll128, simple",
        ),
        (
            "collective",
            {"name": "auto", "protocols": ["none"]},
            "collective.protocols = ['none']: this option does not take it; "
            "write a list, [..., ...]; of its items: choose one of ll, ll128, simple",
        ),
        (
            "topology",
            {"name": "clos", "oversubscription": "2"},
            "topology.oversubscription = '2': this option does not take it; write a value of type float, or null",
        ),
        (
            "topology",
            {"name": "clos", "oversubscription": float("inf")},
            "topology.oversubscription = inf: it is not within 0.001 to 1e6; check the number and its unit",
        ),
        (
            "planner",
            {"name": "uniform", "zero": 4},
            "planner.zero = 4: there is no such stage of ZeRO; choose 0, 1, 2 or 3",
        ),
        ("network", {"name": "packet", "congestion": "bbr"}, "network.congestion = 'bbr': there is no such option; "),
        ("network", {"name": "packet", "congestion": 3}, "network.congestion = 3: it names no option; write one of dc"),
        (
            "network",
            {"name": "packet", "congestion": {"gain": 0.5}},
            "network.congestion = {'gain': 0.5}: it names no option; write one of dcqcn, dctcp, ",
        ),
        (
            "network",
            {"name": "packet", "congestion": {"name": "dcqcn", "gian": 1}},
            "network.congestion.gian = 1: dcqcn has no such option; it takes alpha_ns, ",
        ),
        (
            "network",
            {"name": "packet", "congestion": {"name": "dcqcn", "gain": 7}},
            "network.congestion.gain = 7: it is no weight; choose above 0, up to 1",
        ),
        (
            "network",
            {"name": "packet", "congestion": {"name": "dcqcn", "gain": "x"}},
            "network.congestion.gain = 'x': this option does not take it; write a value of type float",
        ),
        ("background", {"name": "load", "load": 30}, "background.load = 30: it is not within 0.001 to 1; check the "),
        ("background", {"name": "load", "size": "0 B"}, "background.size = 0 B: it is not within 1 B to 1 PB; "),
        ("background", {"name": "job", "size": "1000"}, "background.size = '1000': a quantity needs its unit; write "),
        ("background", {"name": "job", "pause": "5 GB"}, "background.pause = 5 GB: the unit 'GB' is unknown here; "),
        ("background", {"name": "incast", "period": "3"}, "background.period = '3': a quantity needs its unit; write "),
        ("background", {"name": "incast", "senders": 0}, "background.senders = 0: it must be 1 or more; write 1 or "),
        ("collective", {"name": "ring", "channels": 10**6}, "collective.channels = 1000000: it must be 1024 or less; "),
        ("collective", {"name": "ring", "pieces": 10**9}, "collective.pieces = 1000000000: it must be 10000 or less; "),
        ("collective", {"name": "tree", "pieces": 10**9}, "collective.pieces = 1000000000: it must be 10000 or less; "),
        ("collective", {"name": "nvls", "pieces": 10**9}, "collective.pieces = 1000000000: it must be 10000 or less; "),
        ("reshard", {"name": "tensorwise", "calls": 10**8}, "reshard.calls = 100000000: it must be 1000 or less; "),
        (
            "reshard",
            {"name": "alpacomm", "trials": 10**12},
            "reshard.trials = 1000000000000: it must be 10000 or less; ",
        ),
    ],
)
def test_what_an_option_does_not_take_is_told_with_what_it_does(
    family: str, node: dict[str, object], message: str
) -> None:
    with pytest.raises(SpecError) as caught:
        build(family, node)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("syntax", "def move(:", r"syntax.py: SyntaxError: invalid syntax \(syntax.py, line 1\)"),
        ("importing", "import nothing_of_that_name", "importing.py: ModuleNotFoundError: No module named"),
        ("empty", "", "empty.py: TypeError: it holds 0 public dataclasses; a member's file holds exactly one"),
        ("twice", GOOD + GOOD.replace("Mine", "Other"), "twice.py: TypeError: it holds 2 public dataclasses"),
        ("bare", GOOD.replace("int = 3", "int"), "bare.py: the field 'knob' of Mine has no default"),
        ("half", GOOD.replace("def reduce(", "def reduces("), "half.py: Mine has no method reduce; a member of this"),
        ("typo", GOOD.replace("knob: int", "knob: 'integer'"), "typo.py: NameError: name 'integer' is not defined"),
        ("raises", GOOD + "    def __post_init__(self): 1 / 0", "raises.py: ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_file_is_an_error_of_its_own_option(folder: Path, name: str, text: str, problem: str) -> None:
    (folder / f"{name}.py").write_text(text)

    with pytest.raises(SpecError, match=f"reshard = '{name}': {problem}.*; correct that file, or choose another"):
        member("reshard", name)
    assert member("reshard", "lcm").__name__ == "Lcm"


@pytest.mark.parametrize("family", [*FAMILIES, *INSIDE])
def test_every_member_keeps_the_rules(family: str) -> None:
    assert [name for name, _ in families.members(family)] == list(names(family))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"name": "lmc"}, "reshard = 'lmc': there is no such option; did you mean lcm"),
        ({"name": "lcm", "knob": 1}, "reshard.knob = 1: lcm has no such option"),
    ],
)
def test_a_wrong_node_is_refused(node: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build("reshard", node)


def test_every_member_knows_the_name_of_its_option() -> None:
    for family in FAMILIES:
        for name, cls in members(family):
            assert name_of(family, cls()) == name
    assert name_of("collective", 3) == "int"
