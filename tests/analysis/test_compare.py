from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from analysis.cases import Failure, compare, failures, offered
from analysis.compare import draw, main, show
from analysis.screen import MANY, fits, print_table
from analysis.titles import USUAL
from tests.analysis.compared import GRID, Terminal, squeezed, table


def test_strategies_stand_side_by_side() -> None:
    found = compare(GRID)

    assert (found.by, found.options, found.columns) == ("reshard", ("lcm", "hetauto"), ("cluster", "model"))
    times = {case: {name: run.training_time_s for name, run in runs.items()} for case, runs in found.cases.items()}
    assert times == {("a", "same"): {"lcm": 1.0, "hetauto": 1.5}, ("b", "same"): {"lcm": 2.0}}


def test_any_choice_can_be_compared() -> None:
    found = compare(GRID, by="network")

    assert found.options == ("same",)
    assert found.columns == ("cluster", "model", "reshard")


def test_keys_that_points_set_can_be_compared() -> None:
    """Such as options of a planner, which have no column of their own."""
    runs = [{"point": f"planner.tp={tp}, planner.ep={ep}", "batch": 8} for tp in (1, 2) for ep in (1, 4)]
    grid = table(*runs, {"point": "planner.ep=1", "batch": 8})

    found = compare(grid, by="planner.tp")

    assert found.options == ("1", "2", "not set")
    assert {case[-1]: list(options) for case, options in found.cases.items()} == {
        "planner.ep=1": ["1", "2", "not set"],
        "planner.ep=4": ["1", "2"],
    }
    assert offered(grid)[-2:] == ("planner.tp", "planner.ep")


def test_what_differs_with_the_choice_alone_does_not_part_the_options() -> None:
    runs = [
        {"cluster": cluster, "deployment": f"{cluster}{variant}", "schedule": schedule}
        for cluster in "ab"
        for schedule, variant in (("zb_h1", "_7b"), ("interleaved", "_7b_v2"))
    ]
    out = io.StringIO()

    found = compare(table(*runs))
    show(table(*runs), file=out)

    assert (found.by, found.columns, found.along) == ("schedule", ("cluster", "model"), ("deployment",))
    assert [list(options) for options in found.cases.values()] == [["zb_h1", "interleaved"]] * 2
    assert "not the same for every schedule: deployment\n" in out.getvalue()


def test_options_of_what_is_compared_are_a_part_of_it_unless_they_vary() -> None:
    same, own = "batch=8", "network.payload_bytes=9000, batch=8"
    runs = [
        {"network": "analytic", "point": same},
        {"network": "packet", "point": own},
        {"network": "packet", "point": f"{own}, model.layers=2"},
    ]
    varied = [*runs, {"network": "packet", "point": "network.payload_bytes=1000, batch=8"}]

    assert list(compare(table(*runs)).cases) == [("same", "same", same), ("same", "same", f"{same}, model.layers=2")]
    assert list(compare(table(*runs)).cases["same", "same", same]) == ["analytic", "packet"]
    assert ("same", "same", own) in compare(table(*varied)).cases
    assert len(compare(table(*runs), by="point").options) == 3


def test_the_text_names_misfits_failures_and_the_fastest() -> None:
    out = io.StringIO()

    show(GRID, file=out)

    text = out.getvalue()
    assert "| a | same | 1.0000 | 1.5000 | lcm | 1.500x |" in squeezed(text)
    assert "| b | same | 2.0000* | invalid | - | - |" in squeezed(text)
    assert "1 x invalid: no such layer" in text
    assert all(len(line) < 150 for line in text.splitlines())


def test_the_text_tells_how_near_each_strategy_comes_to_the_best_possible() -> None:
    out = io.StringIO()
    near = {"lcm": (0.9157, 0.9998), "hetauto": (0.4127, 0.427)}
    rows = [
        {"reshard": name, "move_optimality": moves, "sync_optimality": syncs} for name, (moves, syncs) in near.items()
    ]

    show(table(*rows), file=out)

    assert "| same | same | 91.6 / 100.0 | 41.3 / 42.7 |" in squeezed(out.getvalue())


def test_rows_without_that_figure_are_shown_without_it() -> None:
    out = io.StringIO()

    show(GRID, file=out)

    assert "least possible time" not in out.getvalue()


def test_failures_are_grouped() -> None:
    bad = {"status": "failed", "reason": "ValueError: x"}

    found = failures(table(bad, bad | {"cluster": "b"}, {"status": "timeout", "reason": "late"}, {}))

    assert found == [
        Failure("failed", "ValueError: x", 2, "/".join(["same"] * 14 + ["s0"])),
        Failure("timeout", "late", 1, "/".join(["same"] * 14 + ["s0"])),
    ]


def test_a_failure_is_named_as_points_are() -> None:
    usual: dict[str, object] = {**USUAL, "status": "failed", "seed": 3}
    rows = [usual | {"collective": name, "reason": name} for name in ("ring", "tree")]

    examples = [failure.example for failure in failures(table(*rows))]

    assert examples == ["same/same/same/same/same/same/same/s3", "same/same/same/same/same/tree/same/same/s3"]


