"""Thirty public bug reports of sweep runners and what they stand on, and the tests that keep each from happening here.

A number is that under which the repository keeps the report, or what mended it.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass

import pytest

REPOSITORIES = {
    "Parcels": "OceanParcels/Parcels",
    "SkyRL": "NovaSky-AI/SkyRL",
    "arrow": "apache/arrow",
    "cube-harness": "The-AI-Alliance/cube-harness",
    "delta-rs": "delta-io/delta-rs",
    "duckdb": "duckdb/duckdb",
    "hydra": "facebookresearch/hydra",
    "hydraflow": "daizutabi/hydraflow",
    "mlflow": "mlflow/mlflow",
    "qlib": "microsoft/qlib",
    "ray": "ray-project/ray",
}


@dataclass(frozen=True, slots=True)
class Report:
    """What went wrong elsewhere: ``numbers`` as ``hydra 2284, 3227``, and where the tests lie that name them."""

    numbers: str
    symptom: str
    tests: tuple[str, ...]

    @property
    def cited(self) -> list[tuple[str, str]]:
        """Repository and number of each."""
        found, repository = [], ""
        for word in re.findall(r"[\w-]+", self.numbers):
            if word.isdecimal():
                found.append((repository, word))
            else:
                repository = word
        return found


def report(numbers: str, symptom: str, *tests: str) -> Report:
    return Report(numbers, symptom, tests)


REPORTS = (
    report(
        "hydra 1945",
        "a file edited while a sweep runs changes its later jobs",
        "runners.test_reports.test_hydra_1945_a_file_edited_meanwhile_changes_no_later_point",
    ),
    report(
        "hydra 2284 3227",
        "failures show at the end alone, and only one of many",
        "runners.test_reports.test_hydra_2284_and_3227_each_failure_is_stored_when_it_happens",
        "e2e.test_killed.test_kills_lose_nothing",
    ),
    report(
        "hydra 1407 3328",
        "an interrupted sweep cannot go on",
        "runners.test_reports.test_hydra_1407_and_3328_the_same_command_goes_on",
    ),
    report(
        "hydra 1324",
        "a big sweep takes minutes to start",
        "runners.test_reports.test_hydra_1324_a_config_is_composed_once_per_option_not_per_point",
        "bench.test_grid.test_ten_thousand_points",
    ),
    report(
        "hydra 725",
        "values that belong together become a product",
        "runners.test_reports.test_hydra_725_coupled_values_stay_coupled",
    ),
    report(
        "hydra 283 2381",
        "an override under a group that varies fails; what varies in hydra itself is undefined",
        "runners.test_reports.test_hydra_283_keys_inside_a_group_that_varies",
        "runners.test_reports.test_hydra_2381_settings_of_hydra_do_not_vary",
    ),
    report(
        "hydra 3121",
        "it crashes on a version of Python that nobody excluded",
        "runners.test_reports.test_hydra_3121_only_versions_of_python_that_hydra_runs_on_are_offered",
        "runners.test_help.test_help_is_quick_and_lists_groups",
    ),
    report(
        "hydra 3409",
        "a config calls what is forbidden, by another of its names",
        "runners.test_reports.test_hydra_3409_no_alias_of_code_is_run",
    ),
    report(
        "hydra 2407 2725",
        "a plugin that starts jobs pins what others need, or cannot be set up",
        "runners.test_reports.test_hydra_2407_and_2725_no_plugin_is_needed",
        "runners.test_reports.test_hydra_2407_and_2725_a_broken_plugin_stops_no_sweep",
    ),
    report(
        "ray 22978",
        "a point that fails is lost to whoever waits for the next of several",
        "runners.test_pool.test_every_fate_is_one_row",
    ),
    report(
        "ray 62746",
        "a dead worker keeps its slot, and everything stands still",
        "runners.test_pool.test_every_fate_is_one_row",
        "e2e.test_killed.test_kills_lose_nothing",
    ),
    report(
        "ray 32954 46157",
        "cancelling stops nobody who sleeps, and who asks for the result waits for ever",
        "runners.test_pool.test_every_fate_is_one_row",
    ),
    report(
        "ray 60991 26678",
        "a start joins another cluster that happens to run, or one that is dead",
        "runners.test_nodes.test_a_sweep_of_its_own_joins_no_cluster_that_happens_to_run",
    ),
    report(
        "ray 44704",
        "without its server the program is ended after a minute",
        "e2e.test_killed.test_kills_lose_nothing",
    ),
    report(
        "ray 31451 2005",
        "processes are left when the driver is interrupted or dies",
        "runners.test_admission.test_what_a_killed_driver_leaves_is_ended_by_its_watcher",
        "e2e.test_killed.test_kills_lose_nothing",
    ),
    report(
        "ray 62961 9392",
        "logs of workers fill the disk",
        "runners.test_pool.test_a_death_among_short_points_costs_the_others_nothing",
    ),
    report(
        "ray 11233",
        "each point costs more the more there are",
        "bench.test_sweep.test_the_overhead_of_a_point",
    ),
    report(
        "ray 19978, mlflow 7206",
        "runs do not nest, and a worker without the store's address makes one where it stands",
        "runners.test_mlflow_writer.test_runs_nest_ray_19978_and_a_shells_run_captures_none_mlflow_15713",
    ),
    report(
        "hydraflow 245",
        "two that meet on a new database break it",
        "runners.test_mlflow_writer.test_first_contact_of_two_sweeps_hydraflow_245",
    ),
    report(
        "mlflow 23634 18534",
        "runs in plain files are refused, or not shown",
        "runners.test_mlflow_writer.test_a_default_run_is_sqlite_mlflow_23634_18534",
        "runners.test_ui.test_the_page_has_the_runs_of_a_default_sweep_mlflow_23634_18534",
    ),
    report(
        "mlflow 3932, SkyRL 1516",
        "a run that failed is FINISHED, one that was ended is RUNNING for ever",
        "runners.test_mlflow_writer.test_statuses_mlflow_3932_skyrl_1516",
        "e2e.test_killed.test_kills_lose_nothing",
    ),
    report(
        "mlflow 15713",
        "a run that the shell names takes in the runs of a sweep",
        "runners.test_mlflow_writer.test_runs_nest_ray_19978_and_a_shells_run_captures_none_mlflow_15713",
    ),
    report(
        "mlflow 25640 22827",
        "what is no number ranks best, and an infinity becomes one",
        "runners.test_mlflow_writer.test_what_is_not_finite_never_ranks_mlflow_25640_22827",
        "analysis.test_best.test_mlflow_25640_what_is_no_number_is_never_best",
    ),
    report(
        "mlflow 6183, qlib 1317",
        "a long parameter fails a run",
        "runners.test_mlflow_writer.test_long_params_mlflow_6183_qlib_1317",
    ),
    report(
        "mlflow 21841 2730",
        "comparing and searching many runs is slow",
        "bench.test_store.test_the_report_mlflow_21841_2730",
        "runners.test_ui.test_the_compare_view_in_a_browser_mlflow_21841",
    ),
    report(
        "arrow 3203, Parcels 2713",
        "a file cannot be read after a crash",
        "runners.test_store_safety.test_files_are_whole_after_a_kill_arrow_3203_parcels_2713",
    ),
    report(
        "arrow 35569 8741, duckdb 3238",
        "of files with unlike columns the first decides, and values are cast",
        "runners.test_store_versions.test_older_and_newer_rows_side_by_side_arrow_35569_duckdb_3238",
    ),
    report(
        "delta-rs 3736",
        "rows that two append at once are dropped",
        "runners.test_store_safety.test_two_writers_into_one_folder_lose_nothing_delta_rs_3736",
    ),
    report(
        "cube-harness 345",
        "what workers cannot import leaves points queued for ever",
        "runners.test_nodes.test_what_a_worker_cannot_import_is_named",
    ),
    report(
        "ray 61210",
        "innocent workers are killed for the memory that another takes",
        "runners.test_admission.test_innocent_bystanders_of_a_machine_without_memory_run_again_alone",
    ),
)


def test_there_are_thirty_of_them_each_once() -> None:
    cited = [each for one in REPORTS for each in one.cited]

    assert len(REPORTS) == 30
    assert len(set(cited)) == len(cited)
    assert {repository for repository, _ in cited} == set(REPOSITORIES)


@pytest.mark.parametrize("one", [pytest.param(one, id=one.numbers) for one in REPORTS])
def test_a_report_has_tests_that_name_it(one: Report) -> None:
    told = ""
    for place in one.tests:
        module, _, name = place.rpartition(".")
        test = getattr(importlib.import_module(f"tests.{module}"), name)
        told += f" {name} {test.__doc__ or ''}".replace("delta_rs", "delta-rs").replace("_", " ").lower()

    assert one.tests
    for repository, number in one.cited:
        assert re.search(rf"\b{repository.lower()}\b.*\b{number}\b", told, re.DOTALL), (repository, number)
