"""What can be chosen on the command line: Hydra's view of the files in ``conf/`` and of the families' members."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xsim import families
from xsim.errors import SpecError
from xsim.spec.cluster import ClusterSpec
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.model import ModelSpec
from xsim.spec.naming import text_fields

__all__ = [
    "CONF",
    "DATA",
    "GROUPS",
    "LABELS",
    "PRESETS",
    "ROOT",
    "TABLES",
    "UNWRITTEN",
    "check_choice",
    "check_key",
    "check_member_option",
    "fields_of",
    "members_of",
    "near",
    "offered",
    "spelled",
    "spelled_out",
    "store_members",
    "unwritten",
    "unwritten_of",
]

CONF = Path(__file__).resolve().parent.parent / "conf"

_SPECS: Mapping[str, type] = {"cluster": ClusterSpec, "model": ModelSpec, "deployment": DeploymentPlan}
DATA = tuple(_SPECS)
LABELS = (*DATA, *families.FAMILIES)  # the groups that make an experiment: a row carries the chosen names
GROUPS = (*LABELS, "tracking", "ray")
PRESETS = ("grid", "experiment")  # groups that are added with +
TABLES = (
    *("ranks", "memory", "operators", "links", "exchanges", "collectives"),
    *("completion", "flows", "queues", "iterations", "timeline"),
)
ROOT: Mapping[str, str] = {
    "batch": "samples per iteration; null: what the deployment trains",
    "precision": "fp32, tf32, fp16, bf16, or fp8 for the products of layers and bf16 for the rest",
    "optimizer": "adam or sgd",
    "attention": "flash (one fused kernel) or unfused (whole matrices of scores)",
    "loss": "fused, or unfused: a kernel for each step of its softmax",
    "context_parallel": "with cp of a deployment: ring (keys and values go round) or all_to_all (heads are dealt)",
    "expert_load": "how many tokens go to each expert, in proportion, [3,1,1,1] perhaps; []: as many to each",
    "capacity_factor": "what an expert takes at most, over an equal share; what is over is dropped; 0: nothing is",
    "gradient_dtype": "of what is added up and synchronised, fp32, fp16 or bf16; null: as precision",
    "launch": "of one kernel or collective by the host, 20 us perhaps; 0 us: its device never waits for it",
    "framework": "memory that the framework takes of each device, 1.3 GB perhaps",
    "fragmentation": "part of the memory taken for tensors that lies unusable between them, 0.1 perhaps",
    "contention": "processors that a collective or sync takes from what computes beside it, 0.12 of them perhaps",
    "seed": "of everything random",
    "iterations": "of one run, with noise=devices or background traffic: the mean, its confidence, p50 and p99",
    "data_loading": "how late the samples of an iteration come, 50 ms perhaps; 0 s: they are loaded ahead",
    "faults": "links that fail, of network=packet: [{at: 10 ms, link: tor0 -> spine1, until: 20 ms}]",
    "memory": "enforce or report: whether to simulate what does not fit",
    "verify": "true: prove every communication plan correct",
    "out": "folder of all results",
    "num_workers": "simulations side by side; null: one per CPU",
    "timeout_s": "a simulation that takes longer is stopped; null: never",
    "retries": "how often a simulation is started again when its process dies",
    "reserve": "what one simulation takes of its host, by network: reserve.packet.memory=8GB, reserve.packet.cpus=2",
    "max_failures": "the sweep ends when so many rows failed; null: it runs them all",
    "time_budget": "the sweep ends after it, 8h perhaps; null: it runs to its end",
    "shard": "2/8: run the second of eight parts of the points alone; null: run all",
    "on_done": "on the command line only: what the shell runs when the sweep has ended",
    "retry": "failed: run the failed rows of an earlier sweep again; none: keep them",
    "detail": f"large tables of each run to keep: all, or some of [{','.join(TABLES)}]; what lacks them runs again",
    "copy_to": "address of a file to which the final table of a sweep goes too: s3://BUCKET/results.parquet",
    "force": "true: run every point again, also those whose rows are there; the new rows replace them",
    "only": "beginnings of keys as dry_run=true shows them, 3f9a,07c2: run those points alone; null: all",
    "dry_run": "true: list the points of the sweep, why each would run and for how long, and run nothing",
}

# what a deployment may leave unwritten and a command may set all the same
UNWRITTEN = frozenset(f"deployment.{name}" for name, field in text_fields(DeploymentPlan).items() if not field.required)


def fields_of(key: str) -> tuple[str, ...]:
    """Everything that the input at the dotted ``key`` may hold; empty where that is not known.

    >>> fields_of("model")[:3], fields_of("cluster.hosts.0.nic"), fields_of("ray")
    (('name', 'layers', 'hidden'), ('bandwidth', 'latency', 'per_host'), ())
    """
    group, *path = key.split(".")
    hint: Any = _SPECS.get(group)
    for part in path:
        if part.isdecimal():
            hint = next(iter(typing.get_args(hint)), None)
        else:
            found = text_fields(hint).get(part) if dataclasses.is_dataclass(hint) else None
            hint = found.hint if found else None
    return tuple(text_fields(hint)) if dataclasses.is_dataclass(hint) else ()


def unwritten_of(group: str) -> tuple[str, ...]:
    """What ``group`` may leave unwritten and does not have to be added, sorted."""
    return tuple(sorted(key.removeprefix(f"{group}.") for key in UNWRITTEN if key.startswith(f"{group}.")))


def offered(group: str, config_dirs: Iterable[Path] = ()) -> tuple[str, ...]:
    """Names of the options of ``group``, sorted; reads and imports none of them."""
    found = {path.stem for root in (CONF, *config_dirs) for path in (root / group).glob("*.yaml")}
    members = families.names(group) if group in families.FAMILIES else ()
    return tuple(sorted({*found, *members}))


def unwritten() -> tuple[str, ...]:
    """What a deployment may leave unwritten, as it is typed and with the values that it then has."""
    usual = {field.name: field.default for field in dataclasses.fields(DeploymentPlan)}
    fields = text_fields(DeploymentPlan).items()
    return tuple(
        f"deployment.{name}={spelled(usual[f.attribute])}" for name, f in fields if not f.required and name != "name"
    )


def store_members() -> None:
    """Put ``{name: ...}`` of every member into Hydra's config store, one group per family; none is imported."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for family in families.FAMILIES:
        for name in families.names(family):
            store.store(group=family, name=name, node={"name": name})


