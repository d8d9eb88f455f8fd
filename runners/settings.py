"""Where and how experiments run: the part of the config that is not the experiment."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from runners.options import near
from xsim.errors import SpecError

__all__ = ["SETTING_KEYS", "Settings", "default_uri", "sqlite_file"]

T = TypeVar("T")

SETTING_KEYS = ("out", "num_workers", "timeout_s", "retries", "retry", "force", "only", "dry_run", "tracking", "ray")
STORES = ("sqlite", "http", "https", "postgresql", "mysql", "mssql")  # that MLflow has; of files alone no longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """No result depends on these; ``conf/config.yaml`` says what each means.

    Attributes:
        tracking_uri: Of the MLflow store; absent if nothing is tracked.
        force: Run points again whose rows are there; the new rows replace them.
        only: Beginnings of the keys of the points to run; empty: all.
        ray_address: ``local`` for a Ray of one's own.
    """

    out: Path
    num_workers: int | None
    timeout_s: float | None
    retries: int
    retry_failed: bool
    force: bool
    only: tuple[str, ...]
    dry_run: bool
    tracking_uri: str | None
    ray_address: str

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.num_workers < 1:
            raise SpecError("num_workers", self.num_workers, "nothing would run", "write 1 or more, or null")
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            raise SpecError("timeout_s", self.timeout_s, "it is no positive time", "write seconds, or null")
        if self.retries < 0:
            raise SpecError("retries", self.retries, "it is negative", "write 0 or more")

    @classmethod
    def from_plain(cls, config: Mapping[str, object]) -> Settings:
        """Read the keys ``SETTING_KEYS``."""
        out = _folder(_typed(config, "out", str))
        retry = _typed(config, "retry", str)
        if retry not in ("none", "failed"):
            raise SpecError("retry", retry, "there is no such policy", "choose one of none, failed")
        return cls(
            out=out,
            num_workers=None if config["num_workers"] is None else _typed(config, "num_workers", int),
            timeout_s=_seconds(config, "timeout_s"),
            retries=_typed(config, "retries", int),
            retry_failed=retry == "failed",
            force=_typed(config, "force", bool),
            only=_beginnings(config["only"]),
            dry_run=_typed(config, "dry_run", bool),
            tracking_uri=_tracking_uri(_inside(config, "tracking", "uri"), out),
            ray_address=_address(_inside(config, "ray", "address")),
        )


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


def _tracking_uri(uri: object, out: Path) -> str | None:
    if uri is None:
        return default_uri(out)
    if uri == "none":
        return None
    scheme, _, place = uri.partition("://") if isinstance(uri, str) else ("", "", "")
    if scheme.partition("+")[0] not in STORES or place.strip("/") in ("", ":memory:"):
        fix = "write sqlite:///FILE, http://HOST:PORT or postgresql://USER@HOST/NAME, or choose tracking=none"
        raise SpecError("tracking.uri", uri, "it names no store that MLflow can keep", fix)
    path = str(uri).removeprefix("sqlite:///")
    return str(uri) if path == uri or path.startswith("/") else f"sqlite:///{Path(path).resolve()}"


def _address(address: object) -> str:
    if not isinstance(address, str) or not address:
        raise SpecError("ray.address", address, "it is no address", "write local, auto or HOST:PORT")
    return address


def _inside(config: Mapping[str, object], group: str, key: str) -> object:
    """The value of ``key``, the only one that ``group`` has."""
    node = config.get(group)
    if not isinstance(node, Mapping) or key not in node:
        raise SpecError(f"{group}.{key}", None, "it is missing", f"choose an option of {group}")
    for other, value in node.items():
        if other != key:
            raise SpecError(f"{group}.{other}", value, "there is no such key", f"{near(other, (key,))}it has {key}")
    return node[key]


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
