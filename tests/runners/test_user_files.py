"""Whatever a user's config file holds, the answer is one short line that names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners import run
from runners.cli import read_command
from runners.options import CONF
from runners.points import Point, plan_single
from runners.user_files import check_user_files
from tests.examples import load
from tests.topologies import hpcc_text
from xsim.errors import SpecError
from xsim.spec.cluster import ClusterSpec

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10))


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"axes:\n  reshard: [lcm\n", "line 3, column 1: expected ',' or ']'"),
        (b"axes:\n\tseed: [1]\n", "line 2, column 1: found character"),
        (b"axes: {}\naxes: {}\n", "line 2, column 1: the key 'axes' stands here twice"),
        (b"axes: {}\n---\naxes: {}\n", "found another document"),
        (b"axes: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        (b"axes: !foo 3\n", "could not determine a constructor"),
        (b'axes: "\x01"\n', "special characters are not allowed"),
        (b"\xff\xfe\x00", "it is no text: invalid start byte at byte 0; save it as UTF-8"),
        (b"- axes\n", "it is not a mapping"),
        (b"axes: &a\n  seed: *a\n", "recursive"),
        (b"axes:\n  seed: ???\n", "a key of it has no value"),
        (BOMB.encode(), "an alias repeats it; write it out"),
        (b"axes: " + b"[" * 300 + b"]" * 300, "it is nested deeper than 40 levels"),
        (b"axes: " + b"[" * 5000 + b"]" * 5000, "it is nested too deeply"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(
    tmp_path: Path, data: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "grid/mine.yaml", data)

    assert run.main(["--config-dir", str(tmp_path)]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"error: {path} = ")
    assert message in error
    assert error.count("\n") == 1
    assert len(error) < 600


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"# @package _global_\nmemroy: report\n", "memroy = 'report': there is no such key; did you mean memory?"),
        (b"# @package _global_\ndefaults: [f]\n", "'+experiment=mine': its defaults lead in a circle"),
        (b"# @package _global_\ndefaults: 3\n", "Invalid defaults list in 'experiment/mine'"),
        (b"# @package _global_\nmemory: ${oc.env:HOME}\n", ".memory = '${oc.env:HOME}': a config computes nothing"),
        (b"defaults: ['/model: ${oc.env:USER}']\n", ".defaults[0] = '/model: ${oc.env:USER}': a config computes"),
        (b"# @package _global_\nmemory: '${'\n", "no viable alternative at input '${'"),
        (b"# @package _global_\nmemory: ${nope.x}\n", "memory = '${nope.x}': Interpolation key 'nope.x' not found"),
        (b"# @package _global_\ntracking: {url: x}\n", "tracking.url = 'x': there is no such key; did you mean uri?"),
    ],
)
def test_what_hydra_cannot_use_is_refused(
    tmp_path: Path, data: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "experiment/mine.yaml", data)
    write(tmp_path, "experiment/f.yaml", b"defaults: [mine]\n")

    assert run.main(["--config-dir", str(tmp_path), "+experiment=mine", "dry_run=true"]) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert len(error) < 600


GLOBAL = b"# @package _global_\n"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("experiment/mine.yaml", GLOBAL + b"out: /etc\n", ".out = '/etc': a config cannot name a file or folder"),
        (
            "experiment/mine.yaml",
            GLOBAL + b"topology: {name: file, path: /etc/passwd}\n",
            "topology.path = '/etc/passwd': a config cannot name a file or folder; write it on the command line: topo",
        ),
        ("topology/mine.yaml", b"name: file\npath: /etc/passwd\n", "command line: topology.path=/etc/passwd"),
        ("grid/mine.yaml", b"axes: {topology.path: [/a, /b]}\n", ".axes.topology.path = "),
        ("grid/mine.yaml", b"include: [{topology.path: /a}]\n", ".include.topology.path = '/a': a config cannot name"),
        ("tracking/mine.yaml", b"uri: sqlite:////etc/x\n", "command line: tracking.uri=sqlite:////etc/x"),
        ("model/mine.yaml", b"defaults: [../../../etc/passwd]\n", ".defaults = '../../../etc/passwd': it leads out"),
        ("model/mine.yaml", b"defaults: [{/hidden: x}]\n", ".defaults = {'/hidden': 'x'}: it leads out of the groups"),
        ("model/mine.yaml", b"defaults: [/hidden/x]\n", "it leads out of the groups; name an option of a group"),
        ("model/sub/mine.yaml", b"defaults: [{/cluster@hydra.job: fig4}]\n", "it leads out of the groups"),
        ("experiment/mine.yaml", b"defaults: [override /hydra/launcher: x]\n", "it leads out of the groups"),
        ("experiment/mine.yaml", GLOBAL + b"hydra: {run: {dir: /etc}}\n", ".hydra = {'run': "),
        ("experiment/mine.yaml", b"# @package hydra.job\nname: x\n", ".hydra = None: a config cannot set Hydra"),
        ("cluster/mine.yaml", b"hosts: [{_target_: os.system}]\n", "hosts.0._target_ = 'os.system': a config cannot"),
        ("grid/mine.yaml", b"axes: {cluster._target_: [os.system]}\n", "a config cannot name code to run"),
        ("cluster/sub/mine.yaml", b"name: ${oc.env:HOME}\n", "a config computes nothing and reads no environment"),
    ],
)
def test_what_reaches_beyond_an_experiment_is_refused(
    tmp_path: Path, name: str, data: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the file is chosen or not."""
    path = write(tmp_path, name, data)

    assert run.main(["--config-dir", str(tmp_path), "dry_run=true"]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}.")
    assert message in error
    assert error.count("\n") == 1


