"""Every command of the README works, every family member is in it."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xsim.families import FAMILIES, INSIDE, names

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)

COMMANDS = [
    line.split(" #")[0].strip() for kind, block in BLOCKS if kind == "sh" for line in block.splitlines() if line.strip()
]


SMALL = " ".join(f"deployment.replicas.{number}.micro_batches=1" for number in range(2))


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What ``python -m MODULE ...`` answers when typed in ``folder``, without the seconds that a start of Python takes.

    ``tests/runners/test_commands.py`` and ``tests/test_distribution.py`` start them.
    """
    python, flag, module, *words = shlex.split(command)
    assert (python, flag) == ("python", "-m")
    out, err = io.StringIO(), io.StringIO()
    shown = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with contextlib.chdir(folder), shown[0], shown[1], pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [module, *words])
        try:
            code = importlib.import_module(module).main()
        except SystemExit as ended:  # --help
            code = ended.code
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make")])
def test_make_commands_exist(command: str) -> None:
    words = [*shlex.split(command), "--dry-run"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", [c for c in COMMANDS if "runners.sweep" in c])
def test_sweep_commands_find_their_points(command: str, tmp_path: Path) -> None:
    extra = "" if "--help" in command or "dry_run=true" in command else " dry_run=true"

    done = run(command + extra, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "hetero_llama" in done.stdout or "points" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [c for c in COMMANDS if "runners.run" in c and "--help" in c])
def test_help_has_the_options_of_the_members_asked_for(command: str, tmp_path: Path) -> None:
    done = run(command, tmp_path)

    assert done.returncode == 0, done.stderr
    for family, member in re.findall(r"(\w+)=(\w+)", command):
        assert re.search(rf"\b{family}={member}\b", done.stdout)
        assert f"{family}." in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [c for c in COMMANDS if "runners.run" in c and "--help" not in c])
