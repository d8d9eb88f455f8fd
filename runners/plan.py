"""Plan a scenario with any planner, or read the plan of another tool: show it, simulate it, and write it.

python -m runners.plan cluster=fig4 model=llama2_7b batch=24 planner=uniform planner.tp=1 planner.pp=5 memory=report
python -m runners.plan cluster=eth_b2_b4 model=gpt3_13b from=plan.json
python -m runners.plan cluster=eth_b2_b4 model=gpt3_13b from=costs.txt format=metis which=2 devices=T4:ascend_910b4
python -m runners.plan deployment=fig4_7b memory=report

Its stages are printed with their devices and how full they are; then what its planner predicts beside what it takes,
and where the two part. OUT/plan/NAME, the name being CLUSTER_MODEL_PLAN, gets the deployment (the line of that name is
the command that runs it), the plan as JSON, as arguments of Megatron-LM if it can be said so, tables, and a picture.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.command import CONFIG_ERROR, exits, tell
from runners.cli import read_command
from runners.options import PRESETS
from xsim.errors import SpecError, XsimError
from xsim.units import PS_PER_S

if TYPE_CHECKING:
    from runners.plan_tables import Outlined
    from xsim.experiment import Experiment, Planned, Result
    from xsim.plan.search.price import Priced

__all__ = ["main"]

LARGEST = 10**9
MOST_DIGITS = 18
KEYS: Mapping[str, str] = {
    "from": "FILE: the plan of another tool",
    "format": "json, metis, sailor, hexiscale, amp, aceso or megatron: what the file is, if that does not show",
    "which": "of several plans in the file: its number from 1, or its name (1)",
    "devices": "what kind of the cluster a name in the file is, if that does not show: T4:t4,A100:a100_80",
    "micro_batch": "samples of a micro-batch, if the file does not say it (1)",
    "simulate": "false: show the plan with its closed form, and write it (true)",
}


@exits
def main(argv: Sequence[str]) -> int:
    """Exit code: 0; 1 if the simulation failed; 2 if the input is wrong, or the plan does not fit."""
    own, words = _split(argv)
    about = [__doc__ or "", "keys of this command:", *(f"  {key}: {text}" for key, text in KEYS.items())]
    command = read_command([*words, *_implied(own, words)], "\n".join(about))
    from runners.inputs import read
    from runners.plan_report import compare, print_priced
    from runners.points import composed, plan_single

    if command.show:
        print(composed(command), end="")
        return 0
    single = plan_single(command)
    if single.settings.dry_run:
        raise SpecError("dry_run", True, "a plan is always shown", "write simulate=false")
    experiment = read(single.points[0].config).experiment()
    if "from" in own:
        experiment = _with_file(experiment, own, batch=experiment.scenario.batch if _says(words, "batch") else None)
    planned, result, search_s = _worked_out(experiment, simulate=own.get("simulate", "true") == "true")
    found = _shown(experiment, planned, f", found in {search_s:.3g} s" if _searches(words) else "")
    priced = _priced(experiment, planned)
    if result is not None:
        compare(experiment, result, found.parts, priced)
    elif priced is not None:
        print_priced(priced)
    from runners.plan_written import write_plan

    again = _without_plan(words, single.points[0].labels)
    write_plan(single.settings.out / "plan", experiment.scenario, planned, found, result, again)
    if result is None and not planned.memory.fits and experiment.memory == "enforce":
        tell("error: it does not fit; memory=report simulates it all the same")
        return CONFIG_ERROR
    return 0


def _split(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The keys of this command, and the words of an experiment."""
    own: dict[str, str] = {}
    words = []
    for word in argv:
        key, _, value = word.partition("=")
        if key not in KEYS:
            words.append(word)
        elif not value:
            raise SpecError("command line", word, "it cannot be read", f"write {key}=..., {KEYS[key]}")
        elif key in own:
            raise SpecError(key, value, "it is set twice", "set it once")
        else:
            own[key] = value
    if own.get("simulate", "true") not in ("true", "false"):
        raise SpecError("simulate", own["simulate"], "it is neither", "write true or false")
    if "from" in own and not Path(own["from"]).expanduser().is_file():
        raise SpecError("from", own["from"], "there is no such file", "write the path of one")
    for key in ("format", "which", "devices", "micro_batch"):
        if key in own and "from" not in own:
            raise SpecError(key, own[key], "it says something of a file, and there is none", "write from=FILE")
    return own, words


