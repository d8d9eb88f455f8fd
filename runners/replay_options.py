"""What the replay of flows is told on its command line: ``key=value``."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from runners.foreign import FORMATS
from xsim.errors import SpecError
from xsim.families import build, defaults, filled, member, names
from xsim.units import parse_time

if TYPE_CHECKING:
    from xsim.sim.contracts import NetworkBackend
    from xsim.sim.marking import Marking
    from xsim.sim.packets.settings import Settings

__all__ = ["KEYS", "Options", "epilog", "read_options"]

PACKET, FLOW = "packet", "flow"
KEYS: Mapping[str, str] = {
    "topology": "FILE: links and switches, as HPCC or SimAI (text) or htsim (.topo) write them",
    "flows": "FILE: flows, as HPCC (text) or htsim (.cm) write them, or plain: id src dst bytes start_ns dep",
    "out": "FILE.csv: completion times, one line per flow; without it only the summary is printed",
    "tables": "FOLDER: Parquet tables of flows, links, completion times and, if sampled, of queues over time",
    "format": f"{', '.join(FORMATS)}: how the flows are written, if that does not show",
    "network": "how flows share links: packet, or a member of the family, see below (packet)",
    "payload": "bytes of a flow that a full packet carries (1000)",
    "header": "bytes that each packet carries besides (48)",
    "seed": "of what is left to chance (0)",
    "congestion": "of packets: how senders adapt, see below (none)",
    "completion": "of packets: sender, whose last acknowledgement ends a flow, or receiver, whose last byte (sender)",
    "exact": "of packets: true counts time in whole ns as ns-3 does, false in ps (true)",
    "stored": "of flow: true: switches have a packet wholly before they send it on; false: links pass on bytes (true)",
    "sample": "of packets: how far apart the instants are at which queues and rates are noted for tables=, as 1us",
}
_OF_PACKETS = ("congestion", "completion", "exact", "sample")
_OWN_KEYS = (  # of the settings, what other keys set
    "tick_ps",
    "payload_bytes",
    "header_bytes",
    "scale_up_payload_bytes",
    "scale_up_header_bytes",
    "completion",
    "seed",
    "congestion",
    "sample_ps",
    "classes",
)
_SET_BY = {"network.header_bytes": "header", "network.sample": "sample"}
_NEEDED = ("topology", "flows")
_LARGEST = {"payload": 2**20, "header": 10_000, "seed": 10**9}
_WORDS: Mapping[str, object] = {"true": True, "false": False, "null": None}
_NS_PS = 1000
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was typed; the files are still to be read.

    Attributes:
        model: How flows share links: the settings of packets, or a backend.
        stored: Whether flows take longer because their packets are stored on their way; packets always are.
        simulator: What it is called in tables.
    """

    topology: Path
    flows: Path
    out: Path | None
    tables: Path | None
    format: str | None
    payload_bytes: int
    header_bytes: int
    seed: int
    model: Settings | NetworkBackend
    stored: bool
    simulator: str


def read_options(words: Sequence[str]) -> Options:
    """The options of ``words``, each ``key=value``. Raises SpecError."""
    given = _pairs(words)
    for key in _NEEDED:
        if key not in given:
            raise SpecError(key, None, "it is missing", f"write {key}=FILE")
    if "format" in given:
        _one_of("format", given["format"], FORMATS)
    payload_bytes, header_bytes = _whole(given, "payload", 1000, 1), _whole(given, "header", 48, 0)
    seed, network = _whole(given, "seed", 0, 0), given.get("network", PACKET)
    if network == PACKET:
        model: Settings | NetworkBackend = _settings(given, payload_bytes, header_bytes, seed)
        simulator = f"xsim-{PACKET}-{given.get('congestion', 'none')}{payload_bytes}"
    else:
        model, simulator = _backend(given, network), f"xsim-{network}"
    if "stored" in given and network != FLOW:
        problem = f"network={network} always stores them" if network == PACKET else f"network={network} stores nothing"
        raise SpecError("stored", given["stored"], problem, f"leave it out, or use network={FLOW}")
    options = Options(
        topology=Path(given["topology"]),
        flows=Path(given["flows"]),
        out=Path(given["out"]) if "out" in given else None,
        tables=Path(given["tables"]) if "tables" in given else None,
        format=given.get("format"),
        payload_bytes=payload_bytes,
        header_bytes=header_bytes,
        seed=seed,
        model=model,
        stored=network == FLOW and _truth(given, "stored"),
        simulator=simulator,
    )
    _check_out(options)
    return options


def _pairs(words: Sequence[str]) -> Mapping[str, str]:
    given: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if not value:
            raise SpecError("command line", word, "it cannot be read", "write key=value; --help lists the keys")
        if key not in KEYS and not key.startswith(("network.", "congestion.")):
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise SpecError("command line", word, "there is no such key", f"{hint}the keys are {', '.join(KEYS)}")
        if key in given:
            raise SpecError(key, value, "it is set twice", "set it once")
        given[key] = value
    return given


