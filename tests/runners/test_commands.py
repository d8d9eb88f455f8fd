"""The two commands as their user meets them: one line and exit code 2 for a mistake, and nothing written."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runners import preflight, run, sweep, ui
from xsim.families import names

SHELL = ("sh", "-c")
UNEQUAL = (
    "the deployment trains 24 samples; write 24, or share out 7 in the deployment fig4_7b, or choose a planner, which "
    "shares out any: planner=uniform"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("network=flwo", "network = 'flwo': there is no such option; did you mean flow? choose one of"),
        ("nework=flow", "nework = 'flow': there is no such key; did you mean network?"),
        ("network.windw=3", "network.windw = 3: network=flow has no option windw"),
        (
            "network.congestion=hpcc",
            "network.congestion = 'hpcc': network=flow has no option congestion; network=packet",
        ),
        ("network=packet network.congestion=bbr", "network.congestion = 'bbr': there is no such option; choose one of"),
        (
            "network=packet network.congestion.gain=0.5",
            "network.congestion.gain = 0.5: network.congestion=none has no option gain; network.congestion=dcqcn and",
        ),
        (
            "network=packet network.congestion=hpcc network.congestion.stages=-1",
            "network.congestion.stages = -1: it is negative; choose at least 0",
        ),
        (
            "network=packet network.congestion=hpcc +network.congestion.foo=1",
            "network.congestion.foo = 1: network.congestion=hpcc has no option foo; it has aim, ",
        ),
        (
            "network=packet network.congestion=[hpcc]",
            "network.congestion = ('hpcc',): it names no option; write one of",
        ),
        ("hydra.verbose=true", "hydra.verbose = 'True': there is no such key"),
        ("network=", "error: network = ''"),
        ("reshard", "command line = 'reshard': it cannot be read"),
        ("cluster._target_=os.system", "cluster._target_ = 'os.system': there is no such key"),
        ("+cluster._target_=os.system", "cluster._target_ = 'os.system': a config cannot name code to run"),
        ("+experiment=nothing", "experiment = 'nothing': there is no such option"),
        ("experiment=fig4_13b", "a preset is added to the config; write +experiment=NAME, once"),
        ("--config-dir nowhere", "--config-dir = "),
        ("seed=x", "seed = 'x': its type is str; write a whole number"),
        ("memory=ignore", "memory = 'ignore': there is no such policy"),
        ("batch=7", f"batch = 7: {UNEQUAL}"),
        ("deployment=null", "batch = None: no deployment says how many samples to train"),
        ("num_workers=0", "num_workers = 0: nothing would run"),
        ("seed=99999999999999999999999", "it is too large for a column of results; write at most 9223372036854775807"),
        ("timeout_s=nan", "timeout_s = nan: it is no positive time"),
        ("timeout_s=inf", "timeout_s = inf: it never comes; write seconds, or null for no limit"),
        ("retries=null", "retries = None: it says not how often; write 0 for never, or a whole number"),
        ("seed=${oc.env:UID}", "seed = '${oc.env:UID}': a config computes nothing and reads no environment; write the"),
        ("out=a${oc.env:HOME}", "out = 'a${oc.env:HOME}': a config computes nothing"),
        ("+model.x=[1,'${now:%S}']", "model.x[1] = '${now:%S}': a config computes nothing"),
        ("topology=two_datacenters topology.wan_bandwidth=400", "does not take it; write text, such as 1.6Tbps"),
        (
            "deployment.bogus=1",
            "it has name, replicas, blocking_sends, bucket, gather_overlap, predicted, rendezvous, serial_sync, "
            "tp_async, tp_overlap, zero\n",
        ),
        ("cluster.hosts.0.nics=1", "did you mean nic? it has devices, nic; a plus before the key adds scale_up,"),
        ("cluster.hosts.0.count=2", "cluster.hosts.0.count = 2: cluster.hosts.0 does not have it yet; write +"),
        ("ray.bogus=1", "ray.bogus = 1: there is no such key; it has address, ship\n"),
        ("~out", "~out = '': it cannot be removed; set it"),
        ("~seed", "~seed = '': it cannot be removed; set it"),
        ("cluster=fig4 cluster=gpt3_1024", "cluster = 'gpt3_1024': it is set twice"),
        ("cluster@x=fig4", "'cluster@x=fig4': a package cannot be chosen here; write cluster=..."),
        ("out=~/x", """and quote special characters: "key='value'\""""),
        ("out=", "out = '': it is no path"),
        ("+tracking.foo=1", "tracking.foo = 1: there is no such key; it has uri"),
        ("+ray.adress=1", "ray.adress = 1: there is no such key; did you mean address?"),
        ("ray.address=", "ray.address = '': it is no address"),
        ("tracking.uri=foo", "tracking.uri = 'foo': it names no store that MLflow can keep; write sqlite:///FILE"),
        ("tracking.uri=[a]", "tracking.uri = ['a']: it names no store"),
        ("tracking.uri=sqlite://", "tracking.uri = 'sqlite://': it names no store"),
        ("tracking.uri=bogus://x", "tracking.uri = 'bogus://x': it names no store"),
        ("--flag", "'unrecognized arguments: --flag': it cannot be read; --help lists what can"),
        (f"+cluster.x={'[' * 3000}{']' * 3000}", "it cannot be read"),
        ("timeout_s=soon", "timeout_s = 'soon': its type is str; write a number"),
        ("cluster=h100x8_a100x1", "deployment.replicas[1].stages[1].groups[0].ranks = [7, 8, 9]"),
    ],
)
def test_run_refuses(words: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(words.split()) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("+grid=hetero", "grid = 'hetero': there is no such option; did you mean hetero_llama?"),
        ("", "grid = 'no axes': it has no points; name a grid"),
        ("batch=24", "it has no points; name a grid (+grid=NAME), vary a key, or start a single experiment with run"),
        ("grid.axes.batch=[7]", f"batch = 7: {UNEQUAL}"),
        ("+grid=nan", "grid = nan: there is no such option; choose one of"),
        (
            "+grid=hetero_llama +grid.include=[{seed:3,colour:red},{seed:0}] seed=0",
            "grid.include[0].colour = ['red']: there is no such key; did you mean",
        ),
        (
            "+grid=hetero_llama +grid.include=[{seed:3,network.payload_byts:4},{seed:0}] seed=0",
            "grid.include[0].network.payload_byts = 4: there is no such key; did you mean payload_bytes?",
        ),
        (
            "+grid=hetero_llama +grid.include=[{seed:3,model:{seq_ln:4}},{seed:0}] seed=0",
            "grid.include[0].model.seq_ln = 4: there is no such key; did you mean seq_len?",
        ),
        (
            "+grid=hetero_llama +grid.include=[{seed:3,reshard:lmc},{seed:0}] seed=0",
            "grid.include[0].reshard = 'lmc': there is no such option; did you mean lcm?",
        ),
        ("+grid=hetero_llama reshard=lcm,lmc", "reshard = 'lmc': there is no such option; did you mean lcm?"),
        ("+grid=hetero_llama model=llama3_8b", "the grid zips it with cluster, deployment; choose among llama2_7b"),
        ("+grid=hetero_llama grid.axes.colour=[red]", "there is no such key"),
        ("+grid=hetero_llama +grid.axes.colour=[red]", "colour = ['red']: there is no such key"),
        ("timeout_s=1,2", "grid.axes.timeout_s = [1, 2]: it cannot be an axis"),
        ("+grid=hetero_llama +grid.axes.sed=[1,2]", "grid.axes.sed = [1, 2]: there is no such key; did you mean seed?"),
        ("seed=range(0,100000000)", "seed = 'range(0,100000000)': that is more than 100000 points"),
        ("seed=range(0,900) batch=range(1,900)", "grid = 'seed: 900, batch: 899': that is more than 100000 points"),
        ("seed=shuffle(range(0,3))", "points have a fixed order; leave out shuffle"),
        ("seed=range(0,3,0)", "it cannot be read"),
        ("seed=range(3,3) reshard=lcm,hetauto", "seed = 'range(3,3)': it has no values"),
        ("reshard=lcm,hetauto batch=7", "batch = 7: the deployment trains 24 samples"),
        ("hydra.sweeper=a,b", "hydra.sweeper = 'a,b': there is no such key"),
    ],
)
def test_sweep_refuses(words: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(words.split()) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(folder.iterdir())


def test_run_refuses_several_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["reshard=lcm,hetauto"]) == 2
    assert "start it with runners.sweep" in capsys.readouterr().err


