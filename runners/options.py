"""What can be chosen on the command line: Hydra's view of the files in ``conf/`` and of the families' members."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from xsim import families
from xsim.errors import SpecError

__all__ = ["CONF", "DATA", "GROUPS", "LABELS", "ROOT", "check_choice", "check_key", "near", "offered", "store_members"]

CONF = Path(__file__).resolve().parent.parent / "conf"

DATA = ("cluster", "model", "deployment")
LABELS = (*DATA, *families.FAMILIES)  # the groups that make an experiment: a row carries the chosen names
GROUPS = (*LABELS, "tracking", "ray")
PRESETS = ("grid", "experiment")  # groups that are added with +
ROOT: Mapping[str, str] = {
    "batch": "samples per iteration; null: what the deployment trains",
    "precision": "fp32, tf32, fp16 or bf16",
    "optimizer": "adam or sgd",
    "seed": "of everything random",
    "memory": "enforce or report: whether to simulate what does not fit",
    "verify": "true: prove every communication plan correct",
    "out": "folder of all results",
    "num_workers": "simulations side by side; null: one per CPU",
    "timeout_s": "a simulation that takes longer is stopped; null: never",
    "retries": "how often a simulation is started again when its process dies",
    "retry": "failed: run the failed rows of an earlier sweep again; none: keep them",
    "dry_run": "true: list the points of the sweep and run nothing",
}


def offered(group: str, config_dirs: Iterable[Path] = ()) -> tuple[str, ...]:
    """Names of the options of ``group``, sorted; reads and imports none of them."""
    found = {path.stem for root in (CONF, *config_dirs) for path in (root / group).glob("*.yaml")}
    members = families.names(group) if group in families.FAMILIES else ()
    return tuple(sorted({*found, *members}))


def store_members() -> None:
    """Put ``{name, option: default ...}`` of every member into Hydra's config store, one group per family."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for family in families.FAMILIES:
        for name, cls in families.members(family):
            store.store(group=family, name=name, node={"name": name} | _defaults(cls))


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


def near(name: object, known: Iterable[str]) -> str:
    """``did you mean flow? `` or nothing."""
    found = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {found[0]}? " if found else ""


def _defaults(cls: type) -> dict[str, object]:
    defaults: dict[str, object] = {}
    for field in dataclasses.fields(cls):
        made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        defaults[field.name] = list(made) if isinstance(made, tuple) else made
    return defaults
