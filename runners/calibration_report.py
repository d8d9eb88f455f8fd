"""The report of a calibration: what was fitted, how far off the simulation is, and what does not count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from statistics import fmean

from runners.calibration import BOUNDS, Costs, Wires
from runners.measured import LEAST_BYTES, Row
from runners.report_text import as_table, grouped
from xsim.spec.protocols import generations

__all__ = ["HOST_TARGET", "NETWORK_TARGET", "Fit", "Found", "held_out_parts", "mean_error", "text"]

HOST_TARGET, NETWORK_TARGET = 0.10, 0.20  # mean absolute errors that are asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What was fitted on every second size of some rows.

    Attributes:
        in_switch_ranks: From how many ranks on a switch may sum, if it can.
        fitted: The rows that the fit has seen.
        errors: Of each row, its time in closed form over the measured one, less 1.
    """

    costs: Costs
    wires: Wires
    in_switch_ranks: int | None
    fitted: Sequence[Row]
    errors: Mapping[Row, float]

    @property
    def held_out(self) -> list[float]:
        """Errors of the rows that the fit has not seen."""
        seen = set(self.fitted)
        return [error for row, error in self.errors.items() if row not in seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a calibration found.

    Attributes:
        fits: By generation.
        own_fits: By source, of those that state no version of NCCL.
        latencies_ps: Of a NIC's port, fitted, by network.
        errors: Of each row, simulated time over measured time, less 1.
        left_out: By group of rows, how many do not count, and why.
    """

    fits: Mapping[str, Fit]
    own_fits: Mapping[str, Fit]
    latencies_ps: Mapping[str, int]
    errors: Mapping[Row, float]
    left_out: Mapping[str, tuple[int, str]]


def mean_error(found: Found, rows: Iterable[Row]) -> float:
    """Mean absolute error of simulated against measured times."""
    return fmean(abs(found.errors[row]) for row in rows)


def text(found: Found) -> str:
    """The report in Markdown."""
    sections = (_preface, _costs, _on_one_host, _own_fits, _series, _over_hosts, _left_out)
    return "\n\n".join(section(found) for section in sections) + "\n"


def _preface(found: Found) -> str:
    counted = len(found.errors)
    return f"""# Collectives: what `auto` is calibrated on, and how far off it is

Written by `python -m runners.calibrate docs/collectives.md`; the model is described in `runners/calibration.py`, its
figures are those of `xsim/spec/protocols.yaml`.

{counted} published measurements of {LEAST_BYTES // 1024} KiB and more count. The fit of a generation sees those on one
host whose source states the version of NCCL, and of these every second power of two (64 KiB, 256 KiB, 1 MiB, ...). The
rest is held out: the sizes between, and all sources without a version. Each row is then simulated: `collective=auto`
on the wires of its machine, by `network=flow`. An error is the simulated time over the measured time, less 1; means
are of absolute errors.

What was held out was not unseen by people: the form of the model was chosen with all rows in view, and so were
`FILL_STEPS` (0.75 of 0, 0.5, 0.75 and 1, on scale-up fabrics; none over PCIe), the levels of the PCIe tree, the bounds
of the search, the costs of pairs as their own, the limit that calls a series noise, and the network's share of Simple,
read off the largest TCPXO rows. Only the figures below were fitted without them."""


def _costs(found: Found) -> str:
    lines = [
        "## What was fitted",
        "",
        "A figure at the bound is as far as the search may go: the rows may want it beyond. What rows leave open moves",
        "by some percent with the rounding of a machine's arithmetic; the errors below do not.",
        "",
    ]
    bounds = [_modes(end) for end in BOUNDS]
    for name, fit in found.fits.items():
        costs = fit.costs
        rows = [
            (
                mode,
                _bounded(delay, ".2f", [ends[mode][0] for ends in bounds]),
                _bounded(share, ".3f", [ends[mode][1] for ends in bounds]),
            )
            for mode, (delay, share) in _modes(costs).items()
        ]
        base = _bounded(costs.base_us, ".2f", [end.base_us for end in BOUNDS], unit=" us")
        lines += [f"{name}, with a base of {base}:", "", *as_table(("", "delay, us", "share"), rows), ""]
        if costs.uplinks:
            rates = ", ".join(f"{rate / 1e9:.2f} GB/s for {devices} devices" for devices, rate in costs.uplinks)
            lines += [f"Uplinks of its PCIe tree: {rates}.", ""]
    return "\n".join(lines[:-1])


def _modes(costs: Costs) -> dict[str, tuple[float, float]]:
    """(delay in us, share) by what they are of."""
    plain = zip(costs.delays_us, costs.shares, strict=True)
    found = dict(zip(("LL", "LL128", "Simple"), plain, strict=True))
    if costs.in_switch:
        found["in the switch"] = costs.in_switch
    if costs.pairs:
        found["pairs, LL"], found["pairs, Simple"] = costs.pairs
    return found


def _bounded(value: float, digits: str, bounds: Iterable[float], unit: str = "") -> str:
    """A figure with its unit, and whether it lies, to a thousandth, at one of its bounds."""
    note = ", at the bound" if any(isclose(value, bound, rel_tol=1e-3) for bound in bounds) else ""
    return f"{value:{digits}}{unit}{note}"


def _on_one_host(found: Found) -> str:
    lines = [
        "## On one host",
        "",
        f"Asked for: a mean under {HOST_TARGET:.0%} for each generation on what is held out.",
        "",
    ]
    rows = []
    for name, own in generations().items():
        measured = [row for row in found.errors if row.hosts == 1 and row.machine.device in own.devices]
        for part, chosen in held_out_parts(measured).items():
            for kinds in (*sorted({row.kind for row in chosen}), "all"):
                kept = [row for row in chosen if kinds in {"all", row.kind}]
                error = mean_error(found, kept)
                verdict = "" if kinds != "all" or "version" in part else "yes" if error < HOST_TARGET else "no"
                rows.append((name, part, kinds, len(kept), f"{error:.1%}", verdict))
    lines += as_table(("generation", "held out", "kind", "rows", "mean error", "met"), rows)
    lines += [
        "",
        "Below 8 MiB, sources without a version differ from the others by a factor of two on equal machines, so no",
        "one table is near both: the next section takes them by themselves. No specification states how the devices of",
        "a host without a scale-up fabric (ada) hang together: its two levels are read off the measurements. Its",
        "largest errors are those of rings of 8 ranks, whose measured rate rises and falls with the size (1 MiB is",
        "faster than 2 MiB, and single larger sizes are), which no such tree explains.",
    ]
    return "\n".join(lines)


def _own_fits(found: Found) -> str:
    lines = [
        "## Sources without a version, each fitted for itself",
        "",
        "The packaged costs are those of NCCL 2.23 to 2.29. These sources took two to four times as long for small",
        "messages on equal machines. Each fitted on every second size of its own, in closed form, they are met too:",
        "what differs is what their library costs, not how the model composes it.",
        "",
    ]
    rows = [_own_fit(source, [fit]) for source, fit in found.own_fits.items()]
    if rows:
        rows.append(_own_fit("all", list(found.own_fits.values())))
    return "\n".join([*lines, *as_table(("source", "fitted", "held out", "mean error"), rows)])


def _own_fit(name: str, fits: Sequence[Fit]) -> tuple[str, int, int, str]:
    held = [abs(error) for fit in fits for error in fit.held_out]
    return name, sum(len(fit.fitted) for fit in fits), len(held), f"{fmean(held):.1%}"


def held_out_parts(measured: Sequence[Row]) -> dict[str, list[Row]]:
    """What no fit has seen, by why."""
    parts = {
        "sizes between": [row for row in measured if row.held_out_by_size and row.versioned],
        "no version": [row for row in measured if not row.versioned],
    }
    return {part: rows for part, rows in parts.items() if rows}


def _series(found: Found) -> str:
    groups = grouped((row for row in found.errors if row.hosts == 1), lambda row: (row.group, row.kind, row.ranks))
    rows = [
        (*key, len(own), f"{mean_error(found, own):.1%}", *_ends(found, own), own[0].source.split("#")[0])
        for key, own in groups.items()
    ]
    head = ("source", "kind", "ranks", "rows", "mean error", "lowest", "highest", "read from")
    return "\n".join(["## Series by series, fitted rows included", "", *as_table(head, rows)])


def _over_hosts(found: Found) -> str:
    rows = [row for row in found.errors if row.hosts > 1]
    lines = [
        "## Over several hosts",
        "",
        f"Asked for: a mean under {NETWORK_TARGET:.0%} on what is held out, here the sizes between. What a step costs",
        "over a network is not fitted; of each network one number is, the latency of a port, on the other sizes.",
        "",
    ]
    table = []
    for network, own in grouped(rows, lambda row: row.machine.network).items():
        held = [row for row in own if row.held_out_by_size]
        latency = f"{found.latencies_ps[network] / 1e6:.0f} us"
        kinds = ", ".join(sorted({row.kind for row in own}))
        read_from = own[0].source.split("#")[0]
        table.append(
            (network, kinds, latency, len(held), f"{mean_error(found, held):.1%}", *_ends(found, held), read_from)
        )
    held = [row for row in rows if row.held_out_by_size]
    table.append(("all", "", "", len(held), f"{mean_error(found, held):.1%}", *_ends(found, held), ""))
    head = ("network", "kind", "latency", "rows", "mean error", "lowest", "highest", "read from")
    return "\n".join([*lines, *as_table(head, table)])


def _left_out(found: Found) -> str:
    rows = [(group, count, why) for group, (count, why) in found.left_out.items()]
    return "\n".join(["## What does not count", "", *as_table(("source", "rows", "why"), rows)])


def _ends(found: Found, rows: Iterable[Row]) -> tuple[str, str]:
    errors = [found.errors[row] for row in rows]
    return f"{min(errors):+.0%}", f"{max(errors):+.0%}"
