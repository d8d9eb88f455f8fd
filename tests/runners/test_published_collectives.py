"""Measured collectives are replayed as experiments that do nothing but one of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners import pool
from runners.bench import simulated_us
from runners.cli import read_command
from runners.measured import KINDS, Row, read
from runners.published.collectives import judged, plan_collectives, settings_of, took_s
from runners.published.plan import making
from runners.validate import VARIABLE, main
from runners.worker import simulate
from tests.runners.in_process import in_process
from tests.runners.measured_rows import ROWS
from xsim.plan.comm import CollectiveKind

ONE_HOST = ("aic_nccl_a100_sxm", "aic_nccl_h100_sxm", "aic_nccl_b200_sxm", "aic_nccl_l40s")
HOSTS = ("nccl_aws_p4de_2n", "nccl_gcp_a3high_2n")
COLUMNS = ("id", "source", "collective", "gpus", "nodes", "link", "bytes", "time_us", "notes", "group")


def row(kind: CollectiveKind, group: str, ranks: int, size_bytes: int) -> Row:
    return Row(
        group=group,
        source="somewhere",
        kind=kind,
        ranks=ranks,
        hosts=2 if group in HOSTS else 1,
        size_bytes=size_bytes,
        time_us=1.0,
        versioned=True,
    )


@given(
    st.sampled_from(sorted(KINDS.values())),
    st.one_of(
        st.tuples(st.sampled_from(ONE_HOST), st.sampled_from([2, 4, 8])),
        st.tuples(st.just("aic_nccl_h100_sxm"), st.sampled_from([3, 7])),
        st.tuples(st.sampled_from(HOSTS), st.just(16)),
    ),
    st.integers(16, 26),
    st.integers(0, 1000),
    st.sampled_from([1_000_000, 57_665_039]),
)
@settings(max_examples=15)
def test_an_iteration_is_the_collective_of_the_row(
    kind: CollectiveKind, place: tuple[str, int], power: int, quads: int, latency_ps: int
) -> None:
    """Its time is that of the collective's transfers alone, but for the picosecond that each operator takes at least.

    Samples are dealt out whole, so that an all-to-all is that of the row where ranks divide them.
    """
    dealt = kind == "all_to_all"
    measured = row(kind, *place, 2**power if dealt else 2**power + 4 * quads)
    latencies = {measured.machine.network: latency_ps} if measured.hosts > 1 else {}

    with making(read_command([], "")) as (maker, _):
        point = maker.point(settings_of(measured, latencies))
    outcome = simulate(point.config)

    assert outcome["status"] == "ok", outcome["reason"]
    alone_us = simulated_us(measured, latency_ps if measured.hosts > 1 else None)
    close = 1 / 50 if dealt and place[1] in (3, 7) else 1e-6
    assert took_s(measured, outcome["metrics"]) * 1e6 == pytest.approx(alone_us, abs=2e-3, rel=close)


def folder_of(tmp_path: Path, rows: Sequence[tuple[str, str, int, int, float]]) -> Path:
    """A folder of reference data with a training run, and these collectives (kind, group, ranks, bytes, time)."""
    folder = tmp_path / "measured"
    folder.mkdir()
    (name,) = (name for name in ROWS if name == "korthikanti_t5_megatron-22B_full")
    with (folder / "training_runs.csv").open("w", newline="") as file:
        runs = csv.DictWriter(file, list(ROWS[name].texts))
        runs.writeheader()
        runs.writerow(ROWS[name].texts)
    with (folder / "collectives.csv").open("w", newline="") as file:
        found = csv.writer(file)
        found.writerow(COLUMNS)
        for number, (kind, group, ranks, size_bytes, time_us) in enumerate(rows):
            nodes = 2 if group in HOSTS else 1
            found.writerow((number, "s", kind, ranks, nodes, "NVLink", size_bytes, time_us, "nccl 2.23", group))
    return tmp_path


SIZES = (2**19, 2**20, 2**21, 2**22)  # every second is held out


@pytest.mark.parametrize(("off", "code"), [(1.0, 0), (2.0, 1)])
def test_the_command_runs_them_beside_training_runs(
    off: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "finished", in_process)
    groups = (("all_gather", "aic_nccl_h100_sxm", 8), ("alltoall", "aic_nccl_a100_sxm", 4))
    rows = [("all_reduce", "aic_nccl_l40s", 3, SIZES[0], 1.0)]  # no host has pairs of 3 devices
    for (kind, group, ranks), size_bytes in product(groups, SIZES):
        took_us = simulated_us(row(KINDS[kind], group, ranks, size_bytes), None)
        rows.append((kind, group, ranks, size_bytes, off * took_us))
    monkeypatch.setenv(VARIABLE, str(folder_of(tmp_path, rows)))

    assert main([f"out={tmp_path}"]) == code

    page = (tmp_path / "validate" / "report.md").read_text()
    found = "0.0% | +0.0%" if code == 0 else "50.0% | -50.0%"
    assert f"| ampere | 2 | {found} | 0 |" in page
    assert f"| hopper | 2 | {found} | 0 |" in page
    assert "| ada | 0 |  |  | 1 |" in page
    assert "(figures/Collectives_on_one_host.png)" in page
    assert "Collectives over several hosts" not in page
    asked = json.loads((tmp_path / "validate" / "sweep.json").read_text())["command"]
    assert asked == ["python", "-m", "runners.validate", f"out={tmp_path}"]
    assert ("collectives of ampere, collectives of hopper" in capsys.readouterr().err) == bool(code)

    assert main([f"out={tmp_path}", "dry_run=true"]) == 0
    assert "5 measured collectives besides, 1 of them left out" in capsys.readouterr().out


def test_no_table_of_collectives_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(tmp_path, [])
    (folder / "measured" / "collectives.csv").write_text("a,b\n1,2\n")
    monkeypatch.setenv(VARIABLE, str(folder))

    assert main([f"out={tmp_path}"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "its collectives.csv is no table of measurements" in line


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"time_us": "0"}, "ValueError: s: time_us = 0 is no time"),
        ({"time_us": "nan"}, "ValueError: s: time_us = nan is no time"),
        ({"bytes": "inf"}, "OverflowError: cannot convert float infinity to integer"),
        ({"gpus": "1"}, "ValueError: s: 1 gpus cannot be dealt out to 1 nodes"),
        ({"nodes": "0"}, "ValueError: s: 8 gpus cannot be dealt out to 0 nodes"),
        ({"nodes": "3", "group": HOSTS[0]}, "ValueError: s: 8 gpus cannot be dealt out to 3 nodes"),
    ],
)
def test_a_row_that_nobody_can_have_measured_is_one_line(
    change: dict[str, str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = folder_of(tmp_path, [])
    usual = ("1", "s", "all_reduce", "8", "1", "NVLink", str(SIZES[0]), "9.5", "nccl 2.23", ONE_HOST[0])
    cells = dict(zip(COLUMNS, usual, strict=True)) | change
    (folder / "measured" / "collectives.csv").write_text("\n".join(map(",".join, (COLUMNS, cells.values()))))
    monkeypatch.setenv(VARIABLE, str(folder))

    assert main([f"out={tmp_path}", "dry_run=true"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert f"its collectives.csv is no table of measurements ({problem})" in line


def test_several_hosts_of_a_machine_without_a_network_are_left_out(tmp_path: Path) -> None:
    table = tmp_path / "collectives.csv"
    cells = ("1", "s", "all_reduce", "16", "2", "NVLink", str(SIZES[0]), "9.5", "nccl 2.23", ONE_HOST[0])
    table.write_text("\n".join(map(",".join, (COLUMNS, cells))))

    assert read(table) == ((), {ONE_HOST[0]: (1, "the network is not stated")})


def test_published_collectives_meet_their_bounds(reference_data: Path) -> None:
    """A fifth of those on one host, and those over two hosts of eight devices."""
    measured = plan_collectives(reference_data, read_command([], ""))
    assert (len(measured), sum(each.row.hosts > 1 for each in measured)) == (501, 27)
    kept = [each for n, each in enumerate(measured) if n % 5 == 0 or (each.row.hosts > 1 and each.row.ranks == 16)]

    results = {point.key: simulate(point.config) for each in kept if (point := each.point)}
    rows = {key: {"status": found["status"], **found["metrics"]} for key, found in results.items()}
    one, several = judged(kept, rows, {"collectives": 0.10, "over_hosts": 0.20})

    assert (one.passed, several.passed) == ([], [])
    assert list(one.points) == ["ampere", "hopper", "blackwell", "ada"]
    assert len(several.points) == 4
    strict, _ = judged(kept, rows, {"collectives": 0.0, "over_hosts": 0.0})
    assert strict.passed == [f"collectives of {name}" for name in one.points]
