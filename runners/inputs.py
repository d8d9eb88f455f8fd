"""From plain config to typed experiment, and the experiment's identity.

Reading has two steps. What is wrong in itself (an unknown device, a missing unit) fails in ``read``; what contradicts
each other (a deployment larger than the cluster) fails in ``Inputs.experiment``, so that a sweep can tell them apart.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import xsim
from analysis.version import SCHEMA_VERSION
from runners.faults import plain_faults, read_faults
from runners.scalars import flag, launch, number, numbers, policy, quantity, whole
from xsim.errors import SpecError
from xsim.experiment import Experiment
from xsim.families import FAMILIES, INSIDE, build
from xsim.families import plain as plain_options
from xsim.sim.contracts import Fault
from xsim.spec.cluster import ClusterSpec
from xsim.spec.codec import from_plain, to_plain
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.units import format_bytes, format_time, parse_bytes, parse_time

__all__ = ["INPUT_KEYS", "SCHEMA_VERSION", "Inputs", "canonical", "code_hash", "key_of", "read", "resolved"]

INPUT_KEYS = (
    "cluster",
    "model",
    "deployment",
    *FAMILIES,
    "batch",
    "precision",
    "optimizer",
    "attention",
    "loss",
    "context_parallel",
    "expert_load",
    "capacity_factor",
    "gradient_dtype",
    "launch",
    "framework",
    "fragmentation",
    "contention",
    "seed",
    "iterations",
    "data_loading",
    "faults",
    "memory",
    "verify",
)

LATER = "noise"  # a family that configs of earlier versions do not have: without it is as with its ``none``

Spec = TypeVar("Spec")
_SPECS = ("cluster", "model", "deployment")
_RUN = ("seed", "iterations", "data_loading_ps", "faults", "memory", "verify")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything an experiment is made of, each part legal in itself.

    Attributes:
        members: Per family the option's name and the object.
        batch: As asked, or what the deployment trains.
    """

    cluster: ClusterSpec
    model: ModelSpec
    deployment: DeploymentPlan | None
    members: Mapping[str, tuple[str, Any]]
    batch: int
    precision: str
    optimizer: str
    attention: str
    loss: str
    context_parallel: str
    expert_load: tuple[float, ...]
    capacity_factor: float
    gradient_dtype: str | None
    launch_ps: int
    framework_bytes: int
    fragmentation: float
    contention: float
    seed: int
    iterations: int
    data_loading_ps: int
    faults: tuple[Fault, ...]
    memory: Literal["enforce", "report"]
    verify: bool

    def experiment(self) -> Experiment:
        """The experiment.

        Raises:
            SpecError: The parts contradict each other.
        """
        scenario = Scenario(
            cluster=self.cluster,
            model=self.model,
            batch=self.batch,
            deployment=self.deployment,
            precision=cast(Any, self.precision),
            optimizer=cast(Any, self.optimizer),
            attention=cast(Any, self.attention),
            loss=cast(Any, self.loss),
            context_parallel=cast(Any, self.context_parallel),
            expert_load=self.expert_load,
            capacity_factor=self.capacity_factor,
            gradient_dtype=cast(Any, self.gradient_dtype),
            launch_ps=self.launch_ps,
            framework_bytes=self.framework_bytes,
            fragmentation=self.fragmentation,
            contention=self.contention,
        )
        chosen = {family: member for family, (_, member) in self.members.items()}
        run = {name: getattr(self, name) for name in _RUN}
        return Experiment(scenario=scenario, **chosen, **cast(Any, run))


def read(config: Mapping[str, object]) -> Inputs:
    """The typed parts of a plain config with the keys ``INPUT_KEYS``.

    Raises:
        SpecError: A part is malformed.
    """
    deployment = None if config.get("deployment") is None else _spec(DeploymentPlan, config, "deployment")
    batch = config["batch"]
    if batch is None:
        if deployment is None:
            raise SpecError("batch", None, "no deployment says how many samples to train", "write batch=64, say")
        batch = deployment.samples
    return Inputs(
        cluster=_spec(ClusterSpec, config, "cluster"),
        model=_spec(ModelSpec, config, "model"),
        deployment=deployment,
        members={family: _member(family, _chosen(config, family)) for family in FAMILIES},
        batch=whole("batch", batch),
        precision=str(config["precision"]),
        optimizer=str(config["optimizer"]),
        attention=str(config.get("attention", "flash")),
        loss=str(config.get("loss", "fused")),
        context_parallel=str(config.get("context_parallel", "ring")),
        expert_load=numbers("expert_load", config.get("expert_load") or ()),
        capacity_factor=number("capacity_factor", config.get("capacity_factor", 0.0)),
        gradient_dtype=None if config.get("gradient_dtype") is None else str(config["gradient_dtype"]),
        launch_ps=launch(config.get("launch", "0 us")),
        framework_bytes=quantity(parse_bytes, "framework", config.get("framework", "0 GB")),
        fragmentation=number("fragmentation", config.get("fragmentation", 0.0)),
        contention=number("contention", config.get("contention", 0.0)),
        seed=whole("seed", config["seed"]),
        iterations=whole("iterations", config.get("iterations", 1)),
        data_loading_ps=quantity(parse_time, "data_loading", config.get("data_loading", "0 s")),
        faults=read_faults(config.get("faults")),
        memory=policy(config["memory"]),
        verify=flag("verify", config["verify"]),
    )


