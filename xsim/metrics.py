"""What one iteration cost: time by cause and by operator, wires, memory, money, energy.

``COLUMNS`` is the one list of what is reported, ``Metrics.row`` its values in the same order. Times of a rank are means
over the ranks of the deployment, maxima where the name says so; ranks that the deployment leaves idle count nowhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from xsim.account import OPERATORS, Account
from xsim.fabric.fabric import Fabric
from xsim.iterations import Iterations
from xsim.optimality import Optimality
from xsim.plan.memory import Verdict
from xsim.sim.contracts import FlowTimes, NetworkStats
from xsim.spec.cluster import DeviceSpec, rank_devices
from xsim.spec.deployment import DeploymentPlan
from xsim.spec.scenario import Scenario
from xsim.units import PS_PER_S
from xsim.waits import CAUSES, Ints

__all__ = ["COLUMNS", "LINK_KINDS", "Column", "Metrics", "measure"]

Kind = Literal["float", "int", "bool", "text"]

LINK_KINDS = ("scale_up", "pcie", "nic", "spine")
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Column:
    """One reported figure."""

    name: str
    unit: str
    doc: str
    kind: Kind


def _of(unit: str, doc: str) -> Any:
    return dataclasses.field(metadata={"unit": unit, "doc": doc})


def _mean(doc: str) -> Any:
    return _of("s", f"{doc}; mean over ranks")


def _max(doc: str) -> Any:
    return _of("s", f"{doc}; largest of any rank")


_COMPUTE = "in forward and backward operators"
_OPTIMIZER = "in the optimizer"
_TP_COMM = "in tensor-, context- and expert-parallel collectives with every member there"
_DP_COMM = "in gradient syncs or gathers of parameters, nothing left to overlap them and every member there"
_BUBBLE = "waiting for the pipeline (exposed resharding included) until its last backward and update"
_OPTIMALITY = (
    "the least time that any plan could take, over the time that they take alone; 1 if there are none, "
    "above 1 where a network without contention lets flows overlap"
)
_IDLE = "waiting for stragglers: slower ranks of the group, replicas that come late to a gradient sync or end later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The figures of one iteration; unit and meaning of each stand beside it, and in ``COLUMNS``.

    Figures of links and flows include background traffic; where one of its flows is still under way when the iteration
    ends, only the time for which it kept its links busy. All others are of the training alone.

    Attributes:
        operator_time_s: Per operator kind: those of ``xsim.account.OPERATORS``, then any others.
        link_bytes: Per link kind that the fabric has; a byte that crosses two links of a kind counts twice.
    """

    training_time_s: float = _of("s", "the iteration, until the last rank has ended")
    compute_time_s: float = _mean(_COMPUTE)
    compute_time_max_s: float = _max(_COMPUTE)
    optimizer_time_s: float = _mean(_OPTIMIZER)
    optimizer_time_max_s: float = _max(_OPTIMIZER)
    tp_comm_time_s: float = _mean(_TP_COMM)
    tp_comm_time_max_s: float = _max(_TP_COMM)
    dp_comm_time_s: float = _mean(_DP_COMM)
    dp_comm_time_max_s: float = _max(_DP_COMM)
    bubble_time_s: float = _mean(_BUBBLE)
    bubble_time_max_s: float = _max(_BUBBLE)
    idle_time_s: float = _mean(_IDLE)
    idle_time_max_s: float = _max(_IDLE)
    operator_time_s: tuple[tuple[str, float], ...] = _mean("in {}")
    tokens_per_s: float = _of("1/s", "tokens of the batch over the training time")
    samples_per_s: float = _of("1/s", "samples of the batch over the training time")
    mfu: float = _of("1", "model FLOPs of the batch (PaLM, appendix B) over the peak FLOPs of all ranks in that time")
    link_bytes: tuple[tuple[str, int], ...] = _of("B", "carried by all {} links together, for background traffic too")
    link_utilisation_max: float = _of(
        "1",
        "busy time of the busiest link over the training time; above 1 where a network without contention "
        "lets flows overlap",
    )
    link_utilisation_mean: float = _of("1", "the same, as a mean over the links that carried anything at all")
    busiest_link: str = _of("", "name of the link that was busy longest; empty if nothing was sent")
    flows: int = _of("1", "how many flows: transfers, each round of a ring's row on its own; of background traffic too")
    flow_time_p50_s: float = _of("s", "flow completion time, median (nearest rank)")
    flow_time_p99_s: float = _of("s", "flow completion time that 99 % of the flows do not exceed (nearest rank)")
    flow_time_max_s: float = _of("s", "flow completion time of the slowest flow")
    move_optimality: float = _of("1", f"hand-overs between stages: {_OPTIMALITY}")
    sync_optimality: float = _of("1", f"gradient syncs: {_OPTIMALITY}")
    peak_memory_bytes: int = _of("B", "largest need of any rank")
    memory_utilisation_max: float = _of(
        "1", "need over capacity of the rank where that is largest; another may have fewer bytes to spare"
    )
    fits: bool = _of("", "whether the need of every rank fits its device")
    memory_verdict: str = _of("", "which rank does not fit, by how much and what would help; or that all fit")
    ranks: int = _of("1", "devices that the deployment uses")
    unused_devices: int = _of("1", "devices of the cluster that no stage uses; they count in no other figure")
    fallbacks: str = _of("", "where figures of other hardware stand in for missing ones, and why; empty if nowhere")
    capex_usd: float = _of("USD", "price of these devices")
    tco_usd_per_gpu_hour: float = _of(
        "USD/h",
        "price of the devices over ranks and hours of one iteration, as the Xsim paper has it; it falls as runs get "
        "slower: a figure to compare with that paper, not to choose by",
    )
    usd_per_iteration: float = _of("USD", "hourly prices of these devices for the training time")
    energy_j: float = _of("J", "full power while computing or updating, idle power while communicating or waiting")
    iterations: int = _of("1", "how many were simulated; all other figures are those of the one with the median time")
    training_time_mean_s: float = _of("s", "mean of the iterations")
    training_time_mean_low_s: float = _of(
        "s", "lower end of the 95 % confidence interval of that mean (Student's t); of one iteration, that one"
    )
    training_time_mean_high_s: float = _of("s", "its upper end")
    training_time_p50_s: float = _of("s", "median of the iterations (nearest rank)")
    training_time_p99_s: float = _of("s", "time that 99 % of the iterations do not exceed (nearest rank)")
    estimate_time_s: float | None = _of("s", "the iteration as the chosen estimate has it; absent without one")
    estimate_error: float | None = _of("1", "the same over the training time, less 1; below 0 where it is too short")
    plan: str = _of("", "name of the deployment, as its file or its planner has it")
    predicted_s: float | None = _of(
        "s", "the iteration as whoever made the deployment predicts it; absent if nobody did"
    )

    def row(self) -> dict[str, float | int | bool | str]:
        """One value per entry of ``COLUMNS``, in that order; without those that are absent."""
        row: dict[str, float | int | bool | str] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _FAMILIES:
                known = dict(value)
                row |= {name: known[kind] for kind, name in _family_names(field.name)}
            elif value is not None:
                row[field.name] = value
        return row


