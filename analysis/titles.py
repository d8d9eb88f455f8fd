"""What a run is called, everywhere: on the screen, in a list of points, in a report and in MLflow."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["USUAL", "row_title", "title"]

ALWAYS = ("cluster", "model", "deployment", "schedule", "reshard", "network")
ORDER = (
    *("cluster", "model", "deployment", "planner", "schedule", "reshard"),
    *("collective", "compute", "topology", "network", "background", "noise", "estimate"),
)
# Of the groups that need no name: what a command gets that says nothing of them.
USUAL = {
    **{"planner": "given", "collective": "ring", "compute": "roofline", "topology": "clos"},
    **{"background": "none", "noise": "none", "estimate": "none"},
}


def title(labels: Mapping[str, str | None], choice: str, *, batch: int | None, seed: int, sound: bool) -> str:
    """Options, then what else was chosen: short, and another one for every point of a sweep.

    Args:
        labels: Option name per group of an experiment; of those outside ``ALWAYS`` a default is not named.
        choice: What else was set or varies, as text.
        batch: Samples per iteration; named where no deployment fixes it, or it may be another one.
        seed: Of everything random.
        sound: Nothing in it contradicts another part.
    """
    named = (labels[group] for group in ORDER if group in ALWAYS or labels[group] != USUAL[group])
    free_batch = "" if batch is None or (sound and labels["deployment"] is not None) else f"b{batch}"
    return "/".join(part for part in (*named, choice, free_batch, f"s{seed}") if part)


def row_title(row: Mapping[str, object]) -> str:
    """That of the run of ``row``, which has at least the groups, ``point``, ``seed``, ``batch`` and ``status``."""
    labels = {group: None if row[group] is None else str(row[group]) for group in ORDER}
    batch = None if row["batch"] is None else int(str(row["batch"]))  # absent of a contradiction
    sound = row["status"] != "invalid"
    return title(labels, str(row["point"] or ""), batch=batch, seed=int(str(row["seed"])), sound=sound)
