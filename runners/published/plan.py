"""Points of rows: made by the functions that make those of a sweep, of the same configs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from runners.asked import asked_for
from runners.cli import Command, Setting
from runners.compose import Composer, session
from runners.inputs import read
from runners.options import LABELS, PRESETS
from runners.published.machines import Unknown
from runners.published.measures import measured_bytes
from runners.published.replay import replay
from runners.published.rows import Row
from runners.published.sources import read_sources, source_of
from runners.resolve import Point, Resolver
from runners.settings import Settings, refuse_commands
from xsim.errors import SpecError
from xsim.plan.contracts import PlannerSite
from xsim.plan.memory import deployment_memory
from xsim.spec.scenario import check_deployment

__all__ = ["Maker", "Planned", "fits", "making", "plan_rows"]

BASE = {"planner": "uniform", "topology": "one_switch", "noise": "devices", "tracking": "none"}
LONGEST_S = 300  # of a simulation, unless the command says otherwise; what takes longer is left out
SPECS = ("cluster", "model", "deployment")
OF_SWEEPS = ("only", "shard", "copy_to", "on_done")  # without meaning for rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A row and its experiment.

    Attributes:
        step_s: Measured.
        memory_bytes: Measured, if it was.
        choices: Its experiment, or all that it may be; none if it is left out.
        trials: If there are several, each of them with one replica alone.
        reason: Why the row is left out; empty if it is not.
    """

    row: Row
    step_s: float | None = None
    memory_bytes: int | None = None
    choices: tuple[Point, ...] = ()
    trials: tuple[Point, ...] = ()
    reason: str = ""

    @property
    def point(self) -> Point | None:
        """Its experiment, if it is known which that is."""
        return self.choices[0] if len(self.choices) == 1 else None


def plan_rows(
    rows: Iterable[Row], command: Command, reference: Path | None = None
) -> tuple[tuple[Planned, ...], Settings]:
    """The experiments of ``rows``; what the command line sets holds for all of them.

    Args:
        reference: The folder that profiles of sources are in.

    Raises:
        SpecError: The command line is wrong, or asks for more than one value.
    """
    sources, models = read_sources()
    planned = []
    with making(command) as (maker, settings):
        for row in rows:
            try:
                found = replay(row, source_of(row.group, sources), models, reference)
                choices = tuple(map(maker.point, found.choices))
                trials = tuple(map(maker.point, found.trials)) if len(choices) > 1 else ()
            except (Unknown, SpecError) as error:
                planned.append(Planned(row=row, reason=str(error)))
                continue
            planned.append(
                Planned(row=row, step_s=found.step_s, memory_bytes=measured_bytes(row), choices=choices, trials=trials)
            )
    return tuple(planned), settings


@contextmanager
def making(command: Command) -> Iterator[tuple[Maker, Settings]]:
    """What makes the points of a command whose rows say what runs, and how they run.

    Raises:
        SpecError: The command line is wrong, or asks for more than one value.
    """
    for setting in command.settings:
        if setting.key in OF_SWEEPS:
            shown = ",".join(map(str, setting.values))
            raise SpecError(setting.key, shown, "it is of sweeps, and nothing here asks for it", "leave it out")
        if setting.key in PRESETS or setting.key in SPECS or len(setting.values) > 1:
            shown = ",".join(map(str, setting.values))
            raise SpecError(setting.key, shown, "the rows say that", "leave it out, or start runners.sweep")
    with session():
        asked = asked_for(command, None)
        maker = Maker.of(Composer((), command.config_dirs), asked.groups, asked.values)
        limit = Setting("timeout_s", (LONGEST_S,))
        yield maker, Settings.from_plain(maker.composer.joined(maker.base, {}, [limit, *asked.settings]))


def fits(point: Point) -> bool:
    """Whether the memory of every rank is enough; of a planner that has to look at the wires that is not known."""
    if point.labels["planner"] != "uniform":
        return True
    experiment = read(point.config).experiment()
    scenario = experiment.scenario
    plan = check_deployment(experiment.planner.plan(scenario, cast(PlannerSite, None)), scenario)
    return deployment_memory(scenario, plan, experiment.schedule.order).fits


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes points; what those of all rows share."""

    composer: Composer
    base: dict[str, object]
    named: Mapping[str, str | None]
    groups: Mapping[str, object]
    values: Sequence[Setting]

    @classmethod
    def of(cls, composer: Composer, groups: Mapping[str, object], values: Sequence[Setting]) -> Maker:
        base, named = composer.base({**BASE, **groups})
        refuse_commands(base)
        return cls(composer, base, named, groups, values)

    def point(self, choice: Mapping[str, Any]) -> Point:
        """The experiment of one choice."""
        chosen = {"memory": "report", **choice}
        values = [Setting(key, (value,)) for key, value in chosen.items() if key in SPECS or key not in LABELS]
        names = {key: str(value["name"]) for key, value in chosen.items() if key in SPECS}
        members = {key: value for key, value in chosen.items() if key in LABELS and key not in SPECS}
        resolver = Resolver(self.composer, self.base, {**self.named, **names}, [*values, *self.values])
        return resolver.point({**members, **self.groups})