_FAMILIES: Mapping[str, Sequence[str]] = {
    "operator_time_s": [kind for kind in OPERATORS if kind != "optimizer"],  # which has a column of its own
    "link_bytes": LINK_KINDS,
}


_SYNCS = {
    "grad_sync": "gradient syncs",
    "grad_gather": "syncs of gradients to the shards of the optimizer",
    "grad_param_comm": "syncs of parameters from the shards of the optimizer",
}


def _family_names(field: str) -> list[tuple[str, str]]:
    """(kind, column name) of a field that holds a figure per kind: ``operator_time_s`` gives ``mlp_time_s``."""
    suffix = field.split("_", 1)[1]
    return [(kind, f"{kind}_{suffix}") for kind in _FAMILIES[field]]


_OTHERS: Mapping[str, str] = {
    "reshard_comm": "hand-overs at pipeline boundaries that nothing hides, all of what is waited for sent; "
    "part of the bubble",
    "stall": "stalls, standing still for reasons of the rank's own; part of compute",
    "data_loading": "loading the samples of the iteration, as far as nothing hides it; part of compute",
    "launch": "waits for the host that launches kernels; part of compute",
}


def _told(part: str) -> str:
    """A link kind as it is; an operator kind in words."""
    if part in LINK_KINDS:
        return part
    if part in _SYNCS:
        return f"{_SYNCS[part]} with every member there, hidden behind computation or not"
    if part in _OTHERS:
        return _OTHERS[part]
    kind, found, _ = part.partition("_comm")
    return f"tensor-, context- and expert-parallel collectives of {kind} operators" if found else f"{kind} operators"


