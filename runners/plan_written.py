"""A plan in files: as a deployment, as JSON, as arguments of Megatron-LM, as tables and as a picture."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import yaml

from runners.detail import write_tables
from runners.options import offered
from runners.plan_tables import Outlined, pass_table, stage_table
from runners.whole_files import write_whole
from xsim.errors import SpecError
from xsim.experiment import Planned, Result
from xsim.interop.plans.as_json import plan_json
from xsim.interop.plans.megatron import megatron_words
from xsim.spec.codec import to_plain
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Stage
from xsim.spec.naming import text_fields
from xsim.spec.scenario import Scenario

__all__ = ["deployment_yaml", "write_plan"]

LONGEST_FOLDER = 120  # bytes of its name: file systems take 255, and suffixes are added
_WIDTH = 120


def write_plan(
    folder: Path, scenario: Scenario, planned: Planned, found: Outlined, result: Result | None, words: Sequence[str]
) -> None:
    """Everything under ``folder`` / name, and where it is on the screen.

    The name tells the cluster, the model and the plan; another plan of that name, which is there already, stays.

    Args:
        words: Of a command line: the experiment without its plan.
    """
    from analysis.plan import draw

    text = deployment_yaml(planned.deployment, scenario).encode()
    name = _unused_name(folder, "_".join((scenario.cluster.name, scenario.model.name, found.name)), text)
    own = folder / name
    write_whole(_deployment(own), text)
    write_whole(own / f"{name}.json", plan_json(found.sketch, scenario).encode())
    command = ["python", "-m", "runners.run", "-cd", str(own), *words, f"deployment={name}"]
    print(f"\nDeployment: {shlex.join(command)}")
    print(f"Plan as JSON: {own / f'{name}.json'}")
    arguments = own / f"{name}.args"
    try:
        write_whole(arguments, (shlex.join(megatron_words(found.sketch, scenario)) + "\n").encode())
        print(f"Arguments of Megatron-LM: {arguments}")
    except SpecError as refusal:
        arguments.unlink(missing_ok=True)
        print(f"No arguments of Megatron-LM: {refusal.problem}")
    tables = {"stages": stage_table(found.parts)}
    if result is not None:
        tables["passes"] = pass_table(found.parts, result)
    else:
        (own / "passes.parquet").unlink(missing_ok=True)
    write_tables(own, tables)
    print(f"Picture: {draw(own)}")


def _unused_name(folder: Path, said: str, text: bytes) -> str:
    """``said`` as the name of a folder, with a number if another deployment than ``text`` has it."""
    name = re.sub(r"[^\w-]+", "_", said).strip("_").encode()[:LONGEST_FOLDER].decode(errors="ignore")
    numbered = (name if number == 1 else f"{name}_{number}" for number in itertools.count(1))
    known = offered("deployment")
    return next(each for each in numbered if each not in known and _is_free(_deployment(folder / each), text))


def _is_free(path: Path, text: bytes) -> bool:
    return not path.exists() or path.read_bytes() == text


def _deployment(folder: Path) -> Path:
    return folder / "deployment" / f"{folder.name}.yaml"


def deployment_yaml(deployment: DeploymentPlan, scenario: Scenario) -> str:
    """A file that ``deployment=`` takes, without what goes without saying: usual values, and the ends of the model."""
    plain = to_plain(deployment)
    layers = scenario.model.layers
    for replica in plain["replicas"]:
        for stage in replica["stages"]:
            parts = stage["layers"] if isinstance(stage["layers"], list) else [stage["layers"]]
            for part in parts:
                if part["last"] > 0 and part["first"] <= layers:
                    part["first"], part["last"] = max(part["first"], 1), min(part["last"], layers)
            stage["groups"] = [_told(group, DeviceGroup) for group in stage["groups"]]
        replica["stages"] = [_told(stage, Stage) for stage in replica["stages"]]
    told = _told(plain, DeploymentPlan)
    plain = {"name": told.pop("name", "")} | told
    return str(yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=_WIDTH, allow_unicode=True))


def _told(node: dict[str, object], cls: type) -> dict[str, object]:
    """Without what is as it is by default."""
    usual = {name: each for name, each in text_fields(cls).items() if not each.required}
    defaults = {field.name: field.default for field in fields(cls)}
    alike = {name for name, each in usual.items() if node.get(name) in (defaults[each.attribute], [], None)}
    return {name: value for name, value in node.items() if name not in alike}
