"""What the replay of flows is told on its command line: ``key=value``."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runners.foreign import FORMATS
from xsim.errors import SpecError
from xsim.families import build, defaults, member, names
from xsim.sim.contracts import NetworkBackend

__all__ = ["KEYS", "Options", "epilog", "read_options"]

KEYS: Mapping[str, str] = {
    "topology": "FILE: links and switches, as HPCC or SimAI (text) or htsim (.topo) write them",
    "flows": "FILE: flows, as HPCC (text) or htsim (.cm) write them, or plain: id src dst bytes start_ns dep",
    "out": "FILE.csv: completion times, one line per flow; without it only the summary is printed",
    "format": f"{', '.join(FORMATS)}: how the flows are written, if that does not show",
    "network": "how flows share links; its options are set with a dot, network.reuse=false",
    "payload": "bytes of a flow that a full packet carries (1000)",
    "header": "bytes that each packet carries besides (48)",
    "seed": "of what is left to chance (0)",
}
_WIDTH = 100
_LARGEST = {"payload": 2**20, "header": 10_000, "seed": 10**9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was typed; paths exist only when they are read."""

    topology: Path
    flows: Path
    out: Path | None
    format: str | None
    network: str
    payload_bytes: int
    header_bytes: int
    seed: int
    of_network: Mapping[str, object] = field(default_factory=dict)

    def backend(self) -> NetworkBackend:
        """The member of the family ``network``, with its options."""
        found: NetworkBackend = build("network", {"name": self.network, **self.of_network})
        return found


def read_options(words: Sequence[str]) -> Options:
    """The options of ``words``, each ``key=value``. Raises SpecError."""
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise SpecError("command line", word, "it cannot be read", "write key=value; --help lists the keys")
        if key not in KEYS and not key.startswith("network."):
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise SpecError("command line", word, "there is no such key", f"{hint}the keys are {', '.join(KEYS)}")
        if key in given:
            raise SpecError(key, value, "it is set twice", "set it once")
        given[key] = value
    for key in ("topology", "flows"):
        if key not in given:
            raise SpecError(key, None, "it is missing", f"write {key}=FILE")
    _one_of("network", given.get("network", "flow"), names("network"))
    if "format" in given:
        _one_of("format", given["format"], FORMATS)
    options = Options(
        topology=Path(given["topology"]),
        flows=Path(given["flows"]),
        out=Path(given["out"]) if "out" in given else None,
        format=given.get("format"),
        network=given.get("network", "flow"),
        payload_bytes=_whole(given, "payload", 1000, 1),
        header_bytes=_whole(given, "header", 48, 0),
        seed=_whole(given, "seed", 0, 0),
        of_network={key.partition(".")[2]: _scalar(value) for key, value in given.items() if "." in key},
    )
    options.backend()
    _check_out(options)
    return options


def _one_of(key: str, value: str, offered: Sequence[str]) -> None:
    if value not in offered:
        raise SpecError(key, value, "there is no such option", f"choose one of {', '.join(offered)}")


def _whole(given: Mapping[str, str], key: str, default: int, low: int) -> int:
    text, high = given.get(key, str(default)), _LARGEST[key]
    if not (text.isascii() and text.isdigit() and len(text) < 11 and low <= int(text) <= high):
        raise SpecError(key, text, f"it is no whole number from {low} to {high}", "write digits only")
    return int(text)


def _scalar(text: str) -> object:
    """A truth value or a number if it is one, else the text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_out(options: Options) -> None:
    """What cannot be written is found before anything is simulated."""
    out = options.out
    if out is None:
        return
    shown = str(out)
    if not out.parent.is_dir():
        raise SpecError("out", shown, "its folder does not exist", "create it, or choose another")
    if out.is_dir():
        raise SpecError("out", shown, "it is a folder", "write the path of a file")
    if out.exists() and any(path.exists() and out.samefile(path) for path in (options.topology, options.flows)):
        raise SpecError("out", shown, "it is read too", "choose another file")


def epilog() -> str:
    """All keys, and the networks with their options, for ``--help``."""
    found = ["keys (key=value):"]
    found += [_entry(key, text) for key, text in KEYS.items()]
    found += ["", "networks, and their options as they are if nothing is said:"]
    for name in names("network"):
        cls = member("network", name)
        about = (cls.__doc__ or "").partition("\n")[0]
        found.append(
            _entry(name, " ".join([about, *(f"network.{key}={_shown(value)}" for key, value in defaults(cls).items())]))
        )
    return "\n".join(found)


def _shown(value: object) -> str:
    """As it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entry(name: str, text: str) -> str:
    return textwrap.fill(f"{name}: {text}", _WIDTH, initial_indent="  ", subsequent_indent="      ")