def _columns() -> tuple[Column, ...]:
    kinds: Mapping[str, Kind] = {"str": "text", "float": "float", "float | None": "float", "int": "int", "bool": "bool"}
    columns: list[Column] = []
    for field in dataclasses.fields(Metrics):
        unit, doc = field.metadata["unit"], field.metadata["doc"]
        if field.name in _FAMILIES:
            kind = "int" if unit == "B" else "float"
            names = _family_names(field.name)
            columns += [Column(name, unit, doc.format(_told(part)), kinds[kind]) for part, name in names]
        else:
            columns.append(Column(field.name, unit, doc, kinds[str(field.type)]))
    return tuple(columns)


COLUMNS: tuple[Column, ...] = _columns()


def measure(
    scenario: Scenario,
    account: Account,
    fabric: Fabric,
    stats: NetworkStats,
    exchanges: Optimality,
    memory: Verdict,
    stand_ins: Sequence[str] = (),
    iterations: Iterations | None = None,
    estimate_ps: int | None = None,
    plan: DeploymentPlan | None = None,
) -> Metrics:
    """All figures of one iteration, and how long it and others took.

    Args:
        scenario: The question; its cluster gives prices, powers and peaks of the ranks in ``account``.
        account: Who spent which time on what.
        fabric: The wires that ``stats`` counts.
        stats: What the network carried in the iteration.
        exchanges: How near hand-overs and gradient syncs come to the best possible.
        memory: What the ranks of the deployment need.
        stand_ins: Sentences of ``xsim.fallbacks``.
        iterations: All of the run, this one included; None: it is the only one.
        estimate_ps: What another tool says that the iteration takes; absent if none was asked.
        plan: The deployment, for its name and what was predicted of it.
    """
    devices = [rank_devices(scenario.cluster)[rank] for rank in account.ranks.tolist()]
    time_s = account.makespan_ps / PS_PER_S
    hours = time_s / SECONDS_PER_HOUR
    capex_usd = sum(device.price_usd for device in devices)
    peak_flops_per_s = sum(device.peak(scenario.precision) for device in devices)
    return Metrics(
        training_time_s=time_s,
        **_cause_times(account),
        operator_time_s=tuple(zip(account.operators, _mean_s(account.operators_ps), strict=True)),
        tokens_per_s=scenario.batch * scenario.model.seq_len / time_s,
        samples_per_s=scenario.batch / time_s,
        mfu=scenario.batch * scenario.model.flops_per_sample / (time_s * peak_flops_per_s),
        **_wires(fabric, stats, account.makespan_ps),
        **_flow_times(stats.flows),
        move_optimality=exchanges.of_moves,
        sync_optimality=exchanges.of_syncs,
        peak_memory_bytes=max(need.total_bytes for _, need in memory.needs),
        memory_utilisation_max=memory.utilisation,
        fits=memory.fits,
        memory_verdict=memory.text,
        ranks=len(devices),
        unused_devices=scenario.cluster.ranks - len(devices),
        fallbacks="; ".join(stand_ins),
        capex_usd=capex_usd,
        tco_usd_per_gpu_hour=capex_usd / (len(devices) * hours),
        usd_per_iteration=sum(device.price_usd_per_hour for device in devices) * hours,
        energy_j=_energy_j(account, devices),
        **_times(iterations or Iterations((account.makespan_ps,))),
        estimate_time_s=None if estimate_ps is None else estimate_ps / PS_PER_S,
        estimate_error=None if estimate_ps is None else estimate_ps / account.makespan_ps - 1,
        plan="" if plan is None else plan.name,
        predicted_s=None if plan is None or plan.predicted_ps is None else plan.predicted_ps / PS_PER_S,
    )


