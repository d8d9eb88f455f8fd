"""From what a point of a grid chooses to the experiment that it means, and what it is known by."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.titles import title
from runners import options
from runners.cli import Setting
from runners.compose import Composer, Plain
from runners.grid import Choice
from runners.inputs import INPUT_KEYS, canonical, code_hash, key_of, read
from runners.user_files import with_texts
from xsim.errors import SpecError

__all__ = ["Point", "Resolver", "pack"]

OWN_COLUMN = (*options.LABELS, "seed", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One experiment to run.

    Attributes:
        labels: Option name per group of the experiment.
        choice: What else was set or varies, as text.
        config: Plain data, everything resolved: what a worker receives.
        packed: ``config_json``, which would be most of what a sweep of many thousands of points keeps in memory.
        batch: Samples per iteration; absent if it is not known.
        contradiction: Why the experiment cannot exist; absent for a sound one.
    """

    labels: Mapping[str, str | None]
    choice: str
    config: Plain
    key: str
    code: str
    packed: bytes
    seed: int
    batch: int | None
    contradiction: SpecError | None

    @property
    def config_json(self) -> str:
        """The typed experiment spelled out, canonical; of one that cannot be read, what was chosen."""
        return zlib.decompress(self.packed).decode()

    @property
    def title(self) -> str:
        """Short, for people."""
        return title(self.labels, self.choice, batch=self.batch, seed=self.seed, sound=self.contradiction is None)

    @property
    def named(self) -> dict[str, object]:
        """Its key, and what names it, by column of the results."""
        return {"key": self.key, **self.labels, "point": self.choice, "seed": self.seed}


def pack(config_json: str) -> bytes:
    """A third of it, for ``Point.packed``."""
    return zlib.compress(config_json.encode(), level=1)


@dataclass(frozen=True, slots=True)
class Resolver:
    """Makes points of one command.

    Attributes:
        base: The config without what points choose.
        named: The option of every group in it.
        values: Keys of the experiment that are the same in every point.
    """

    composer: Composer
    base: Plain
    named: Mapping[str, str | None]
    values: Sequence[Setting]

    def point(self, choice: Choice) -> Point:
        """The experiment of ``choice``, contradictory perhaps.

        Raises:
            SpecError: A part of it is malformed, or has no such option.
        """
        labels, more, chosen = self._chosen(choice)
        groups = options.members_of(self.named) | {k: v for k, v in choice.items() if k in options.LABELS}
        varied = [setting for setting in chosen if setting.key in more]
        config = with_texts(self.composer.joined(self.base, groups, [*self.values, *varied]))
        plain = {key: config.get(key) for key in INPUT_KEYS}
        if labels["deployment"] is None:
            plain["deployment"] = None
        for group in options.DATA:
            node = plain[group]
            if isinstance(node, dict):
                plain[group] = {"name": labels[group]} | node
        inputs = read(plain)
        config_json = canonical(inputs)
        settings = [*self.values, *chosen]
        contradiction = None if _reads_deployment(labels["planner"], settings) else _unread(settings, labels["planner"])
        if contradiction is not None:  # the experiment is that of another point, without what is not read
            config_json = f'{config_json[:-1]},"unread":{json.dumps(contradiction.args[:2])}}}'
        try:
            inputs.experiment()
        except SpecError as error:
            contradiction = _advised(error, labels["deployment"])
        return Point(
            labels=labels,
            choice=_choice(self.values, more),
            config=plain,
            key=key_of(config_json, code_hash()),
            code=code_hash(),
            packed=pack(config_json),
            seed=inputs.seed,
            batch=inputs.batch,
            contradiction=contradiction,
        )

    def refused(self, choice: Choice, error: SpecError) -> Point:
        """The point of a ``choice`` that cannot be read, for a row that says why."""
        labels, more, chosen = self._chosen(choice)
        given = {setting.key: setting.values[0] for setting in [*self.values, *chosen] if setting.values}
        config_json = json.dumps({"labels": labels, "set": given}, sort_keys=True, separators=(",", ":"), default=str)
        seed, batch = (given.get(key, self.base.get(key)) for key in ("seed", "batch"))
        return Point(
            labels=labels,
            choice=_choice(self.values, more),
            config={},
            key=key_of(config_json, code_hash()),
            code=code_hash(),
            packed=pack(config_json),
            seed=seed if isinstance(seed, int) else 0,
            batch=batch if isinstance(batch, int) else None,
            contradiction=error,
        )

    def blamed(self, error: SpecError, choice: Choice) -> str:
        """The key of ``choice`` or of the values that ``error`` is about; empty if it is about none of them."""
        keys = [*choice, *(setting.key for setting in self.values)]
        about = [key for key in keys if re.match(rf"{re.escape(key.removeprefix('+'))}($|[.\[])", error.field)]
        return max(about, key=len, default="")

    def _chosen(self, choice: Choice) -> tuple[dict[str, str | None], dict[str, object], list[Setting]]:
        """Option per group, what is chosen beside options, and all of it as settings."""
        labels = {label: _name(choice.get(label, self.named.get(label))) for label in options.LABELS}
        more = {key.removeprefix("+"): value for key, value in choice.items() if key not in options.LABELS}
        chosen = [Setting(k.removeprefix("+"), (v,), "add" if k[0] == "+" else "set") for k, v in choice.items()]
        if not _reads_deployment(labels["planner"], [*self.values, *chosen]):
            labels["deployment"] = None
        return labels, more, chosen


def _reads_deployment(planner: str | None, settings: Iterable[Setting]) -> bool:
    """Whether the planner takes a deployment, or begins with one."""
    warm = any(setting.key == "planner.warm_start" and setting.values == (True,) for setting in settings)
    return warm or planner in ("given", "repair")


def _unread(settings: Iterable[Setting], planner: str | None) -> SpecError | None:
    """What is wrong with keys of a deployment where the planner makes its own."""
    for setting in settings:
        if setting.key.startswith("deployment.") and setting.values:
            problem = f"the planner {planner} makes a deployment of its own"
            fix = f"write planner.{setting.key.removeprefix('deployment.')} if it has this option, or planner=given"
            return SpecError(setting.key, setting.values[0], problem, fix)
    return None


def _choice(values: Sequence[Setting], more: dict[str, object]) -> str:
    """What distinguishes a point beside its options and the columns of its own."""
    fixed = {setting.key: setting.values[0] for setting in values if setting.values}
    deleted = [f"~{setting.key}" for setting in values if not setting.values]
    shown = [f"{key}={options.spelled(value)}" for key, value in (fixed | more).items() if key not in OWN_COLUMN]
    return ", ".join([*shown, *deleted])


def _advised(error: SpecError, deployment: str | None) -> SpecError:
    """A deployment that contradicts model, cluster or batch may be right, and they the wrong ones for it."""
    if deployment is not None and error.field == "batch":
        fix = f"{error.fix} {deployment}, or choose a planner, which shares out any: planner=uniform"
        return SpecError(error.field, error.value, error.problem, fix)
    if deployment is None or not re.fullmatch(r"deployment\..*\.(ranks|layers)", error.field):
        return error
    fix = f"{error.fix}, or choose the model and cluster that {deployment} was written for"
    return SpecError(error.field, error.value, error.problem, fix)


def _name(option: object) -> str | None:
    return None if option is None else str(option)
