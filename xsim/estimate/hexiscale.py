"""The closed-form cost of HexiScale's scheduler (https://arxiv.org/abs/2409.01143), with its constants.

They are those of experimental/cost_modeling.py in https://github.com/Relaxed-System-Lab/FlashFlex (commit a4f366f).
Devices run at their peak rate, links have no latency and are shared with nobody; a transfer between two ranks has the
rate of the narrowest link between them. Per layer and micro-batch of M samples of S tokens, with hidden size H,
vocabulary V, L layers and elements of b bytes, a tensor-parallel group of t ranks takes

    72 M S H^2 (1 + S / 6H + V / 16 L H) / (peak of its first device * t)    (96 for 72 with recomputation)
    8 max_i sum_j M S H b / (t bandwidth_ij)                                 (12 for 8 with recomputation)

and hands over to the next stage, by the best pair of a sender and a leader that scatters, in 2 (M S H b / bandwidth +
the sum of the leader's M S H b / (t' bandwidth)). A pipeline is GPipe's: the sum over its columns of the slowest stage
at work. A layer's gradients take 2 max_i sum_j 12 H^2 b / (least t * members * bandwidth_ij) for each of its first
(greatest t // least t) positions, one layer after another. The iteration is 1.8 times the slowest pipeline and 1.1
times the gradients of all layers (1.65 times with sharded weights).

Nothing is estimated of a mixture of experts, which HexiScale does not have. Where a stage has several groups, which it
does not have either, the slowest counts, and each is a member of its own in the sync of its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xsim.plan.contracts import EstimateSite
from xsim.spec.deployment import DeploymentPlan, DeviceGroup, Replica, Stage
from xsim.spec.model import ModelSpec
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S

__all__ = ["HexiScale"]

COMPUTED, COMPUTED_AGAIN = 72, 96  # FLOPs per token and H^2 of a layer; cost_modeling.py, mb_tp_layer_comp_cost
SENT, SENT_AGAIN = 8, 12  # tensors of a layer; mb_tp_layer_comm_cost
WEIGHTS = 12  # of a layer, per H^2; dp_layer_comm_cost
PIPELINE, GRADIENTS, SHARDED = 1.8, 1.1, 1.5  # overall_cost
SHARDED_WEIGHTS = 3  # of ``zero``

Seconds = Callable[[int, int, float], float]  # from rank to rank, so many bytes


@dataclass(frozen=True, slots=True)
class HexiScale:
    """The closed-form cost of HexiScale's scheduler: peak rates, no latency, no contention.

    Attributes:
        syncs: Count what it has for gradients; false: what is left of it without, which the Xsim paper seems to judge.
    """

    syncs: bool = True

    def time_ps(self, scenario: Scenario, deployment: DeploymentPlan, site: EstimateSite) -> int | None:
        def seconds(src: int, dst: int, size_bytes: float) -> float:
            route = site.fabric.route(src, dst)
            return size_bytes / min(float(site.fabric.bandwidth_bytes_per_s[link]) for link in route)

        if scenario.model.experts:  # its layers have 12 H^2 weights
            return None
        slowest_s = max(_pipeline_s(replica, scenario, site, seconds) for replica in deployment.replicas)
        sharded = SHARDED if deployment.zero == SHARDED_WEIGHTS else 1.0
        layers = range(1, scenario.model.layers + 1) if self.syncs else ()
        gradients_s = sum(_sync_s(_holders(deployment, layer), scenario, seconds) for layer in layers)
        return round((PIPELINE * slowest_s + GRADIENTS * sharded * gradients_s) * PS_PER_S)


def _pipeline_s(replica: Replica, scenario: Scenario, site: EstimateSite, seconds: Seconds) -> float:
    """Columns of GPipe's forward picture: stage s is at work in columns s .. s + micro-batches."""
    stages = replica.stages
    costs = [_stage_s(stage, scenario, site, seconds) for stage in stages]
    costs = [
        cost + (_hop_s(stages[number], stages[number + 1], scenario, seconds) if number + 1 < len(stages) else 0.0)
        for number, cost in enumerate(costs)
    ]
    columns = replica.micro_batches + len(stages) - 1
    at_work = (costs[max(0, column - replica.micro_batches + 1) : column + 1] for column in range(columns))
    return sum(max(own) for own in at_work)


def _stage_s(stage: Stage, scenario: Scenario, site: EstimateSite, seconds: Seconds) -> float:
    """One micro-batch, forward and backward."""
    layers = sum(len(range(max(part.start, 1), min(part.stop, scenario.model.layers + 1))) for part in stage.layers)
    again = any(entry.operator == "full" for entry in stage.recompute)
    work = (COMPUTED_AGAIN if again else COMPUTED) * _work(scenario.model)
    sent = SENT_AGAIN if again else SENT
    costs = []
    for group in stage.groups:
        peak = site.device(group.ranks[0]).peak(scenario.precision)
        compute_s = group.samples * work / (peak * len(group.ranks))
        costs.append(layers * (compute_s + sent * _exchanged_s(group, _activation_bytes(scenario), seconds)))
    return max(costs)


def _work(model: ModelSpec) -> float:
    """Of a layer and a sample, without its factor."""
    s, h, v = model.seq_len, model.hidden, model.vocab
    return s * h**2 * (1 + s / (6 * h) + v / (16 * model.layers * h))


def _activation_bytes(scenario: Scenario) -> int:
    """Of a sample."""
    return scenario.model.seq_len * scenario.model.hidden * scenario.dtype_bytes


def _exchanged_s(group: DeviceGroup, sample_bytes: int, seconds: Seconds) -> float:
    """The rank of a group that takes longest to send its part to all others, one after another."""
    part_bytes = group.samples * sample_bytes / len(group.ranks)
    return max(sum(seconds(i, j, part_bytes) for j in group.ranks if j != i) for i in group.ranks)


def _hop_s(before: Stage, after: Stage, scenario: Scenario, seconds: Seconds) -> float:
    """From stage to stage: to a leader, who gives every other rank its part."""
    senders = [rank for group in before.groups for rank in group.ranks]
    costs = []
    for group in after.groups:
        size_bytes = group.samples * _activation_bytes(scenario)
        parts_s = {
            leader: sum(seconds(leader, rank, size_bytes / len(group.ranks)) for rank in group.ranks if rank != leader)
            for leader in group.ranks
        }
        costs.append(
            2 * min(seconds(sender, leader, size_bytes) + parts_s[leader] for sender in senders for leader in parts_s)
        )
    return max(costs)


def _holders(deployment: DeploymentPlan, layer: int) -> list[tuple[int, ...]]:
    """The ranks of each group that holds ``layer``."""
    stages = (stage for replica in deployment.replicas for stage in replica.stages)
    own = (stage for stage in stages if any(layer in part for part in stage.layers))
    return [group.ranks for stage in own for group in stage.groups]


def _sync_s(groups: Sequence[tuple[int, ...]], scenario: Scenario, seconds: Seconds) -> float:
    """Gradients of a layer: ranks of smaller groups stand for several positions of the largest."""
    most, least = max(map(len, groups)), min(map(len, groups))
    size_bytes = WEIGHTS * scenario.model.hidden**2 * scenario.dtype_bytes / (least * len(groups))
    total_s = 0.0
    for position in range(most // least):
        members = [group[position * len(group) // most] for group in groups]
        total_s += 2 * max(sum(seconds(i, j, size_bytes) for j in members if j != i) for i in members)
    return total_s
