"""Measured collectives as experiments: iterations of a model that does nothing but the one of a row.

Computing is free. Gradients of the size of a row, of a layer that has no more, are summed by an all-reduce; with ZeRO 1
a reduce-scatter and an all-gather, which mirror each other, stand for that. Where every rank has an expert, samples of
that size are dealt out by four all-to-alls: to the experts and back, forward and backward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.command import tell
from runners.bench import forecast_us
from runners.calibration import fit_latency_ps
from runners.calibration_report import held_out_parts
from runners.cli import Command
from runners.measured import Row, cluster, read
from runners.measurements import COLLECTIVES, read_measured, table_of
from runners.published.plan import Maker, making
from runners.published.sections import Section
from runners.report_text import as_table, grouped
from runners.resolve import Point
from xsim.errors import SpecError
from xsim.spec.codec import to_plain
from xsim.spec.protocols import generations

__all__ = ["Measured", "judged", "plan_collectives", "settings_of", "took_s"]

ELEMENT_BYTES = 2  # of bf16
BESIDE = 6  # parameters of a layer of width 1, beside two for each unit of its feed-forward: attention 4, norms 2
WIDTH = 64  # of what is dealt out, at the most; nothing is dealt out in parts
ALL_TO_ALLS = 4  # of an iteration, see above
NO = dict.fromkeys(("gated", "bias", "learned_positions", "tied"), False)
LAYER = {"name": "collective", "layers": 1, "heads": 1, "kv_heads": 1, "vocab": 0, "norm": "rmsnorm", **NO}
ALONE = {"compute": "free", "noise": "none", "collective": "auto", "precision": "bf16", "planner": "uniform"}
DEGREES = {"planner.tp": 1, "planner.pp": 1, "planner.chunks": 1, "planner.micro_batch": 1}


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured collective, and the experiment that has it, if one can."""

    row: Row
    point: Point | None


def plan_collectives(folder: Path | None, command: Command) -> tuple[Measured, ...]:
    """The measured collectives that no fit has seen, on one host and over several.

    Args:
        folder: Of the reference data; without it, or without a table of collectives in it, there are none.

    Raises:
        SpecError: That is no table of collectives, or the command line is wrong.
    """
    if folder is None or not table_of(folder, COLLECTIVES).is_file():
        return ()
    rows, _ = read_measured(folder, COLLECTIVES, read)
    kept = held_out_parts([row for row in rows if row.hosts == 1]).get("sizes between", [])
    beyond = [row for row in rows if row.hosts > 1]
    latencies_ps = _latencies_ps(beyond)
    kept += [row for row in beyond if row.held_out_by_size]
    with making(command) as (maker, _):
        return tuple(Measured(row, _point(row, latencies_ps, maker)) for row in kept)


def _point(row: Row, latencies_ps: Mapping[str, int], maker: Maker) -> Point | None:
    try:
        return maker.point(settings_of(row, latencies_ps))
    except SpecError:  # no machine has so many devices of that kind on a host
        return None


def _latencies_ps(rows: Sequence[Row]) -> Mapping[str, int]:
    """Of a NIC's port, by network: fitted on the sizes that are not held out, of which nothing else is."""
    networks = grouped(rows, lambda row: row.machine.network)
    if networks:
        tell(f"fitting the latency of a port of {len(networks)} networks, some 10 s")
    return {
        name: fit_latency_ps([row for row in own if not row.held_out_by_size], forecast_us)
        for name, own in networks.items()
    }


def settings_of(row: Row, latencies_ps: Mapping[str, int]) -> Mapping[str, Any]:
    """The keys and values of its experiment.

    Args:
        latencies_ps: Of a NIC's port, by network, of rows of several hosts.
    """
    latency_ps = latencies_ps[row.machine.network] if row.hosts > 1 else None
    spec = cluster(row.machine, row.ranks, row.hosts, latency_ps)
    own = _dealt(row) if row.kind == "all_to_all" else _summed(row)
    return {"cluster": to_plain(spec), "batch": row.ranks, **ALONE, **DEGREES, **own}


