"""What the commands share: exit codes, errors as one line, and how to start another of them."""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, Protocol

from analysis.secrets import shown
from xsim.errors import SpecError, XsimError

__all__ = [
    "CONFIG_ERROR",
    "INTERRUPTED",
    "UNREAD",
    "Main",
    "Noticed",
    "Parser",
    "Stopped",
    "alone",
    "exits",
    "starts",
    "tell",
]

CONFIG_ERROR = 2
INTERRUPTED = 130
UNREAD = 141  # as a shell reports SIGPIPE


class Stopped(KeyboardInterrupt):
    """A signal asks the process to end, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Noticed:
    """Handler of Ctrl-C that remembers it: some libraries, while they are imported, swallow what it raises.

    Attributes:
        came: Whether it was called.
    """

    def __init__(self) -> None:
        self.came = False

    def __call__(self, _number: int, _frame: object) -> NoReturn:
        """As Python's own."""
        self.came = True
        raise KeyboardInterrupt


class Parser(argparse.ArgumentParser):
    """Flags; what is wrong with them is one line."""

    def error(self, message: str) -> NoReturn:
        """Raise what ``exits`` shows."""
        known = "--help lists what can"
        if any("=" in word and not word.startswith("-") for word in message.split()[2:]):
            known = "settings such as out=FOLDER are for sweeps and runs; here the folder itself is named: FOLDER/GRID"
        raise SpecError("command line", message, "it cannot be read", known)


class Main(Protocol):
    """A console script."""

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """The exit code; without ``argv`` the process's own arguments are read."""


def exits(main: Callable[[Sequence[str]], int]) -> Main:
    """Turn ``main`` into a command: what the user can fix is one line on stderr and exit code 2.

    What the system refuses later, a full disk perhaps, is one line too, and exit code 1. So is a warning, where the
    command is all that its process does.
    """

    @functools.wraps(main)
    def command(argv: Sequence[str] | None = None) -> int:
        if argv is not None:
            return answered(argv)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed: nobody reads
                setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the end
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, Noticed())
        with _warnings_told():
            return answered(sys.argv[1:])

    def answered(argv: Sequence[str]) -> int:
        try:
            code = main(argv)
            sys.stdout.flush()  # a pipe without a reader shows now, not when Python ends
        except SpecError as error:
            tell(_line(error))
            return CONFIG_ERROR
        except KeyboardInterrupt as stop:
            return stop.code if isinstance(stop, Stopped) else INTERRUPTED
        except BrokenPipeError:  # the reader, head perhaps, has seen enough
            _discard(sys.stdout.fileno())
            return UNREAD
        except (XsimError, OSError) as error:
            tell(_line(error))
            return 1
        return code

    return command


@contextmanager
def _warnings_told() -> Iterator[None]:
    """Within, a warning is a line for who reads it, once, without the place in the source that gave it."""
    said: set[str] = set()

    def told(message: Warning | str, *_place: object) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            said.add(text)
            tell(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.showwarning = told  # type: ignore[assignment]  # the place goes untold
        yield


def alone(folder: Path, module: str) -> Path:
    """``folder`` as an argument of ``module`` names it.

    Raises:
        SpecError: It is an override such as ``out=results``, which these commands do not have.
    """
    if "=" in str(folder) and not folder.is_dir():
        fix = f"write the folder alone: {module} FOLDER"
        raise SpecError("folder", str(folder), "it is a setting, and no folder", fix)
    return folder


def tell(text: str) -> None:
    """Print ``text`` without its secrets on stderr; work goes on if nobody reads that any more."""
    try:
        print(shown(text), file=sys.stderr, flush=True)
    except OSError:  # a closed pipe, or a terminal that has gone
        _discard(sys.stderr.fileno())


def _line(error: Exception) -> str:
    return f"error: {' '.join(str(error).splitlines())}"


def starts(module: str) -> str:
    """What to type to start ``module``, in the manner in which this process was started.

    A console script names its neighbour, ``xsim-ui``; else it is ``python -m runners.ui``, with the path of the
    interpreter if the shell would find another one.
    """
    own = Path(sys.argv[0])
    if own.name.startswith("xsim-"):
        return _typed(own.with_name(f"xsim-{module.rpartition('.')[2]}"))
    return f"{_typed(Path(sys.executable))} -m {module}"


def _typed(program: Path) -> str:
    """The bare name of ``program`` if the shell finds it by that, else its path."""
    path = program.absolute()
    names = ("python", path.name) if path.name.startswith("python") else (path.name,)
    for name in names:
        found = shutil.which(name)
        if found is not None and Path(found).parent == path.parent:
            return name
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _discard(descriptor: int) -> None:
    """Let everything written to ``descriptor`` vanish."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