def _implied(own: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """What goes without saying: a plan that is read or searched takes the place of the usual deployment."""
    if "from" not in own:
        return ["~deployment"] if _searches(words) and not _says(words, "deployment") else []
    for key in ("deployment", "planner"):
        if _says(words, key):
            raise SpecError(key, "", "the plan comes from a file", f"leave out {key}, or from=")
    return ["~deployment", *([] if _says(words, "batch") else ["batch=1"])]


def _without_plan(words: Sequence[str], labels: Mapping[str, str | None]) -> list[str]:
    """The words of an experiment that say nothing of its plan, with its cluster and model in any case."""
    said = [word for word in words if not re.match(r"[~+]*(deployment|planner|batch)([.=]|$)", word)]
    usual = [f"{key}={labels[key]}" for key in ("cluster", "model") if not _says(words, key)]
    given = ["planner=given"] if any(_says(words, key) for key in PRESETS) else []
    return [*usual, *said, *given]


def _searches(words: Sequence[str]) -> bool:
    return _says(words, "planner") and "planner=given" not in words


def _says(words: Sequence[str], key: str) -> bool:
    return any(re.match(rf"[~+]*{key}(=|$)", word) for word in words)


def _with_file(experiment: Experiment, own: Mapping[str, str], batch: int | None) -> Experiment:
    """The experiment with the plan of a file, which says how many samples it trains."""
    from runners.plan_files import read_file
    from xsim.interop.plans.target import Target
    from xsim.plan.sketch import place

    micro_batch = own.get("micro_batch", "1")
    if not micro_batch.isdecimal() or len(micro_batch) > MOST_DIGITS or not 0 < int(micro_batch) < LARGEST:
        raise SpecError("micro_batch", micro_batch, "it is no number of samples", "write 1 or more")
    which = own.get("which", "1")
    target = Target(experiment.scenario, batch, int(micro_batch), _devices(own.get("devices", "")), which)
    read = read_file(Path(own["from"]).expanduser(), own.get("format"), target)
    for note in read.notes:
        tell(f"note: {note}")
    scenario = replace(experiment.scenario, batch=read.sketch.samples)
    return replace(experiment, scenario=replace(scenario, deployment=place(read.sketch, scenario)))


def _devices(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in filter(None, text.split(",")):
        name, colon, kind = each.partition(":")
        if not colon or not kind:
            raise SpecError("devices", each, "it cannot be read", "write such as T4:t4,A100:a100_80")
        found[name.strip()] = kind.strip()
    return found


def _worked_out(experiment: Experiment, *, simulate: bool) -> tuple[Planned, Result | None, float]:
    """The plan, what it takes if it is simulated, and the seconds of the search."""
    from runners.warm import Warming
    from runners.watch import watching
    from xsim.experiment import planned, run
    from xsim.families import build
    from xsim.plan.sketch import sketch_of

    times: list[float] = []

    def noted(begins: bool) -> None:
        times.append(time.perf_counter() - warmed.took_s)
        network.plans(begins)

    warmed = Warming(experiment.network)
    with watching(warmed, experiment.iterations) as network:
        found = planned(replace(experiment, network=warmed), noted, network.progress)
        sketch_of(found.deployment, experiment.scenario)  # refuses what cannot be shown before it is simulated
        network.begins(0)
        result = None
        if simulate and (found.memory.fits or experiment.memory == "report"):
            scenario = replace(experiment.scenario, deployment=found.deployment)
            given = build("planner", {"name": "given"})
            result = run(replace(experiment, scenario=scenario, planner=given, network=network), network.begins)
    return found, result, times[1] - times[0]


def _shown(experiment: Experiment, planned: Planned, took: str) -> Outlined:
    """The plan on the screen."""
    from runners.plan_report import print_parts
    from runners.plan_tables import Outlined, parts
    from xsim.plan.sketch import sketch_of

    scenario = experiment.scenario
    sketch = sketch_of(planned.deployment, scenario)
    name = planned.deployment.name or "plan"
    print(f"{name}: {scenario.model.name} on {scenario.cluster.name}, {scenario.batch} samples{took}")
    found = Outlined(name, sketch, tuple(parts(sketch, planned, scenario)))
    print_parts(found.parts)
    print(f"Memory: {planned.memory.text}")
    return found


def _priced(experiment: Experiment, planned: Planned) -> Priced | None:
    """The plan in closed form, with the same models; None, and why, if they do not offer it."""
    from xsim.closed_form import ClosedForm
    from xsim.experiment import site_of
    from xsim.plan.search.deployed import Deployed

    stages = [stage for replica in planned.deployment.replicas for stage in replica.stages]
    if not planned.deployment.zero and any(stage.ep > 1 or stage.groups[0].cp > 1 for stage in stages):
        time_ps = Deployed(experiment.scenario, site_of(experiment)).price_ps(planned.deployment)
        tell(
            f"note: cut over contexts or experts, in closed form it takes {time_ps / PS_PER_S:.4g} s, not told in parts"
        )
        return None
    try:
        return ClosedForm(experiment).price(planned.deployment)
    except XsimError as error:
        tell(f"note: it has no closed form here: {error}")
        return None


if __name__ == "__main__":
    raise SystemExit(main())
