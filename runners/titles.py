"""What a run is called: on the screen, in a list of points and in MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from runners.options import CONF

__all__ = ["title"]

ALWAYS = ("cluster", "model", "deployment", "schedule", "reshard", "network")
ORDER = (
    *("cluster", "model", "deployment", "planner", "schedule", "reshard"),
    *("collective", "compute", "topology", "network", "background", "estimate"),
)


def title(labels: Mapping[str, str | None], choice: str, *, batch: int | None, seed: int, sound: bool) -> str:
    """Options, then what else was chosen: short, and another one for every point of a sweep.

    Args:
        labels: Option name per group of an experiment; of those outside ``ALWAYS`` a default is not named.
        choice: What else was set or varies, as text.
        batch: Samples per iteration; named where no deployment fixes it, or it may be another one.
        seed: Of everything random.
        sound: Nothing in it contradicts another part.
    """
    named = (labels[group] for group in ORDER if group in ALWAYS or labels[group] != _usual()[group])
    free_batch = "" if batch is None or (sound and labels["deployment"] is not None) else f"b{batch}"
    return "/".join(part for part in (*named, choice, free_batch, f"s{seed}") if part)


@cache
def _usual() -> Mapping[str, str]:
    """The option of every group that a command which names none gets."""
    import yaml

    defaults = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    return {group: option for entry in defaults if isinstance(entry, dict) for group, option in entry.items()}
