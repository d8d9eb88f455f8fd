"""Files of other simulators: found, recognised by how they begin, and read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xsim.errors import SpecError

if TYPE_CHECKING:
    from xsim.fabric.flows import FlowList
    from xsim.fabric.graph import Graph
    from xsim.interop.htsim import Failure

__all__ = ["FORMATS", "Listed", "Wires", "file_text", "named", "read_flows", "read_topology"]

FORMATS = ("plain", "hpcc", "htsim")  # of flows
TREE_KEYS = ("nodes", "tiers", "podsize", "tier")  # that may begin a topology of htsim, and a list of flows
LIST_KEYS = ("nodes", "connections", "triggers", "failures", "trigger", "failure")


@dataclass(frozen=True, slots=True, eq=False)
class Wires:
    """What a topology file says.

    Attributes:
        nvswitches: Those of servers. Traffic takes them where it can, and they neither pause nor mark.
    """

    graph: Graph
    nvswitches: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """What a file of flows says.

    Attributes:
        failures: Links of the topology that are out of order.
    """

    flows: FlowList
    failures: tuple[Failure, ...] = ()


def read_topology(path: Path, failures: tuple[Failure, ...]) -> Wires:
    """The topology in ``path``, of HPCC, SimAI or htsim, without the links that are out of order.

    Raises:
        SpecError: It cannot be read, or is not of htsim though links are out of order: only that names links so.
    """
    text, name = file_text("topology", path), path.name
    first = _first_line(text)
    words, key = len(first.split()), _begins(first, TREE_KEYS)
    if failures and not key:
        problem = "the flows say which links of an htsim topology are out of order, and it is none"
        raise SpecError("topology", str(path), problem, "give a .topo file, or leave the failures out")
    with named(name):
        if key:
            from xsim.interop.htsim_topology import read_topology as read_tree

            return Wires(read_tree(text, name).graph(failures))
        if words == 6 and re.match("[0-9]", first):
            from xsim.interop.simai import read_topology as read_servers

            servers = read_servers(text, name)
            return Wires(servers.graph, servers.nvswitches)
        if words == 3 and re.match("[0-9]", first):
            from xsim.interop.hpcc import read_topology as read_graph

            return Wires(read_graph(text, name))
    fix = "begin with three numbers (HPCC), with five and a type of GPU (SimAI), or with a key such as Nodes (htsim)"
    raise SpecError(f"{name} line 1", first, "no topology begins like this", fix)


def read_flows(path: Path, chosen: str | None) -> Listed:
    """The flows in ``path``, in the format ``chosen``, one of ``FORMATS``, or in that which it looks like.

    Raises:
        SpecError: It cannot be read.
    """
    text, name = file_text("flows", path), path.name
    kind = chosen or _kind(_first_line(text), name)
    with named(name):
        if kind == "htsim":
            from xsim.interop.htsim import read_matrix

            matrix = read_matrix(text, name)
            return Listed(matrix.flows, matrix.failures)
        if kind == "hpcc":
            from xsim.interop.hpcc import read_flows as read_started

            return Listed(read_started(text, name))
        from xsim.interop.flows import read_flows as read_plain

        return Listed(read_plain(text, name))


def _kind(first: str, name: str) -> str:
    words = len(first.split())
    if _begins(first, LIST_KEYS):
        return "htsim"
    if re.match("[0-9]", first) and words in (1, 6, 7):
        return "hpcc" if words == 1 else "plain"
    fix = f"begin with a number alone (hpcc), six or seven (plain) or Nodes (htsim), or give format={'|'.join(FORMATS)}"
    raise SpecError(f"{name} line 1", first, "no list of flows begins like this", fix)


def _begins(first: str, keys: tuple[str, ...]) -> bool:
    return first.partition(" ")[0].partition("\t")[0].lower() in keys


def file_text(key: str, path: Path) -> str:
    """What stands in the file that ``key`` names.

    Raises:
        SpecError: There is none, or it is no text.
    """
    if not path.is_file():  # a pipe would keep the reader waiting, and a device may have no end
        problem = "it is no regular file" if path.exists() else "there is no such file"
        problem = "it is a folder" if path.is_dir() else problem
        raise SpecError(key, str(path), problem, "write the path of one")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError(key, str(path), "it is not text", "write the path of a text file") from None
    except OSError as error:
        raise SpecError(key, str(path), f"it cannot be read ({error.strerror})", "let it be readable") from None


def _first_line(text: str) -> str:
    """The first line that says something."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return next((line for line in lines if line), "")


@contextmanager
def named(name: str) -> Iterator[None]:
    """Errors within begin with the file's name."""
    try:
        yield
    except SpecError as error:
        if error.field.startswith(name):
            raise
        raise SpecError(f"{name} {error.field}", error.value, error.problem, error.fix) from None