def test_run_commands_print_an_account(command: str, tmp_path: Path) -> None:
    done = run(f"{command} {SMALL}" if "network=packet" in command else command, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "bubble" in done.stdout
    assert list(tmp_path.glob("outputs/run/detail/*/trace.json"))


@pytest.mark.parametrize("command", [c for c in COMMANDS if "runners.schedule" in c])
def test_schedule_commands_draw(command: str, tmp_path: Path) -> None:
    done = run(command, tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 | F0")


@pytest.mark.parametrize("command", [c for c in COMMANDS if "runners.plan" in c])
def test_plans_are_shown(command: str, tmp_path: Path) -> None:
    (plan,) = [block for kind, block in BLOCKS if kind == "json"]
    (tmp_path / "plan.json").write_text(plan)

    done = run(command, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "| pipeline " in done.stdout
    assert ("| term " in done.stdout) == ("simulate=false" not in command)
    assert ("In closed form: " in done.stdout) == ("simulate=false" in command)
    assert len(list(tmp_path.glob("*/plan/*/figures/plan.png"))) == 1


def test_a_finished_run_is_explained(tmp_path: Path) -> None:
    (command,) = [command for command in COMMANDS if "runners.explain" in command]
    ran = run(f"python -m runners.run network=analytic {SMALL}", tmp_path)
    (hint,) = re.findall(r"runners\.explain (key=\w+)", ran.stdout)

    done = run(re.sub(r"key=\w+", hint, command), tmp_path)

    assert done.returncode == 0, done.stderr
    assert "Critical path: " in done.stdout
    assert "Largest levers: " in done.stdout


def test_the_queues_of_a_replay_are_drawn(tmp_path: Path) -> None:
    shown = dict(BLOCKS)
    (tmp_path / "star.hpcc").write_text(shown["hpcc"])
    (tmp_path / "ring.flows").write_text(shown["flows"])
    (replay,) = [command for command in COMMANDS if "sample=" in command]
    (draw,) = [command for command in COMMANDS if "analysis.queues" in command]

    for command in (replay, draw):
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("Figure: ring/figures/queues.png\n")
        (tmp_path / "ring" / "figures" / "queues.png").unlink()


@pytest.mark.parametrize("command", [c for c in COMMANDS if "runners.network" in c])
def test_network_commands_replay_the_files_shown(command: str, tmp_path: Path) -> None:
    shown = dict(BLOCKS)
    (tmp_path / "star.hpcc").write_text(shown["hpcc"])
    (tmp_path / "ring.flows").write_text(shown["flows"])

    done = run(command, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "mean_fct_us" in done.stdout or "topology: FILE" in done.stdout
    assert (tmp_path / "ring.csv").exists() == ("out=" in command)


@pytest.mark.parametrize("command", [c for c in COMMANDS if "runners.validate" in c])
def test_validate_commands_find_their_rows(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XSIM_REFERENCE_DATA", raising=False)
    shutil.copy(ROOT / "runners" / "published" / "training_runs.csv", tmp_path / "runs.csv")

    done = run(f"{command} dry_run=true", tmp_path)

    assert done.returncode == 0, done.stderr
    assert "vtrain_multi_0003" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["runs.csv"]


def test_the_python_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [block for kind, block in BLOCKS if kind == "python"]
    monkeypatch.chdir(ROOT)

    exec(compile(code, "README.md", "exec"), {})

    simulated, *parts, closed = map(float, capsys.readouterr().out.split())
    assert len(parts) == 2
    assert closed == pytest.approx(simulated, rel=0.03)


def test_the_files_shown_are_accepted(tmp_path: Path) -> None:
    """Cluster and deployment of the README run together, and its grid has the points that one would count."""
    shown = [block for kind, block in BLOCKS if kind == "yaml"]
    (grid,) = [block for block in shown if "_global_" in block]
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid" / "shown.yaml").write_text(grid)
    for block in shown:
        found = re.match(r"# clusters/(\w+)/(\w+)\.yaml", block)
        if found:
            (tmp_path / found[1]).mkdir()
            (tmp_path / found[1] / f"{found[2]}.yaml").write_text(block)
    own = f"--config-dir {tmp_path}"

    ran = run(f"python -m runners.run {own} cluster=lab deployment=lab_7b memory=report out=results", tmp_path)
    listed = run(f"python -m runners.sweep {own} +grid=shown dry_run=true", tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert "bubble" in ran.stdout
    assert "7 points" in listed.stderr


def test_inline_code_stays_on_its_line() -> None:
    """Else it cannot be copied."""
    text = re.sub(r"```.*?```", "", README, flags=re.DOTALL)

    assert [line for line in text.splitlines() if line.count("`") % 2] == []


def test_the_variable_that_a_calibration_reads_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words, _ = re.findall(r"`(python -m runners\.calibrate [^`]*)`", README)
    monkeypatch.delenv("XSIM_REFERENCE_DATA", raising=False)

    done = run(words, tmp_path)

    assert done.returncode == 2
    (variable,) = re.findall(r"XSIM_\w+", done.stderr)
    assert f"`{variable}`" in README


def test_links_to_sections_lead_to_one_and_the_contents_have_all() -> None:
    """As GitHub names them: small letters, hyphens for blanks, no punctuation."""
    text = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    headings = [title.lower() for title in re.findall(r"^##+ (.*)$", text, re.MULTILINE)]
    anchors = [re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in headings]

    linked = re.findall(r"\]\(#([^)]*)\)", text)

    assert anchors[0] == "two-commands"  # the contents follow it
    assert {*linked} == {*anchors[1:]}


def test_every_kind_of_command_is_covered() -> None:
    modules = ("sweep", "run", "schedule", "network", "compare", "explain", "layer_collectives", "plan", "validate")
    runners = (f"python -m runners.{name}" for name in modules)
    tables = ("best", "compare", "estimates", "failures", "layerwise", "queues", "scaling")
    readers = (f"python -m analysis.{name}" for name in tables)
    kinds = ("make ", *runners, *readers)
    assert [c for c in COMMANDS if not c.startswith(kinds)] == []


@pytest.mark.parametrize("family", [*FAMILIES, *INSIDE])
def test_every_member_is_in_the_table(family: str) -> None:
    place = f"{INSIDE[family]}.{family}" if family in INSIDE else family
    (row,) = re.findall(rf"^\| `{re.escape(place)}` \| ([^|]*) \|", README, re.MULTILINE)

    assert sorted(re.findall(r"`(\w+)`", row)) == list(names(family))
