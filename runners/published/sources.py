"""What a row of a table does not say and its source does: hosts, links, software. One entry per source, in YAML."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import yaml

from xsim.errors import SpecError

__all__ = ["FILE", "Source", "architecture", "read_sources", "source_of"]

FILE = Path(__file__).with_name("sources.yaml")
Flops = Literal["model", "recomputed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of measured runs.

    Attributes:
        about: What it is, for readers of the report.
        hosts: By the name of a device in the rows: a host as a cluster's file has it, with all of its devices.
        vocab: Entries of the token table where neither the row nor its model's architecture states any.
        seq: Tokens of a sample where the row states none.
        precision: Dtype where the row states none.
        recompute: What the backward pass computes again where the row states nothing: none, selective or full.
        model: Facts of the model that hold for every row, by the keys of a model's file.
        ends: How many entries of a stage's list of layers come before the first layer and after the last.
        micro_batch: What the row's is if it states none: ``fastest`` takes the power of two that is simulated to be
            fastest among those that fit, for sources that say that they chose it; absent: such rows are left out.
        chunks: Virtual stages likewise, for sources that interleave.
        bucket: How large a bucket of gradients is: ``megatron`` is the size that Megatron Core chooses, 40 million
            parameters of a rank or, if that is more, a million for each data-parallel rank; absent: as ``deployment``
            says.
        flops: What TFLOP/s count: those of the model, or those of recomputation with them (times 4/3).
        deployment: Keys of every deployment, stages' ones among them; what needs tensor parallelism holds where it is.
        settings: Other keys of the command line.
        profiles: By a pattern of the model's name, where the reference data have times that the source measured,
            operator by operator or layer by layer, with their collectives: ``path``, a folder; where there is none the
            roofline counts. If they are of another device, ``device``, they are carried from it by ``ratios``, a folder
            with times of another model on both.
        editions: What is otherwise in rows whose address has a word in it, by that word: an older software, say.
    """

    name: str
    about: str
    hosts: Mapping[str, Mapping[str, Any]]
    vocab: int | None = None
    seq: int | None = None
    precision: str | None = None
    recompute: str = "none"
    model: Mapping[str, Any] = field(default_factory=dict)
    ends: tuple[int, int] = (0, 0)
    micro_batch: Literal["fastest"] | None = None
    chunks: Literal["fastest"] | None = None
    bucket: Literal["megatron"] | None = None
    flops: Flops = "model"
    deployment: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    editions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def edition(self, address: str) -> Source:
        """The source as it was when it wrote what stands at ``address``."""
        changes = [change for word, change in self.editions.items() if word in address]
        return dataclasses.replace(self, **{key: value for change in changes for key, value in change.items()})


@functools.cache
def read_sources(path: Path = FILE) -> tuple[Mapping[str, Source], Sequence[tuple[str, Mapping[str, Any]]]]:
    """The sources by name, and architectures by a pattern of the model's name, the first that matches counts.

    Raises:
        SpecError: The file is malformed.
    """
    try:
        plain = yaml.safe_load(path.read_text(encoding="utf-8"))
        models = [
            (str(entry["name"]), {key: entry[key] for key in entry if key != "name"}) for entry in plain["models"]
        ]
        sources = {str(name): _source(str(name), entry) for name, entry in plain["sources"].items()}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        problem = f"it is no file of sources ({type(error).__name__}: {error})"
        raise SpecError("sources", str(path), " ".join(problem.split()), "write models and sources") from None
    return sources, models


def _source(name: str, entry: Mapping[str, Any]) -> Source:
    options: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    fields = [field.name for field in dataclasses.fields(Source)]
    if unknown := sorted(set(options) - set(fields)):
        offered = ", ".join(fields[1:])
        raise SpecError(f"sources.{name}", ", ".join(unknown), "there is no such key", f"it takes {offered}")
    return Source(name=name, **options)


def source_of(group: str, sources: Mapping[str, Source]) -> Source | None:
    """The source of the rows of a group: the first whose name, a pattern perhaps, is that of the group."""
    return next((source for pattern, source in sources.items() if fnmatchcase(group, pattern)), None)


def architecture(model: str, models: Sequence[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Any] | None:
    """What the family of ``model`` has beside its shape, by the keys of a model's file; absent if it is unknown."""
    return next((facts for pattern, facts in models if re.search(pattern, model, re.IGNORECASE)), None)
