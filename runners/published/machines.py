"""The cluster of a row: hosts of its source, as many as it states, in the order of its ranks."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from runners.published.rows import Row
from runners.published.sources import Source

__all__ = ["Unknown", "cluster"]

UPLINK = {"bandwidth": "3200 Gbps", "latency": "1 ns"}  # of a switch that blocks nobody there is none in use
GROUP = re.compile(r"(.+)x(\d+)")  # GH-96x4
PART = re.compile(r"(\d+)x([^(]+)(\(.*\))?")  # 12xV100-16GB(p3.8xlarge)


class Unknown(Exception):  # noqa: N818 - no error: the row is left out, and this says why
    """Why a row cannot be replayed."""


def cluster(row: Row, source: Source) -> dict[str, Any]:
    """As a cluster's file has it.

    Raises:
        Unknown: A device that the source's hosts do not have, or counts that do not go together.
    """
    hosts = [_host(source, kind, devices, count) for kind, devices, count in _hosts(row, source)]
    return {"name": row.group, "hosts": hosts, "scale_out": {"uplink": UPLINK, "hosts_per_tor": row.whole["nodes"]}}


def _hosts(row: Row, source: Source) -> list[tuple[str, int, int]]:
    """(kind, devices of each host, hosts) in rank order."""
    groups = [part for stage in row.texts.get("gpu_per_stage_replica", "").split("|") for part in stage.split("+")]
    placed = [match for match in map(GROUP.fullmatch, groups) if match]
    if row.mixed and len(placed) == len(groups):
        runs = [(key, len(list(same))) for key, same in groupby((match[1], int(match[2])) for match in placed)]
        return [(kind, devices, count) for (kind, devices), count in runs]
    if row.mixed:
        parts = [PART.fullmatch(part) for part in row.devices.split("+")]
        found = [(match[2].strip(), int(match[1])) for match in parts if match]
        return [(kind, *_even(count, -(-count // _size(source, kind)))) for kind, count in found]
    return [(row.devices, *_even(row.whole["num_gpus"], row.whole["nodes"]))]


def _even(devices: int, hosts: int) -> tuple[int, int]:
    if devices % hosts:
        raise Unknown(f"{devices} devices on {hosts} hosts are not as many on each")
    return devices // hosts, hosts


def _size(source: Source, kind: str) -> int:
    return sum(int(slot["count"]) for slot in _entry(source, kind)["devices"])


def _entry(source: Source, kind: str) -> Mapping[str, Any]:
    if kind not in source.hosts:
        raise Unknown(f"no host with {kind or 'an unnamed device'} is known")
    return source.hosts[kind]


def _host(source: Source, kind: str, devices: int, count: int) -> dict[str, Any]:
    """A host of the source with so many devices; NICs that fewer devices do not use are left out."""
    host: dict[str, Any] = copy.deepcopy(dict(_entry(source, kind)))
    slots: Sequence[dict[str, Any]] = host["devices"]
    if devices > _size(source, kind):
        raise Unknown(f"a host has {_size(source, kind)} {kind}, and {devices} are on one")
    slots[0]["count"] = devices
    nics = host["nic"].get("per_host")
    if nics is not None:
        host["nic"]["per_host"] = min(nics, devices)
    return {**host, "count": count}
