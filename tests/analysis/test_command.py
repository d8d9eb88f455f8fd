from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis.command import exits, starts
from runners.cli import replaced

BIN = Path(sys.executable).parent


def test_a_command_is_started_as_this_one_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/somewhere/runners/sweep.py"])
    monkeypatch.setenv("PATH", str(BIN))
    assert starts("runners.ui") == "python -m runners.ui"

    monkeypatch.setenv("PATH", "/usr/sbin")
    assert starts("runners.ui") == f"{sys.executable} -m runners.ui"

    monkeypatch.setattr(sys, "argv", [str(tmp_path / ".venv" / "bin" / "xsim-sweep")])
    assert starts("runners.ui") == ".venv/bin/xsim-ui"


def test_the_words_of_a_comparison() -> None:
    argv = ["cluster=gpt3_1024", "+reshard=lcm", "reshard.knob=5", "--config-dir", "my conf"]

    assert (
        replaced(argv, "reshard", ["lcm", "hetauto"]) == "cluster=gpt3_1024 --config-dir 'my conf' reshard=lcm,hetauto"
    )


def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    """Lines on stderr do not end the work; a result that nobody reads is not a success."""
    script = tmp_path / "talk.py"
    script.write_text(
        "from analysis.command import exits, tell\n"
        "def main(argv):\n"
        "    for _ in range(3): tell('still there')\n"
        "    open(argv[0], 'w').write('done')\n"
        "    print('a result')\n"
        "    return 0\n"
        "import sys\n"
        "sys.exit(exits(main)(sys.argv[1:]))\n"
    )
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "mark")],
        stdout=writing,
        stderr=writing,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )

    assert done.returncode == 141
    assert (tmp_path / "mark").read_text() == "done"


def test_a_warning_is_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a command that is its process; who calls one gets Python's own warning."""

    def main(argv: Sequence[str]) -> int:
        warnings.warn("one file\n  is left out", stacklevel=1)
        warnings.warn("one file is left out", stacklevel=1)  # by another reader
        return len(argv)

    monkeypatch.setattr(sys, "argv", ["it", "a", "b"])
    assert exits(main)() == 2
    assert capsys.readouterr().err == "warning: one file is left out\n"

    with pytest.warns(UserWarning, match="is left out"):
        assert exits(main)(["a"]) == 1
    assert capsys.readouterr().err == ""


def test_without_words_the_process_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "a", "b"])

    assert exits(len)() == 2
