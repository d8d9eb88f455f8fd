"""Where and how experiments run: the part of the config that is not the experiment."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from runners.needs import Need
from runners.options import TABLES, near, offered
from runners.shards import Shard
from xsim.errors import SpecError
from xsim.units import parse_bytes

__all__ = ["SETTING_KEYS", "Settings", "default_uri", "refuse_commands", "sqlite_file", "tracking_uri"]

T = TypeVar("T")

SETTING_KEYS = (
    *("out", "num_workers", "timeout_s", "retries", "reserve", "max_failures", "time_budget", "shard", "on_done"),
    *("retry", "force", "only", "detail", "copy_to", "dry_run", "tracking", "ray"),
)
TIMES_S = {"s": 1, "min": 60, "h": 3600, "d": 86400}
VARIABLE = "MLFLOW_TRACKING_URI"  # MLflow's own; it keeps a password out of command lines
STORES = ("sqlite", "http", "https", "postgresql", "mysql", "mssql")  # that MLflow has; of files alone no longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """No result depends on these; ``conf/config.yaml`` says what each means.

    Attributes:
        detail: Which large tables of each run are kept.
        copy_to: Where the final table goes too: a file, by its address.
        tracking_uri: Of the MLflow store; absent if nothing is tracked.
        force: Run points again whose rows are there; the new rows replace them.
        only: Beginnings of the keys of the points to run; empty: all.
        ray_address: ``local`` for a Ray of one's own.
        ray_ship: Whether a cluster's workers get the simulator of this process.
        reserve: Per network what one simulation takes of its host.
        max_failures: So many rows that failed end the sweep.
        time_budget_s: After it nothing starts any more.
        shard: The part of the points that this process is to run.
        on_done: What to give to the shell when the sweep has ended; empty: nothing.
    """

    out: Path
    num_workers: int | None
    timeout_s: float | None
    retries: int
    retry_failed: bool
    force: bool
    only: tuple[str, ...]
    dry_run: bool
    detail: tuple[str, ...]
    copy_to: str | None
    tracking_uri: str | None
    ray_address: str
    ray_ship: bool = False
    reserve: Mapping[str, Need] = field(default_factory=dict)
    max_failures: int | None = None
    time_budget_s: float | None = None
    shard: Shard | None = None
    on_done: str = ""

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.num_workers < 1:
            raise SpecError("num_workers", self.num_workers, "nothing would run", "write 1 or more, or null")
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            problem = "it never comes" if self.timeout_s == math.inf else "it is no positive time"
            raise SpecError("timeout_s", self.timeout_s, problem, "write seconds, or null for no limit")
        if self.retries < 0:
            raise SpecError("retries", self.retries, "it is negative", "write 0 or more")
        if self.max_failures is not None and self.max_failures < 1:
            raise SpecError("max_failures", self.max_failures, "nothing would run", "write 1 or more, or null")

    @classmethod
    def from_plain(cls, config: Mapping[str, object]) -> Settings:
        """Read the keys ``SETTING_KEYS``."""
        out = _folder(_typed(config, "out", str))
        retry = _typed(config, "retry", str)
        if retry not in ("none", "failed"):
            raise SpecError("retry", retry, "there is no such policy", "choose one of none, failed")
        own = config.get("ray")  # a file of one's own need not say what it leaves as it is
        ray = _inside({"ray": {"ship": False, **own} if isinstance(own, Mapping) else own}, "ray", "address", "ship")
        return cls(
            out=out,
            num_workers=None if config["num_workers"] is None else _typed(config, "num_workers", int),
            timeout_s=_seconds(config, "timeout_s"),
            retries=_retries(config),
            retry_failed=retry == "failed",
            force=_typed(config, "force", bool),
            only=_beginnings(config["only"]),
            dry_run=_typed(config, "dry_run", bool),
            detail=_tables(config["detail"]),
            copy_to=None if config["copy_to"] is None else _typed(config, "copy_to", str),
            tracking_uri=tracking_uri(_inside(config, "tracking", "uri")["uri"], out),
            ray_address=_address(ray["address"]),
            ray_ship=_flag("ray.ship", ray["ship"]),
            reserve=_reserve(config["reserve"]),
            max_failures=None if config["max_failures"] is None else _typed(config, "max_failures", int),
            time_budget_s=_budget(config["time_budget"]),
            shard=None if config["shard"] is None else Shard.from_text(config["shard"]),
            on_done="" if config["on_done"] is None else _typed(config, "on_done", str),
        )


def refuse_commands(config: Mapping[str, object]) -> None:
    """Refuse files of a config that name a command: who runs a sweep types it.

    Raises:
        SpecError: ``config``, without what the command line sets, has an ``on_done``.
    """
    if config.get("on_done") is not None:
        fix = "write it on the command line: \"on_done='...'\""
        raise SpecError("on_done", config["on_done"], "a config cannot name a command to run", fix)


def _beginnings(value: object) -> tuple[str, ...]:
    """Of keys: ``3f9a,07c2`` or a list."""
    found = [] if value is None else value.strip("[]").split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not all(re.fullmatch("[0-9a-f]{1,32}", str(each).strip()) for each in found):
        problem, fix = "it is no beginning of a key", "write some of its hexadecimal digits: only=3f9a,07c2"
        raise SpecError("only", value, problem, fix)
    return tuple(str(each).strip() for each in found)


def default_uri(out: Path) -> str:
    """Where the runs under ``out`` are tracked unless told otherwise."""
    return f"sqlite:///{out / 'mlflow.db'}"


def sqlite_file(uri: str) -> Path | None:
    """The file of an SQLite store; absent for another."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:///") else None


