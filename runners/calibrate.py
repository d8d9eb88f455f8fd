"""Calibrate collectives, or kernels, on published measurements, and report how far off the simulation is.

python -m runners.calibrate docs/collectives.md          # reads measured/collectives.csv under $XSIM_REFERENCE_DATA
python -m runners.calibrate --kernels docs/kernels.md    # reads measured/kernels.csv there

The figures that it fits are those of xsim/spec/protocols.yaml and of the efficiency curves of xsim/spec/devices.yaml:
where they differ, the report says so.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from analysis.command import Parser, exits
from runners.bench import forecast_us, simulated_us
from runners.calibration import Wires, errors, fit_costs, fit_latency_ps
from runners.calibration_report import Fit, Found, text
from runners.kernel_report import calibrate_kernels, kernels_text
from runners.kernels import read_kernels
from runners.measured import Row, read
from runners.measurements import COLLECTIVES, KERNELS, read_measured
from runners.report_text import grouped
from xsim.errors import SpecError
from xsim.plan.protocol import FILL_STEPS
from xsim.spec.cluster import DeviceSpec
from xsim.spec.codec import from_plain
from xsim.spec.protocols import GenerationCosts, generations

__all__ = ["calibrate", "main"]

LEAST_OWN_ROWS = (
    18  # of a source, to be fitted for itself: two for each cost of a ring and four of pairs, held out ones too
)


@exits
def main(argv: Sequence[str]) -> int:
    """Write the report."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="the file to write")
    parser.add_argument("--kernels", action="store_true", help="calibrate the roofline instead of collectives")
    asked = parser.parse_args(argv)
    report: Path = asked.report
    folder = os.environ.get("XSIM_REFERENCE_DATA")
    if not folder:
        raise SpecError("XSIM_REFERENCE_DATA", None, "it names no folder", "set it to one that holds measured/")
    if not report.parent.is_dir():
        raise SpecError("report", str(report), "its folder does not exist", "create it, or choose another")
    if asked.kernels:
        written = kernels_text(calibrate_kernels(*read_measured(Path(folder), KERNELS, read_kernels)))
    else:
        written = text(calibrate(*read_measured(Path(folder), COLLECTIVES, read)))
    report.write_text(written, encoding="utf-8")
    print(f"wrote {report}")
    return 0


def calibrate(rows: Sequence[Row], left_out: Mapping[str, tuple[int, str]]) -> Found:
    """Fit on a part of the rows, simulate all."""
    fits = {name: _of_generation(own, rows) for name, own in generations().items() if own.devices}
    unversioned = grouped((row for row in rows if row.hosts == 1 and not row.versioned), lambda row: row.group)
    own_fits = {group: _fit(own) for group, own in unversioned.items() if len(own) >= LEAST_OWN_ROWS}
    networks = grouped((row for row in rows if row.hosts > 1), lambda row: row.machine.network)
    latencies_ps = {
        network: fit_latency_ps([row for row in own if not row.held_out_by_size], forecast_us)
        for network, own in networks.items()
    }
    simulated = {row: simulated_us(row, latencies_ps.get(row.machine.network)) / row.time_us - 1 for row in rows}
    return Found(fits=fits, own_fits=own_fits, latencies_ps=latencies_ps, errors=simulated, left_out=left_out)


def _of_generation(generation: GenerationCosts, rows: Iterable[Row]) -> Fit:
    devices = generation.devices
    own = [row for row in rows if row.hosts == 1 and row.machine.device in devices and row.versioned]
    if not own:
        shown = ", ".join(devices)
        raise SpecError("XSIM_REFERENCE_DATA", shown, "no row of these devices is there to fit", "use the whole table")
    return _fit(own)


def _fit(rows: Sequence[Row]) -> Fit:
    """On every second size, of devices of one generation and hosts of one build."""
    first = rows[0].machine
    (generation,) = (own for own in generations().values() if first.device in own.devices)
    device = from_plain(DeviceSpec, generation.devices[0])
    wires = Wires(
        port=device.scale_up or device.pcie,
        fill_steps=FILL_STEPS if device.scale_up else 0,
        blocks=tuple(devices for devices, _ in first.pcie_tree),
    )
    switch = generation.in_switch.ranks if generation.in_switch else None
    fitted = [row for row in rows if not row.held_out_by_size]
    costs = fit_costs(fitted, wires, switch)
    return Fit(
        costs=costs, wires=wires, in_switch_ranks=switch, fitted=fitted, errors=errors(rows, costs, wires, switch)
    )


if __name__ == "__main__":
    raise SystemExit(main())
