"""What an iteration takes in closed form, without simulating it: milliseconds, for whoever compares many deployments.

The formula is that of ``xsim.plan.search.price``, with which planners search; compute model, wires, collectives and
resharding strategy are those of the experiment, each alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xsim.errors import SpecError
from xsim.experiment import Experiment, site_of
from xsim.plan.search.price import Priced, price
from xsim.plan.search.tables import ModelTables, tables
from xsim.plan.sketch import sketch_of
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import check_deployment

__all__ = ["ClosedForm"]

# Of a deployment, what the formula has no term for.
UNKNOWN = ("zero", "blocking_sends", "rendezvous", "tp_async", "tp_overlap")


@dataclass(frozen=True, slots=True, eq=False)
class ClosedForm:
    """Prices deployments of the scenario of ``experiment``, whose own deployment or planner is not asked.

    What the parts of deployments take is found when first asked for, and kept: the second price of a deployment, or of
    others with the same tensor-parallel degrees and micro-batches, is a sum of what is known.
    """

    experiment: Experiment
    _tables: dict[bool, ModelTables] = field(default_factory=dict, init=False)

    def price(self, deployment: DeploymentPlan) -> Priced:
        """An iteration: pipelines that nobody disturbs, then their sums of gradients, then the update.

        No noise, no faults, no background traffic, no late samples, and no sum of gradients beside computations.

        Raises:
            SpecError: It is no deployment of the scenario, or the formula does not know what it does: virtual stages,
                cuts over contexts or experts, groups of unlike devices or unequal cuts, and ``UNKNOWN``.
        """
        for name in UNKNOWN:
            if value := getattr(deployment, name):
                problem = "the closed form does not know it"
                raise SpecError(f"deployment.{name}", value, problem, "leave it out, or simulate the deployment")
        scenario = self.experiment.scenario
        sketch = sketch_of(check_deployment(deployment, scenario), scenario)
        cut = any(stage.sequence_parallel for each in sketch.pipelines for stage in each.stages)
        return price(sketch, self._known(cut))

    def _known(self, cut: bool) -> ModelTables:
        """The tables of stages whose activations are cut over the sequence, or of those whose are not."""
        if cut not in self._tables:
            site = site_of(self.experiment)
            self._tables[cut] = tables(self.experiment.scenario, site, sequence_parallel=cut)
        return self._tables[cut]
