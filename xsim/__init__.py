"""Xsim predicts one training iteration of a large language model on clusters of unlike devices, links and partitions.

The way of a number::

    scenario --planner--> deployment --lower--> workload --simulate--> timeline --measure--> metrics

Left of *simulate* everything is a pure function of values; *simulate* is deterministic to the picosecond.

    >>> import xsim
    >>> experiment = xsim.Experiment(scenario=scenario)            # doctest: +SKIP
    >>> xsim.run(experiment).metrics.training_time_s               # doctest: +SKIP
    >>> xsim.ClosedForm(experiment).price(deployment).iteration_ps # doctest: +SKIP

What lives where:

- ``xsim.spec``: clusters, models, deployments as frozen values, and their spellings (YAML, textproto, binary).
- ``xsim.fabric``: links and routes (``topology`` is a family), transfer graphs.
- ``xsim.plan``: who does what and who talks to whom; families ``planner``, ``reshard``, ``collective``,
  ``schedule``, ``compute`` and ``noise``; the judge that proves every communication plan.
- ``xsim.sim``: when; families ``network`` and ``background``.
- ``xsim.families``: the folder is the registry: a new member of a family is one file.
- ``xsim.estimate``: what other tools' formulas say, beside a simulation; a family.
- ``xsim.interop``: topologies, flows, measured times and plans as other tools write them.
- ``xsim.experiment``: the whole program in one function; ``xsim.closed_form``: a formula in its place, in milliseconds.

Units: time is int picoseconds, size int bytes, rates float per second; the unit ends the name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from xsim.errors import PlanError, SpecError, XsimError

if TYPE_CHECKING:
    from xsim.closed_form import ClosedForm
    from xsim.experiment import DoesNotFitError, Experiment, Result, run
    from xsim.families import build, members
    from xsim.metrics import Metrics
    from xsim.spec.cluster import ClusterSpec
    from xsim.spec.deployment import DeploymentPlan
    from xsim.spec.model import ModelSpec
    from xsim.spec.scenario import Scenario

__version__ = "0.1.0"

__all__ = [
    "ClosedForm",
    "ClusterSpec",
    "DeploymentPlan",
    "DoesNotFitError",
    "Experiment",
    "Metrics",
    "ModelSpec",
    "PlanError",
    "Result",
    "Scenario",
    "SpecError",
    "XsimError",
    "build",
    "members",
    "run",
]

_HOMES = {
    "ClosedForm": "xsim.closed_form",
    "ClusterSpec": "xsim.spec.cluster",
    "DeploymentPlan": "xsim.spec.deployment",
    "DoesNotFitError": "xsim.experiment",
    "Experiment": "xsim.experiment",
    "Metrics": "xsim.metrics",
    "ModelSpec": "xsim.spec.model",
    "Result": "xsim.experiment",
    "Scenario": "xsim.spec.scenario",
    "build": "xsim.families",
    "members": "xsim.families",
    "run": "xsim.experiment",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used: ``import xsim`` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'xsim' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, also those not loaded yet."""
    return sorted([*globals(), *_HOMES])