def _times(iterations: Iterations) -> dict[str, Any]:
    mean_s, half_s = iterations.mean_s, iterations.half_width_s
    return {
        "iterations": len(iterations.times_ps),
        "training_time_mean_s": mean_s,
        "training_time_mean_low_s": mean_s - half_s,
        "training_time_mean_high_s": mean_s + half_s,
        "training_time_p50_s": iterations.percentile_s(50),
        "training_time_p99_s": iterations.percentile_s(99),
    }


def _mean_s(times_ps: Ints) -> list[float]:
    """Mean of each column; summed as Python's integers, which cannot overflow."""
    ranks = len(times_ps)
    return [sum(column) / (ranks * PS_PER_S) for column in times_ps.T.tolist()]


def _cause_times(account: Account) -> dict[str, Any]:
    names = ["idle" if cause == "straggler_wait" else cause for cause in CAUSES]
    largest = [most / PS_PER_S for most in account.causes_ps.max(axis=0).tolist()]
    means = {f"{name}_time_s": mean for name, mean in zip(names, _mean_s(account.causes_ps), strict=True)}
    return means | {f"{name}_time_max_s": most for name, most in zip(names, largest, strict=True)}


def _wires(fabric: Fabric, stats: NetworkStats, makespan_ps: int) -> dict[str, Any]:
    carried = dict.fromkeys(LINK_KINDS, 0)
    for link, size_bytes in zip(fabric.links, stats.link_bytes.tolist(), strict=True):
        carried[link.kind] = carried.get(link.kind, 0) + size_bytes
    used = np.flatnonzero(stats.link_bytes)
    busy_ps: list[int] = stats.link_busy_ps[used].tolist()
    most_ps = max(busy_ps, default=0)
    return {
        "link_bytes": tuple(carried.items()),
        "link_utilisation_max": most_ps / makespan_ps,
        "link_utilisation_mean": sum(busy_ps) / (max(len(used), 1) * makespan_ps),
        "busiest_link": fabric.links[used[busy_ps.index(most_ps)]].name if busy_ps else "",
    }


def _flow_times(flows: FlowTimes) -> dict[str, Any]:
    return {
        "flows": int(flows.counts.sum()),
        "flow_time_p50_s": flows.percentile_ps(50) / PS_PER_S,
        "flow_time_p99_s": flows.percentile_ps(99) / PS_PER_S,
        "flow_time_max_s": flows.percentile_ps(100) / PS_PER_S,
    }


def _energy_j(account: Account, devices: Sequence[DeviceSpec]) -> float:
    """Full power while a rank computes or updates, else idle power: a collective hardly loads the arithmetic units."""
    busy_ps: list[int] = (account.cause_ps("compute") + account.cause_ps("optimizer")).tolist()
    return sum(
        busy / PS_PER_S * device.power_w + (account.makespan_ps - busy) / PS_PER_S * device.idle_power_w
        for busy, device in zip(busy_ps, devices, strict=True)
    )