def spelled_out(family: str, node: Mapping[str, object]) -> dict[str, object]:
    """``node`` with the defaults of the options that it does not give.

    Raises:
        SpecError: There is no such member, or its file is broken.
    """
    values = families.defaults(families.member(family, str(node.get("name"))))
    full = dict(node) | {key: _listed(value) for key, value in values.items() if key not in node}
    for key in families.INSIDE:
        inner = {"name": full.get(key)} if isinstance(full.get(key), str) else full.get(key)
        if isinstance(inner, dict) and "name" in inner:
            try:
                full[key] = spelled_out(key, inner)
            except SpecError as error:
                raise error.under(family) from None
    return full


def members_of(named: Mapping[str, str | None]) -> dict[str, object]:
    """The chosen member of each family that has one."""
    return {family: named[family] for family in families.FAMILIES if named.get(family) is not None}


def check_choice(group: str, option: object, config_dirs: Iterable[Path] = ()) -> None:
    """Refuse an option that ``group`` does not have."""
    options = offered(group, config_dirs)
    if option is None and group == "deployment":
        return
    if option not in options:
        fix = f"choose one of {', '.join(options)}" if options else "there is none"
        raise SpecError(group, option, "there is no such option", near(option, options) + fix)


def check_key(key: str, value: object) -> None:
    """Refuse a key whose first part is no group and no root key."""
    known = (*GROUPS, *ROOT, "grid")
    first = key.partition(".")[0]
    if first not in known:
        raise SpecError(key, value, "there is no such key", f"{near(first, known)}the keys are {', '.join(known)}")


def check_member_option(family: str, node: Mapping[str, object], key: str, value: object, depth: int = 1) -> None:
    """Refuse an option of a family that the chosen member, described by ``node``, does not have.

    Args:
        depth: Which part of ``key`` is the option.
    """
    path = key.split(".")
    place, option = ".".join(path[:depth]), path[depth]
    inner = node.get(option)
    if option in families.INSIDE and len(path) > depth + 1 and isinstance(inner, dict):
        check_member_option(option, inner, key, value, depth + 1)
    if option in node:
        return
    having = [name for name in families.names(family) if option in _options(family, name)]
    own = ", ".join(name for name in node if name != "name")
    fix = " and ".join(f"{place}={name}" for name in having) + f" {'have' if len(having) > 1 else 'has'} it"
    if not having:
        fix = f"{near(option, node)}{f'it has {own}' if own else 'it has none'}"
    raise SpecError(key, value, f"{place}={node.get('name')} has no option {option}", fix)


def near(name: object, known: Iterable[str]) -> str:
    """``did you mean flow? `` or nothing."""
    found = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {found[0]}? " if found else ""


def spelled(value: object) -> str:
    """``value`` as it is typed on the command line.

    >>> spelled(True), spelled(None), spelled([1, False]), spelled(2.5), spelled("25 MB")
    ('true', 'null', '[1,false]', '2.5', '25 MB')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(spelled, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{spelled(entry)}' for key, entry in value.items())}}}"
    return str(value)


def _options(family: str, name: str) -> Mapping[str, object]:
    """Options of a member for a message: of one that cannot be loaded none are known."""
    try:
        return families.defaults(families.member(family, name))
    except SpecError:
        return {}


def _listed(value: object) -> object:
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return list(map(_listed, value)) if isinstance(value, tuple) else value