def test_nothing_to_compare_is_fine() -> None:
    out = io.StringIO()

    show(table({"status": "failed", "reason": "x"}), file=out)

    assert out.getvalue() == f"1 x failed: x (first: {'same/' * 14}s0)\n"


def test_nothing_at_all_is_fine() -> None:
    out = io.StringIO()

    show(GRID.slice(0, 0), file=out)

    assert out.getvalue() == ""


def test_a_folder_without_results_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "it holds no results" in capsys.readouterr().err


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_nothing_is_cut_on_a_narrow_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    strategies = {"lcm": 12.125, "hetauto": 13.25, "alpacomm": 12.5}
    rows = [
        {"cluster": "h100x6_a100x4", "model": f"llama2_{size}", "deployment": size, "reshard": name}
        | {"training_time_s": time_s}
        for size in ("7b", "13b")
        for name, time_s in strategies.items()
    ]
    out = Terminal()

    show(table(*rows), file=out)

    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "…" not in text
    assert all(f"{time_s:.4f}" in text for time_s in strategies.values())
    if width >= 80:
        assert all(name in text for name in ("h100x6_a100x4", "llama2_7b", "llama2_13b", "alpacomm"))
        assert all(len(line) <= width for line in text.splitlines())


def test_ties_are_ties_as_printed() -> None:
    out = io.StringIO()
    times = {"x": 1.00001, "y": 1.0, "z": 2.0}

    show(table(*({"reshard": name, "training_time_s": time_s} for name, time_s in times.items())), file=out)

    assert "| x, y | 2.000x |" in squeezed(out.getvalue())
    assert "fastest: all options whose times print alike" in out.getvalue()


def test_short_times_have_as_many_digits() -> None:
    out = io.StringIO()
    times = {"x": 0.0012346, "y": 0.0012345}

    show(table(*({"reshard": name, "training_time_s": time_s} for name, time_s in times.items())), file=out)

    assert "| 0.001235 | 0.001234 | y | 1.000x |" in squeezed(out.getvalue())


def test_nothing_to_compare_by_a_constant_is_said(tmp_path: Path) -> None:
    out = io.StringIO()

    show(GRID, by="schedule", file=out)

    told = "every run has schedule=same: there is nothing to compare by it; what varies: reshard\n"
    assert out.getvalue().startswith(f"{told}1 x invalid: no such layer (first: ")
    assert draw(GRID, tmp_path, by="schedule") is None
    assert not list(tmp_path.iterdir())


def test_options_of_a_key_are_named_with_it() -> None:
    """A column ``2`` says nothing, and what a paper says of its strategy holds for no other choice."""
    runs = [{"point": point, "batch": 8} for point in ("planner.pp=1", "planner.pp=2", "")]
    out = io.StringIO()

    show(table(*runs), by="planner.pp", baseline="2", file=out)

    text = squeezed(out.getvalue())
    assert "| planner.pp=1 | planner.pp=2 | planner.pp not set | fastest |" in text
    assert "sync overhead of planner.pp=2: how much less" in text
    assert "| planner.pp=2 [s] | against planner.pp=1 | against planner.pp not set |" in text
    assert "paper" not in text


def test_cases_without_any_time_are_counted() -> None:
    bad = {"status": "does_not_fit", "reason": "rank 0"}
    out = io.StringIO()

    show(table(*({"cluster": c, "reshard": r, **(bad if c == "b" else {})} for c in "ab" for r in "xy")), file=out)

    assert "not shown: 1 case of which no point has a time\n2 x does_not_fit: rank 0" in out.getvalue()


def test_one_option_is_neither_fastest_nor_slowest() -> None:
    out = io.StringIO()

    show(table({"cluster": "a"}, {"cluster": "a", "seed": 1}), file=out)

    assert "training time [s]" in out.getvalue()
    assert "fastest" not in out.getvalue()
    assert "slowest" not in out.getvalue()


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.parquet"
    path.write_bytes(b"")

    assert main([str(path)]) == 2
    assert re.fullmatch(r"error: folder = .*: there is no such folder; .*\n", capsys.readouterr().err)


def test_large_tables_look_as_small_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of thousands of rows are not left to rich; a letter of two columns, or a text that folds, is."""
    columns = ["case", "time [s]", "fastest"]
    rows = [[f"case_{number}", f"{number / 7:.3f}", "lcm" * (number % 3)] for number in range(MANY + 1)]

    def printed(rows: list[list[str]], many: int) -> str:
        monkeypatch.setattr("analysis.screen.MANY", many)
        out = io.StringIO()
        print_table(columns, rows, numbers=["time [s]"], file=out)
        return out.getvalue() + str(fits(columns, rows, out))

    for more in ([], [["case", "1", "\u6700\u5feb"]], [["long " * 30, "1", "x"]], [["x" * 300, "1", "x"]]):
        assert printed(rows + more, MANY) == printed(rows + more, 10**9)