def resolved(inputs: Inputs) -> dict[str, object]:
    """Every input spelled out, as plain data: reading it again gives an equal ``Inputs``."""
    specs = {name: _plain_spec(getattr(inputs, name)) for name in _SPECS}
    return specs | _plain_choices(inputs)


def canonical(inputs: Inputs) -> str:
    """``resolved`` as JSON with sorted keys and no spaces: one text for equal inputs."""
    texts = {name: _spec_json(getattr(inputs, name)) for name in _SPECS}
    texts |= {name: _json(value) for name, value in _plain_choices(inputs).items()}
    return "{" + ",".join(f'"{name}":{texts[name]}' for name in sorted(texts)) + "}"


def _plain_choices(inputs: Inputs) -> dict[str, object]:
    members = {family: {"name": name} | plain_options(member) for family, (name, member) in inputs.members.items()}
    choices = ("precision", "optimizer", "attention", "loss", "context_parallel", "gradient_dtype")
    names = ("batch", *choices, "capacity_factor", "fragmentation", "contention", "seed", "memory", "verify")
    faults = {"faults": plain_faults(inputs.faults)} if inputs.faults else {}
    added: dict[str, object] = {
        "launch": format_time(inputs.launch_ps),
        "framework": format_bytes(inputs.framework_bytes),
        "expert_load": list(inputs.expert_load),
    }
    if inputs.iterations != 1:
        added["iterations"] = inputs.iterations
    if inputs.data_loading_ps:
        added["data_loading"] = format_time(inputs.data_loading_ps)
    if inputs.members[LATER][0] == "none":
        del members[LATER]
    return members | faults | added | {name: getattr(inputs, name) for name in names}


def key_of(config_json: str, code: str) -> str:
    """Identity of a run: same inputs, same code, same table schema; 32 hexadecimal digits."""
    return hashlib.sha256(f"{SCHEMA_VERSION}\n{code}\n{config_json}".encode()).hexdigest()[:32]


@functools.cache
def code_hash() -> str:
    """Hash of the simulator's source, data and other packages' members, 16 digits: uncommitted changes count."""
    root = Path(xsim.__file__).parent
    own = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".yaml"))
    digest = hashlib.sha256()
    for path in own:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    for name in sorted(
        {entry.module for family in (*FAMILIES, *INSIDE) for entry in entry_points(group=f"xsim.{family}")}
    ):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            digest.update(name.encode() + b"\0" + Path(spec.origin).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _spec(cls: type[Spec], config: Mapping[str, object], name: str) -> Spec:
    return cast(Spec, _spec_of_text(cast(Hashable, cls), json.dumps(config[name]), name))


@functools.lru_cache(maxsize=512)
def _spec_of_text(cls: Hashable, text: str, name: str) -> object:
    """Points of a sweep share their clusters and models: each is read once."""
    return from_plain(cast(type[object], cls), json.loads(text), name)


@functools.lru_cache(maxsize=512)
def _spec_json(spec: Hashable) -> str:
    """Points of a sweep share their clusters and models: each is spelled out once."""
    return _json(_plain_spec(spec))


def _plain_spec(spec: object) -> Any:
    return None if spec is None else to_plain(spec)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _chosen(config: Mapping[str, object], family: str) -> object:
    return config.get(family, {"name": "none"}) if family == LATER else config[family]


def _member(family: str, node: object) -> tuple[str, Any]:
    if not isinstance(node, Mapping):
        raise SpecError(family, node, "it names no option", f"write {family}=NAME")
    options = {str(key): _as_tuple(value) for key, value in node.items()}
    return str(options.get("name")), build(family, options)


def _as_tuple(value: object) -> object:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value