def _settings(given: Mapping[str, str], payload_bytes: int, header_bytes: int, seed: int) -> Settings:
    from xsim.fabric.flows import CLASS
    from xsim.sim.packets.settings import Settings
    from xsim.sim.packets.unused import check_used

    options = _options(given)
    ecn = options.pop("ecn", None)
    completion = given.get("completion", "sender")
    _one_of("completion", completion, ("sender", "receiver"))
    fixed = {field.name: field.default for field in fields(Settings) if field.name in _OWN_KEYS} | {
        "tick_ps": _NS_PS if _truth(given, "exact") else 1,
        "payload_bytes": payload_bytes,
        "header_bytes": header_bytes,
        "completion": completion,
        "congestion": build("congestion", {"name": given.get("congestion", "none"), **_dotted(given, "congestion")}),
        "seed": seed,
        "sample_ps": _sample_ps(given),
        "classes": (CLASS,),
        "ecn": None if ecn is None else _ecn(ecn),
    }
    try:
        found: Settings = filled(Settings, "network", PACKET, options, fixed)
    except SpecError as error:
        raise SpecError(_SET_BY.get(error.field, error.field), error.value, error.problem, error.fix) from None
    known = {name: value for name, value in options.items() if name != "class_order"}  # flows say of which classes
    try:
        check_used(found, known if ecn is None else {**known, "ecn": ecn})
    except SpecError as error:
        raise error.under("network") from None
    return found


def _ecn(text: object) -> Mapping[int, Marking]:
    from xsim.sim.marking import markings_of

    try:
        return markings_of(str(text))
    except SpecError as error:
        raise error.under("network") from None


def _sample_ps(given: Mapping[str, str]) -> int | None:
    if "sample" not in given:
        return None
    if "tables" not in given:
        raise SpecError("sample", given["sample"], "what is noted is not written", "write tables=FOLDER too")
    try:
        return parse_time(given["sample"])
    except SpecError as error:
        raise SpecError("sample", given["sample"], error.problem, error.fix) from None


def _backend(given: Mapping[str, str], network: str) -> NetworkBackend:
    _one_of("network", network, names("network"))
    for key, value in given.items():
        if key in _OF_PACKETS or key.startswith("congestion."):
            raise SpecError(key, value, f"network={network} knows no packets", f"leave it out, or use network={PACKET}")
    found: NetworkBackend = build("network", {"name": network, **_options(given)})
    return found


def _options(given: Mapping[str, str]) -> dict[str, object]:
    """Those of the network, without what other keys set."""
    options = _dotted(given, "network")
    for key in _OWN_KEYS:
        if key in options:
            raise SpecError(f"network.{key}", options[key], "it is no option of its own", "--help lists the keys")
    return options


def _truth(given: Mapping[str, str], key: str) -> bool:
    text = given.get(key, "true")
    _one_of(key, text, ("true", "false"))
    return text == "true"


def _dotted(given: Mapping[str, str], group: str) -> dict[str, object]:
    """The options of a member."""
    return {key.partition(".")[2]: _scalar(value) for key, value in given.items() if key.startswith(f"{group}.")}


def _one_of(key: str, value: str, offered: Sequence[str]) -> None:
    if value not in offered:
        raise SpecError(key, value, "there is no such option", f"choose one of {', '.join(offered)}")


def _whole(given: Mapping[str, str], key: str, default: int, low: int) -> int:
    text, high = given.get(key, str(default)), _LARGEST[key]
    if not (text.isascii() and text.isdigit() and len(text) < 11 and low <= int(text) <= high):
        raise SpecError(key, text, f"it is no whole number from {low} to {high}", "write digits only")
    return int(text)


def _scalar(text: str) -> object:
    """What is written as YAML has it: a truth value, null, a number, else the text."""
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_out(options: Options) -> None:
    """What cannot be written is found before anything is simulated."""
    from runners.preflight import check_place

    if options.tables is not None:
        check_place("tables", options.tables)
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
    if out.suffix != ".csv":
        raise SpecError("out", shown, "what is written there is CSV", "end its name with .csv; tables= writes Parquet")
    check_place("out", out.parent)


def epilog() -> str:
    """All keys, the networks and the congestion controls with their options, for ``--help``."""
    from xsim.sim.packets.settings import Settings

    found = ["keys (key=value):", *(_entry(key, text) for key, text in KEYS.items()), ""]
    found += ["networks, and their options as they are if nothing is said:"]
    own = {field.name: field.default for field in fields(Settings) if field.name not in _OWN_KEYS}
    found.append(_member("network", PACKET, "Packet by packet, as ns-3 has RDMA hosts and lossless switches.", own))
    others = [name for name in names("network") if name != PACKET]
    for family, members in (("network", others), ("congestion", names("congestion"))):
        found += ["", "congestion controls of packets:"] if family == "congestion" else []
        for name in members:
            cls = member(family, name)
            options = {key: value for key, value in defaults(cls).items() if key not in _OWN_KEYS}
            found.append(_member(family, name, (cls.__doc__ or "").partition("\n")[0], options))
    return "\n".join(found)


def _member(family: str, name: str, about: str, options: Mapping[str, object]) -> str:
    words = {repr(value): word for word, value in _WORDS.items()}
    shown = (f"{family}.{key}={words.get(repr(value), value)}" for key, value in options.items())
    return _entry(name, " ".join([about, *shown]))


def _entry(name: str, text: str) -> str:
    return textwrap.fill(f"{name}: {text}", _WIDTH, initial_indent="  ", subsequent_indent="      ")