def test_a_server_of_ones_own_may_stand_in_a_file(tmp_path: Path) -> None:
    write(tmp_path, "tracking/mine.yaml", b"uri: http://127.0.0.1:5000\n")
    write(tmp_path, "ray/mine.yaml", b"address: auto\n")
    write(tmp_path, "model/mine.yaml", b"defaults: [llama2_7b, _self_]\nname: mine\n")
    words = ["--config-dir", str(tmp_path), "tracking=mine", "ray=mine"]

    assert plan_single(read_command(words, "")).settings.tracking_uri == "http://127.0.0.1:5000"


def test_a_name_belongs_to_one_option(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    words = ["--config-dir", str(mine), "--config-dir", str(other)]
    fig4 = (CONF / "cluster" / "fig4.yaml").read_bytes()
    write(mine, "cluster/fig4.yaml", fig4)
    write(mine, "cluster/own.yaml", b"hosts: []\n")
    write(other, "cluster/its.yaml", b"hosts: []\n")
    read_command(words, "")

    for folder, name, built_in in [
        (mine, "cluster/fig4.yaml", CONF / "cluster" / "fig4.yaml"),
        (other, "cluster/own.yaml", mine / "cluster" / "own.yaml"),
        (mine, "config.yaml", CONF / "config.yaml"),
        (mine, "reshard/lcm.yaml", "a reshard of that name is built in"),
    ]:
        path = write(folder, name, b"name: other\n")
        with pytest.raises(SpecError, match=f"{path} = .*{built_in}"):
            read_command(words, "")
        path.unlink()


def on_file(path: Path, *words: str) -> Point:
    return plan_single(read_command(["topology=file", f"topology.path={path}", *words], "")).points[0]


def test_a_run_is_known_by_what_a_file_holds_not_by_where_it_lies(tmp_path: Path) -> None:
    text = hpcc_text(load(ClusterSpec, "fig4"))
    point = on_file(write(tmp_path, "a.topo", text.encode()))

    assert point.config["topology"] == {"name": "file", "path": "", "text": text}
    assert point.choice == f"topology.path={tmp_path / 'a.topo'}"
    assert on_file(write(tmp_path, "other/b.topo", text.encode())).key == point.key
    assert on_file(write(tmp_path, "a.topo", text.replace("500ns", "600ns").encode())).key != point.key


def on_profile(path: Path, *words: str) -> Point:
    return plan_single(read_command(["compute=profile", f"compute.path={path}", *words], "")).points[0]


def test_a_run_is_known_by_the_measured_times_not_by_where_they_lie(tmp_path: Path) -> None:
    text = "device,operator,pass,tp,micro_batch,seq,time_us\nh100_80,qkv,forward,1,1,,5\n"
    point = on_profile(write(tmp_path, "a.csv", text.encode()))

    assert point.config["compute"] == {"name": "profile", "path": "", "text": text, "collectives": "apart"}
    assert on_profile(write(tmp_path, "other/b.csv", text.encode())).key == point.key
    assert on_profile(write(tmp_path, "a.csv", text.replace(",5", ",6").encode())).key != point.key
    with pytest.raises(SpecError, match=r"compute.path\[line 2\].time_us = 'x': it is no time"):
        on_profile(write(tmp_path, "a.csv", text.replace(",5", ",x").encode()))


def test_a_second_table_is_read_as_the_first_is(tmp_path: Path) -> None:
    text = "device,operator,pass,tp,micro_batch,seq,time_us\na100_80,transformer,forward,1,1,,5\n"
    table = write(tmp_path, "a.csv", text.encode())
    words = ["compute=scaled", f"compute.path={table}", f"compute.ratios={table}"]
    compute = plan_single(read_command(words, "")).points[0].config["compute"]

    assert isinstance(compute, dict)
    assert [compute[key] for key in ("path", "text", "ratios", "ratios_text")] == ["", text, "", text]


@pytest.mark.parametrize(
    ("data", "word", "message"),
    [
        (None, "", "topology.path = '.*a.topo': No such file or directory; name a readable file"),
        (b"\xff", "", "topology.path = '.*a.topo': it is no text: invalid start byte at byte 0; save it as UTF-8"),
        (b"3 1 2", "topology.text=x", "topology.text = 'x': topology.path says where it stands; write one of the two"),
        (b" \n", "", "topology.path = '.*a.topo': the file is empty; name one that holds something"),
        (b"3 1 x", "", r"topology.path\[line 1\] = 'x': it is no link_num; write a whole number up to 8388608"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_runs(
    tmp_path: Path, data: bytes | None, word: str, message: str
) -> None:
    path = tmp_path / "a.topo" if data is None else write(tmp_path, "a.topo", data)

    with pytest.raises(SpecError, match=message):
        on_file(path, *[word] * bool(word))


def test_a_folder_without_an_option_is_refused(tmp_path: Path) -> None:
    (tmp_path / "modle").mkdir()
    (tmp_path / "modle" / "mine.yaml").write_text("name: mine")

    with pytest.raises(SpecError, match="it holds no option of any group; name one with"):
        check_user_files([tmp_path])


def test_what_is_no_regular_file_is_refused_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe would keep the reader waiting, and a device may have no end."""
    pipe = tmp_path / "own" / "model" / "pipe.yaml"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    for path, problem in ((pipe, "no regular file"), (Path("/dev/zero"), "no regular file"), (tmp_path, "a folder")):
        with pytest.raises(SpecError, match=f"topology.path = '{path}': it is {problem}; name a file"):
            on_file(path)
    with pytest.raises(SpecError, match=f"{pipe} = '{pipe}': it is no regular file"):
        check_user_files([tmp_path / "own"])

    monkeypatch.setattr("runners.user_files.MOST_BYTES", 8)
    with pytest.raises(SpecError, match="the file has more than 8 bytes; name a smaller one"):
        on_file(write(tmp_path, "a.topo", b"123456789"))