def _folder(text: str) -> Path:
    if not text or "\0" in text:
        raise SpecError("out", text, "it is no path", "name the folder of all results")
    return Path(text).expanduser().resolve()


def tracking_uri(uri: object, out: Path) -> str | None:
    """The address that ``uri`` means for results under ``out``; ``None`` if nothing is to be tracked.

    Raises:
        SpecError: MLflow can keep nothing there.
    """
    if uri is None:
        return default_uri(out)
    if uri == "none":
        return None
    if uri == "environment":
        uri = os.environ.get(VARIABLE)
        if not uri:
            fix = f"export {VARIABLE}=postgresql://USER:PASSWORD@HOST/NAME, say, or write tracking.uri=http://HOST:PORT"
            raise SpecError("tracking.uri", "environment", f"the variable {VARIABLE} is not set", fix)
    scheme, _, place = uri.partition("://") if isinstance(uri, str) else ("", "", "")
    if scheme.partition("+")[0] not in STORES or place.strip("/") in ("", ":memory:") or re.search(r"\s", place):
        fix = "write sqlite:///FILE, http://HOST:PORT or postgresql://USER@HOST/NAME, or choose tracking=none"
        raise SpecError("tracking.uri", uri, "it names no store that MLflow can keep", fix)
    path = str(uri).removeprefix("sqlite:///")
    return str(uri) if path == uri or path.startswith("/") else f"sqlite:///{Path(path).resolve()}"


def _tables(asked: object) -> tuple[str, ...]:
    names = (asked,) if isinstance(asked, str) else tuple(asked) if isinstance(asked, list | tuple) else (asked,)
    if names == ("all",):
        return TABLES
    for name in names:
        if name not in TABLES:
            fix = f"write detail=all, or some of them: detail=[{','.join(TABLES)}]"
            raise SpecError("detail", name, "there is no such table", fix)
    return tuple(map(str, names))


def _address(address: object) -> str:
    if not isinstance(address, str) or not address:
        raise SpecError("ray.address", address, "it is no address", "write local, auto or HOST:PORT")
    return address


def _inside(config: Mapping[str, object], group: str, *keys: str) -> Mapping[str, object]:
    """What is in ``group``: ``keys`` and no other."""
    node = config.get(group)
    for key in keys:
        if not isinstance(node, Mapping) or key not in node:
            raise SpecError(f"{group}.{key}", None, "it is missing", f"choose an option of {group}")
    assert isinstance(node, Mapping)
    for other, value in node.items():
        if other not in keys:
            fix = f"{near(other, keys)}it has {', '.join(keys)}"
            raise SpecError(f"{group}.{other}", value, "there is no such key", fix)
    return node


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SpecError(key, value, f"its type is {type(value).__name__}", "write true or false")
    return value


def _typed(config: Mapping[str, object], key: str, kind: type[T]) -> T:
    value = config[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise SpecError(key, value, f"its type is {type(value).__name__}", f"write {_SHOWN[kind]}")
    return value


_SHOWN: Mapping[type, str] = {str: "a text", int: "a whole number", bool: "true or false"}


def _seconds(config: Mapping[str, object], key: str) -> float | None:
    value = config[key]
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SpecError(key, value, f"its type is {type(value).__name__}", "write a number, or null")
    return float(value)


def _retries(config: Mapping[str, object]) -> int:
    if config["retries"] is None:
        raise SpecError("retries", None, "it says not how often", "write 0 for never, or a whole number")
    return _typed(config, "retries", int)


def _budget(text: object) -> float | None:
    """Seconds of ``8 h``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(s|min|h|d)\s*", text) if isinstance(text, str) else None
    if found is None or not float(found[1]):
        raise SpecError("time_budget", text, "it is no time with its unit", "write 8h, 90min, 45s or 2d, or null")
    return float(found[1]) * TIMES_S[found[2]]


def _reserve(node: object) -> dict[str, Need]:
    """What ``{packet: {cpus: 2, memory: 8 GB}}`` reserves."""
    if not isinstance(node, Mapping):
        raise SpecError("reserve", node, "it names no network", "write reserve.packet.memory=8GB, say")
    found = {}
    for network, needs in node.items():
        if network not in (known := offered("network")):
            fix = f"{near(network, known)}choose among {', '.join(known)}"
            raise SpecError(f"reserve.{network}", needs, "there is no such network", fix)
        if not isinstance(needs, Mapping):
            raise SpecError(f"reserve.{network}", needs, "it reserves nothing", "write {cpus: 1, memory: 8 GB}")
        for key, value in needs.items():
            if key not in ("cpus", "memory"):
                raise SpecError(f"reserve.{network}.{key}", value, "there is no such key", "write cpus or memory")
        found[str(network)] = _need(f"reserve.{network}", needs)
    return found


def _need(place: str, needs: Mapping[str, object]) -> Need:
    cpus, memory = needs.get("cpus", 1), needs.get("memory")
    if not isinstance(cpus, int) or isinstance(cpus, bool) or cpus < 1:
        raise SpecError(f"{place}.cpus", cpus, "it is no number of CPUs", "write 1 or more")
    try:
        return Need(cpus, None if memory is None else parse_bytes(memory))
    except SpecError as error:
        raise SpecError(f"{place}.memory", memory, error.problem, error.fix) from None