def test_what_does_not_fit_is_an_error_of_a_single_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uniform = [
        "cluster=h100x4_a100x4",
        "model=llama2_13b",
        "batch=16",
        "planner=uniform",
        "planner.tp=2",
        "planner.pp=2",
    ]
    for words, key in (["+experiment=fig4_13b"], "deployment.zero=1"), (uniform, "planner.zero=1"):
        assert run.main([*words, "network=analytic"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: rank")
        told = f"set zero: 1 on the deployment: write {key}, or memory=report to simulate it all the same\n"
        assert error.endswith(told)
        assert run.main([*words, "network=analytic", key, "dry_run=true"]) == 0
        assert "does not fit" not in capsys.readouterr().out
    assert not list(folder.iterdir())


def test_devices_that_the_plan_leaves_are_told_with_a_way_to_use_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["cluster=h100_16x8", "network=analytic", "out=here"]) == 0

    shown = capsys.readouterr().out
    assert "Devices: 10 used, 118 of the cluster unused (h100_80 10-127)\n" in shown
    assert "A plan of more of them: planner=xsim batch=24, say, in place of deployment=\n" in shown


def test_run_explains_and_writes_details(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as pq

    import analysis

    assert run.main(["network=analytic", "out=here"]) == 0

    shown = capsys.readouterr().out
    assert "| training time |" in shown
    assert shown.count("| h100_80 |") == shown.count("| a100_40 |") == 5
    assert "GB |" in shown
    assert "% |" in shown
    assert "| all_reduce |     2 |     1 |" in shown
    assert "Devices: 10 used, 0 of the cluster unused\n" in shown
    assert "A plan of more" not in shown
    assert "Stand-in: a100_40 has no measured efficiency curve" in shown
    assert f"runners.sweep network=analytic out=here reshard={','.join(names('reshard'))}\n" in shown
    assert max(len(line) for line in shown.splitlines() if line.startswith("|")) <= 120
    (detail,) = (folder / "here" / "run" / "detail").iterdir()
    assert sorted(path.name for path in detail.iterdir()) == [
        "collectives.parquet",
        "completion.parquet",
        "exchanges.parquet",
        "flows.parquet",
        "iterations.parquet",
        "links.parquet",
        "memory.parquet",
        "operators.parquet",
        "ranks.parquet",
        "trace.json",
    ]
    ranks = pq.read_table(detail / "ranks.parquet")
    assert ranks.num_rows == 10
    assert ranks.schema.field("straggler_wait_ps").metadata[b"unit"] == b"ps"
    assert b"idle_time_s" in ranks.schema.field("straggler_wait_ps").metadata[b"doc"]
    (row,) = analysis.load(folder / "here" / "run").to_pylist()
    assert (row["cluster"], row["deployment"], row["status"]) == ("fig4", "fig4_7b", "ok")


def test_a_run_of_packets_shows_what_links_and_queues_did(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as pq

    small = ["cluster=nodes_100g", "model=gradient_1mb", "compute=free", "planner=uniform", "planner.tp=1", "batch=8"]
    assert run.main([*small, "network=packet", "network.sample=1us", "out=here"]) == 0

    (detail,) = (folder / "here" / "run" / "detail").iterdir()
    figure = detail / "figures" / "queues.png"
    assert f"Queues and rates of links over time: {figure}\n" in capsys.readouterr().out
    assert figure.is_file()
    links, queues = (pq.read_table(detail / f"{name}.parquet") for name in ("links", "queues"))
    assert sum(links["sent_bytes"].to_pylist()) == sum(queues["sent_bytes"].to_pylist())
    assert sum(links["sent_bytes"].to_pylist()) > sum(links["carried_bytes"].to_pylist()) > 0
    assert links.schema.field("paused_ps").metadata[b"unit"] == b"ps"


def test_dry_run_lists_the_points_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["+grid=hetero_llama", "model=llama2_7b", "network=analytic", "reshard=lcm", "batch=24", "dry_run=true"]

    assert sweep.main(words) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert sum("invalid: batch = 24: the deployment trains 16 samples" in line for line in lines) == 3
    assert not list(folder.iterdir())


def test_dry_run_tells_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(["+experiment=fig4_13b", "seed=0,1", "dry_run=true"]) == 0
    assert run.main(["cluster=fig4", "planner=uniform", "deployment=null", "batch=60", "dry_run=true"]) == 0

    first, _, third = capsys.readouterr().out.splitlines()
    assert first.startswith("fig4/llama2_13b/fig4_13b/one_f_one_b/lcm/flow/s0  does_not_fit: rank 5 (a100_40")
    assert "(memory is known when it is planned)" in third


def test_dry_run_tells_what_the_run_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """Points that differ in what contradicts are told apart."""
    assert run.main(["topology=file", "dry_run=true"]) == 2
    assert run.main(["+experiment=fig4_13b", "dry_run=true"]) == 2
    assert run.main(["+experiment=fig4_13b", "memory=report", "dry_run=true"]) == 0
    assert sweep.main(["batch=24,48", "dry_run=true"]) == 0

    file, enforced, reported, fine, other = capsys.readouterr().out.splitlines()
    assert "invalid: topology.path = '': it names no topology; name a file that holds one" in file
    assert "  does_not_fit: " in enforced
    assert "  simulated, but does not fit: " in reported
    assert "/flow/s0  [" in fine
    assert "/flow/b48/s0  invalid: batch = 48: the deployment trains 24 samples" in other


def test_dry_run_tells_what_a_schedule_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    odd = ["deployment.replicas.0.micro_batches=15", "batch=23"]

    assert sweep.main(["schedule=dualpipe,zb_h1", *odd, "dry_run=true"]) == 0

    refused, fine = capsys.readouterr().out.splitlines()
    assert "invalid: deployment.replicas[0].micro_batches = 15: dualpipe sends half of them each way" in refused
    assert "invalid" not in fine


def test_a_deployment_may_be_right_and_the_model_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["deployment=fig4_13b"]) == 2
    assert "end it at 32, or choose the model and cluster that fig4_13b was written for" in capsys.readouterr().err


def test_the_composed_config_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(["+grid=hetero_llama", "network=analytic", "seed=1,2", "--cfg", "job"]) == 0
    assert "memory: report" in capsys.readouterr().out


def test_a_port_in_use_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "outputs").mkdir()
    (folder / "outputs" / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert ui.main(["--port", str(port)]) == 2

    assert f"port = {port}: Address already in use; choose another: --port {port + 1}" in capsys.readouterr().err


def test_the_server_is_announced_before_it_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "outputs").mkdir()
    (folder / "outputs" / "mlflow.db").touch()
    monkeypatch.setattr("os.execve", lambda *_: None)
    monkeypatch.setattr(ui, "_announce", lambda _port: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    ui.main(["--port", str(port)])

    assert f"starting MLflow on http://127.0.0.1:{port}" in capsys.readouterr().err


def test_setting_up_is_announced(folder: Path) -> None:
    root = Path(run.__file__).parent.parent
    words = ["make", "--dry-run", "--directory", str(root), "install", f"VENV={folder / 'venv'}"]

    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    commands = [line for line in lines if not line.startswith("make")]
    assert commands[0].startswith("echo 'setting up")


def test_who_reads_nothing_is_no_error() -> None:
    """All three streams closed."""
    command = f"exec {shlex.quote(sys.executable)} -m runners.sweep network=analytic reshard=lcm,hetauto dry_run=true"
    assert subprocess.run([*SHELL, f"{command} <&- >&- 2>&-"], env=os.environ, check=False).returncode == 0
    assert subprocess.run([*SHELL, f"{command} >&-"], env=os.environ, check=False).returncode == 0


@pytest.mark.parametrize(("uri", "answers"), [("http://me:pass@127.0.0.1:{port}", True), ("http://127.0.0.1:1", False)])
def test_a_server_that_does_not_answer_is_told_at_the_start(uri: str, answers: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert preflight.answers(uri.format(port=server.getsockname()[1])) is answers
    assert preflight.answers("sqlite:///nowhere.db")
