"""The command line: flags, and overrides in Hydra's grammar."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runners import options
from xsim.errors import SpecError

__all__ = ["Command", "Setting", "read_command", "replaced", "several"]

HELP_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Setting:
    """One override of the command line: ``key=value``, ``key=a,b``, ``+key=value`` or ``~key``."""

    key: str
    values: tuple[object, ...]
    verb: Literal["set", "add", "delete"] = "set"


@dataclass(frozen=True, slots=True)
class Command:
    """What was typed."""

    settings: tuple[Setting, ...]
    config_dirs: tuple[Path, ...]
    show: bool


def read_command(argv: Sequence[str], about: str) -> Command:
    """Parse and check names; ``--help`` prints and exits without loading Hydra.

    Raises:
        SpecError: The grammar, a group, an option or a key is wrong.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False, allow_abbrev=False
    )
    parser.add_argument("overrides", nargs="*", help="group=option, key=value, key=a,b,c, +grid=name")
    parser.add_argument("--help", "-h", action="store_true", help="this page, with all groups and options")
    parser.add_argument("--config-dir", "-cd", type=Path, action="append", default=[], help="a conf folder of your own")
    parser.add_argument("--cfg", "-c", choices=["job"], help="print the composed config and run nothing")
    parser.add_argument("--multirun", "-m", action="store_true", help=argparse.SUPPRESS)  # what Hydra's users type
    given = parser.parse_intermixed_args(argv)
    config_dirs = tuple(path.resolve() for path in given.config_dir)
    if given.help:
        parser.epilog = _epilog(config_dirs)
        parser.print_help()
        raise SystemExit(0)
    for path in config_dirs:
        if not path.is_dir():
            raise SpecError("--config-dir", str(path), "there is no such folder", "name a folder laid out like conf/")
    settings = tuple(_setting(text) for text in given.overrides)
    for setting in settings:
        _check(setting, config_dirs)
    return Command(settings, config_dirs, show=given.cfg is not None)


def several(key: str, text: str) -> tuple[object, ...]:
    """The values of ``a,b`` or ``range(0,5)``, in Hydra's grammar.

    >>> several("seed", "range(0,3)"), several("reshard", "lcm"), several("batch", "8,16")
    ((0, 1, 2), ('lcm',), (8, 16))
    """
    return _setting(f"{key}={text}").values


def replaced(argv: Sequence[str], group: str, names: Sequence[str]) -> str:
    """The words of ``argv`` with ``group`` at ``names`` and without the options of its members, for a shell.

    >>> replaced(["cluster=fig4", "reshard=lcm", "reshard.knob=5"], "reshard", ["lcm", "hetauto"])
    'cluster=fig4 reshard=lcm,hetauto'
    """
    kept = [word for word in argv if not word.lstrip("+~").startswith((f"{group}=", f"{group}."))]
    return shlex.join([*kept, f"{group}={','.join(names)}"])


def _setting(text: str) -> Setting:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    try:
        override = parser.parse_override(text)
        if override.is_delete():
            return Setting(override.key_or_group, (), "delete")
        if override.is_sweep_override():
            each = [parser.parse_override(f"{override.key_or_group}={v}") for v in override.sweep_string_iterator()]
            values = tuple(one.value() for one in each)
        else:
            values = (override.value(),)
    except HydraException:
        problem = "it cannot be read"
        raise SpecError("command line", text, problem, "write group=option, key=value or key=a,b,c") from None
    added = override.is_add() or override.is_force_add()
    return Setting(override.key_or_group, values, "add" if added else "set")


def _check(setting: Setting, config_dirs: tuple[Path, ...]) -> None:
    if setting.key in options.PRESETS:
        if setting.verb != "add" or len(setting.values) != 1:
            fix = f"write +{setting.key}=NAME, once"
            raise SpecError(setting.key, list(setting.values), "a preset is added to the config", fix)
        options.check_choice(setting.key, setting.values[0], config_dirs)
        return
    options.check_key(setting.key, ",".join(map(str, setting.values)))
    if setting.key in options.GROUPS:
        for value in setting.values:
            options.check_choice(setting.key, value, config_dirs)


def _epilog(config_dirs: tuple[Path, ...]) -> str:
    groups = {name: ", ".join(options.offered(name, config_dirs)) for name in options.GROUPS}
    presets = {f"+{name}": ", ".join(options.offered(name, config_dirs)) for name in options.PRESETS}
    parts = [
        *("groups (group=option):", *_entries(groups), ""),
        *("presets:", *_entries(presets), ""),
        *("keys (key=value):", *_entries(options.ROOT), ""),
        "Keys inside a group are set with a dot: model.seq_len=2048",
    ]
    return "\n".join(parts)


def _entries(texts: Mapping[str, str]) -> list[str]:
    return [
        textwrap.fill(f"{name}: {text}", HELP_WIDTH, initial_indent="  ", subsequent_indent="      ")
        for name, text in texts.items()
    ]
