"""What a calibration reports of its fit: each figure, and which of them are only as far as the search may go."""

from __future__ import annotations

from dataclasses import replace

from runners.calibration import BOUNDS, Costs, Wires
from runners.calibration_report import Fit, Found, text
from runners.measured import Row
from xsim.spec.cluster import LinkSpec

LEAST, MOST = BOUNDS
WIRES = Wires(port=LinkSpec(bandwidth_bytes_per_s=450e9, latency_ps=0), fill_steps=0)
INSIDE = Costs(
    base_us=8.0,
    delays_us=(0.1, 0.9, 5.0),
    shares=(0.4, 0.7, 0.9),
    in_switch=(1.5, 0.75),
    pairs=((3.0, 0.3), (10.0, 0.8)),
)


def row(hosts: int) -> Row:
    group = {1: "aic_nccl_h100_sxm", 2: "nccl_oci_h100_2n"}[hosts]
    return Row(
        group=group,
        source="",
        kind="all_reduce",
        ranks=8 * hosts,
        hosts=hosts,
        size_bytes=2**17,  # held out
        time_us=50.0,
        versioned=True,
    )


def fitted(costs: Costs) -> list[str]:
    """The lines of the report on what was fitted."""
    errors = {row(1): 0.1, row(2): 0.2}
    latencies_ps = {row(2).machine.network: 10**6}
    fit = Fit(costs=costs, wires=WIRES, in_switch_ranks=None, fitted=(), errors={})
    report = text(Found(fits={"hopper": fit}, own_fits={}, latencies_ps=latencies_ps, errors=errors, left_out={}))
    return report.partition("## What was fitted")[2].partition("\n## ")[0].splitlines()


def test_figures_inside_the_bounds_stand_alone() -> None:
    lines = fitted(INSIDE)

    assert "hopper, with a base of 8.00 us:" in lines
    assert "| LL | 0.10 | 0.400 |" in lines
    assert "| in the switch | 1.50 | 0.750 |" in lines
    assert "| pairs, Simple | 10.00 | 0.800 |" in lines
    assert not [line for line in lines if ", at the bound" in line]


def test_figures_at_a_bound_are_marked() -> None:
    at_least = fitted(replace(INSIDE, base_us=LEAST.base_us, delays_us=(LEAST.delays_us[0], 0.9, 5.0)))
    at_most = fitted(replace(INSIDE, shares=(MOST.shares[0], 0.7, 0.9), pairs=((3.0, 0.3), (10.0, 1.0))))

    assert "hopper, with a base of 1.00 us, at the bound:" in at_least
    assert "| LL | 0.01, at the bound | 0.400 |" in at_least
    assert "| LL | 0.10 | 0.500, at the bound |" in at_most
    assert "| pairs, Simple | 10.00 | 1.000, at the bound |" in at_most
    assert "| LL128 | 0.90 | 0.700 |" in at_most