def _summed(row: Row) -> dict[str, Any]:
    """A copy of a layer on each rank; its gradients have the size of the row, to 4 bytes."""
    units = (row.size_bytes // ELEMENT_BYTES - BESIDE) // 2
    model = {**LAYER, "hidden": 1, "ffn": units, "seq_len": 1}
    return {"model": model} | ({} if row.kind == "all_reduce" else {"planner.zero": 1})


def _dealt(row: Row) -> dict[str, Any]:
    """An expert on each rank; what a rank sends has the size of the row."""
    elements = row.size_bytes // ELEMENT_BYTES
    width = gcd(elements, WIDTH)
    experts = {"experts": row.ranks, "experts_per_token": 1, "expert_ffn": 1}
    model = {**LAYER, "hidden": width, "ffn": 1, "seq_len": elements // width, **experts}
    return {"model": model, "planner.ep": row.ranks}


def took_s(row: Row, result: Mapping[str, Any]) -> float:
    """Seconds of its collective in the ``result`` of its experiment."""
    if row.kind == "all_to_all":
        return float(result["experts_comm_time_s"]) / ALL_TO_ALLS
    return float(result["training_time_s"]) / (1 if row.kind == "all_reduce" else 2)


def judged(
    measured: Sequence[Measured], results: Mapping[str, Mapping[str, Any]], bounds: Mapping[str, float]
) -> Iterator[Section]:
    """How far ``collective=auto`` is off on one host, and over several.

    Args:
        results: Of the experiments, by key.
        bounds: Mean absolute errors that are asked for, by section.
    """
    if hosted := [each for each in measured if each.row.hosts == 1]:
        yield _on_one_host(hosted, results, bounds["collectives"])
    if beyond := [each for each in measured if each.row.hosts > 1]:
        yield _over_hosts(beyond, results, bounds["over_hosts"])


def _on_one_host(measured: Sequence[Measured], results: Mapping[str, Mapping[str, Any]], bound: float) -> Section:
    points, table = _compared(
        "generation",
        {
            name: [each for each in measured if each.row.machine.device in generation.devices]
            for name, generation in generations().items()
        },
        results,
    )
    lines = [
        f"Asked for: a mean under {bound:.0%} on sizes that no fit has seen, on one host. docs/collectives.md has the",
        "rest, and what is fitted on what.",
        "",
        *table,
    ]
    passed = [f"collectives of {name}" for name, found in points.items() if _error(found) > bound]
    return Section("Collectives on one host", lines, passed, points)


def _over_hosts(measured: Sequence[Measured], results: Mapping[str, Mapping[str, Any]], bound: float) -> Section:
    points, table = _compared("network", grouped(measured, lambda each: each.row.machine.network), results)
    everything = [pair for found in points.values() for pair in found]
    error = _error(everything) if everything else 0.0
    lines = [
        f"Asked for: a mean under {bound:.0%} on sizes that no fit has seen, over several hosts. Of each network the",
        "latency of a port is fitted, on the other sizes.",
        "",
        *table,
        "",
        f"All of them: {error:.1%} on {len(everything)} rows.",
    ]
    passed = ["collectives over several hosts"] if error > bound else []
    return Section("Collectives over several hosts", lines, passed, points)


def _compared(
    by: str, measured: Mapping[str, Sequence[Measured]], results: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, list[tuple[float, float]]], list[str]]:
    """(measured, predicted) seconds of each series whose simulations have ended well, and a table of them."""
    points: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for name, own in measured.items():
        ended = [(each.row, results.get(each.point.key)) for each in own if each.point]
        found = [(row.time_us / 1e6, took_s(row, end)) for row, end in ended if end and end["status"] == "ok"]
        error = bias = ""
        if found:
            points[name] = found
            error = f"{_error(found):.1%}"
            bias = f"{fmean(predicted / seen - 1 for seen, predicted in found):+.1%}"
        if own:
            rows.append((name, len(found), error, bias, len(own) - len(found)))
    return points, list(as_table((by, "rows", "error", "bias", "left out"), rows))


def _error(found: Iterable[tuple[float, float]]) -> float:
    return fmean(abs(predicted / seen - 1) for seen, predicted in found)
