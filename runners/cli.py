"""The command line: flags, and overrides in Hydra's grammar."""

from __future__ import annotations

import argparse
import itertools
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis.command import Parser
from runners import options
from runners.grid import LIMIT, too_many
from runners.members import described
from runners.user_files import check_user_files
from xsim.errors import SpecError
from xsim.families import FAMILIES, INSIDE

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

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
    parser = Parser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=False, allow_abbrev=False
    )
    parser.add_argument("overrides", nargs="*", help="group=option, key=value, key=a,b,c, +grid=name")
    parser.add_argument("--help", "-h", action="store_true", help="this page; after planner=NAME, say, its options")
    parser.add_argument("--config-dir", "-cd", type=Path, action="append", default=[], help="a conf folder of your own")
    parser.add_argument("--cfg", "-c", choices=["job"], help="print the composed config and run nothing")
    parser.add_argument("--multirun", "-m", action="store_true", help=argparse.SUPPRESS)  # what Hydra's users type
    given = parser.parse_intermixed_args(argv)
    config_dirs = tuple(path.resolve() for path in given.config_dir)
    if given.help:
        parser.epilog = _epilog(config_dirs)
        chosen = "\n\n".join(_chosen(given.overrides))
        print(chosen or parser.format_help().rstrip())
        raise SystemExit(0)
    check_user_files(config_dirs)
    settings = tuple(_setting(text) for text in given.overrides)
    seen: set[str] = set()
    for setting in settings:
        if setting.key in seen:
            raise SpecError(setting.key, ",".join(map(str, setting.values)), "it is set twice", "set it once")
        seen.add(setting.key)
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

    try:
        override = OverridesParser.create().parse_override(text)
        values = () if override.is_delete() else _values(override)
    except SpecError:
        raise
    except (HydraException, ArithmeticError, ValueError, RecursionError):
        fix = "write group=option, key=value or key=a,b,c, and quote special characters: \"key='value'\""
        if text.startswith("on_done="):
            fix = 'put the command into quotes of its own: on_done=\'"COMMAND"\', with \\" for each in it'
        raise SpecError("command line", text, "it cannot be read", fix) from None
    if override.package is not None:
        raise SpecError("command line", text, "a package cannot be chosen here", f"write {override.key_or_group}=...")
    if override.key_or_group == "only" and not override.is_delete():  # digits of keys are no numbers
        return Setting("only", (text.partition("=")[2].strip(),))
    if override.is_delete():
        return Setting(override.key_or_group, values, "delete")
    return Setting(override.key_or_group, values, "add" if override.is_add() or override.is_force_add() else "set")


def _values(override: Override) -> tuple[object, ...]:
    """The value, or each of several."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Transformer

    key, whole = override.key_or_group, override.value()
    text = str(override.input_line).partition("=")[2]
    if not override.is_sweep_override():
        return (whole,)
    if getattr(whole, "shuffle", False):
        raise SpecError(key, text, "points have a fixed order", "leave out shuffle")
    elements = list(itertools.islice(override.sweep_iterator(), LIMIT + 1))
    if len(elements) > LIMIT:
        raise too_many(key, text)
    if not elements:
        raise SpecError(key, text, "it has no values", "write a range that holds at least one")
    parser = OverridesParser.create()
    return tuple(
        each if isinstance(each, int | float) else parser.parse_override(f"{key}={Transformer.str(each)}").value()
        for each in elements
    )


def _check(setting: Setting, config_dirs: tuple[Path, ...]) -> None:
    if setting.key in options.PRESETS:
        if setting.verb != "add" or len(setting.values) != 1:
            fix = f"write +{setting.key}=NAME, once"
            raise SpecError(setting.key, list(setting.values), "a preset is added to the config", fix)
        options.check_choice(setting.key, setting.values[0], config_dirs)
        return
    options.check_key(setting.key, ",".join(map(str, setting.values)))
    if setting.verb == "delete" and setting.key in options.ROOT:
        raise SpecError(f"~{setting.key}", "", "it cannot be removed", f"set it: {setting.key}=VALUE")
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
        *("members of the families (FAMILY=NAME --help has the options of one):", *_members(), ""),
        *("keys that a deployment may leave unwritten:", *_options(options.unwritten()), ""),
        "All keys inside a group are set with a dot: model.seq_len=2048",
    ]
    return "\n".join(parts)


def _members() -> Iterator[str]:
    """A line per member: what it is."""
    for family, place in _places():
        yield f" {place}"
        yield from _entries({member.name: member.about for member in described(family)})


def _places() -> Iterator[tuple[str, str]]:
    """Each family, and the key that chooses a member of it."""
    for family in (*FAMILIES, *INSIDE):
        yield family, f"{INSIDE[family]}.{family}" if family in INSIDE else family


def _chosen(words: Sequence[str]) -> Iterator[str]:
    """Of each member that ``words`` choose, what it is and its options as they are if nothing is said."""
    for family, place in _places():
        names = {word.partition("=")[2] for word in words if word.startswith(f"{place}=")}
        for member in described(family) if names else ():
            if member.name in names:
                options = dict(zip(member.options, member.meanings, strict=True))
                head = textwrap.fill(f"{place}={member.name}: {member.about}", HELP_WIDTH, subsequent_indent="      ")
                yield "\n".join([head, *(_entries(options) or ["  no options"])])


def _options(words: Sequence[str]) -> list[str]:
    return textwrap.wrap(
        " ".join(words),
        HELP_WIDTH,
        initial_indent="      ",
        subsequent_indent="      ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _entries(texts: Mapping[str, str]) -> list[str]:
    return [
        textwrap.fill(f"{name}: {text}".removesuffix(": "), HELP_WIDTH, initial_indent="  ", subsequent_indent="      ")
        for name, text in texts.items()
    ]
