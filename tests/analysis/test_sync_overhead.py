"""How much less of its time one strategy spends in hand-overs and gradient syncs than another."""

from __future__ import annotations

import io
import re

import pytest

from analysis.compare import show
from tests.analysis.compared import Terminal, squeezed, table


def synced(cluster: str, **overheads_s: tuple[float, float]) -> list[dict[str, object]]:
    """A row per strategy of ``cluster`` with its exposed hand-overs and gradient syncs."""
    return [
        {"cluster": cluster, "reshard": name, "reshard_comm_time_s": resharding_s, "dp_comm_time_s": dp_comm_s}
        for name, (resharding_s, dp_comm_s) in overheads_s.items()
    ]


SYNCED = table(
    *synced("a", lcm=(0.03, 0.045), hetauto=(0.05, 0.05), alpacomm=(0.02, 0.04)),
    *synced("b", lcm=(0.0, 0.0), hetauto=(0.0, 0.0), alpacomm=(0.0, 0.0)),
)


def test_sync_overhead_is_hand_overs_and_gradient_syncs() -> None:
    """0.075 s are a quarter less than 0.1 s and a quarter more than 0.06 s."""
    out = io.StringIO()

    show(SYNCED, file=out)

    text = squeezed(out.getvalue())
    assert "sync overhead of lcm: how much less than each of the others" in text
    assert "| cluster | model | lcm [s] | against hetauto | against alpacomm |" in text
    assert "| a | same | 0.075000 | 25.0% | -25.0% |" in text
    assert "| b | same | 0.000000 | - | - |" in text
    assert "the Xsim paper (section 1) reports up to 21% less" in text


def test_sync_overhead_of_another_baseline() -> None:
    out = io.StringIO()

    show(SYNCED, baseline="alpacomm", file=out)

    assert "| a | same | 0.060000 | 20.0% | 40.0% |" in squeezed(out.getvalue())


@pytest.mark.parametrize("options", [{"by": "network"}, {"baseline": "star"}], ids=str)
def test_no_sync_overhead_of_what_did_not_run(options: dict[str, str]) -> None:
    out = io.StringIO()

    show(SYNCED, file=out, by=options.get("by"), baseline=options.get("baseline", "lcm"))

    assert "sync overhead" not in out.getvalue()


def test_sync_overhead_is_unknown_where_the_table_does_not_tell() -> None:
    out = io.StringIO()

    show(SYNCED.drop_columns(["reshard_comm_time_s"]), file=out)

    assert "| a | same | - | - | - |" in squeezed(out.getvalue())


def test_sync_overhead_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()

    show(SYNCED, file=out)

    text = squeezed(re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()))
    assert "lcm has less by" in text
    assert "hetauto 0.100000 25.0% alpacomm 0.060000 -25.0%" in text
