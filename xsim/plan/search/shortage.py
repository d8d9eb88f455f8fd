"""What is missing where no plan fits."""

from __future__ import annotations

import numpy as np

from xsim.errors import SpecError
from xsim.plan.optimizer import optimizer_state_bytes
from xsim.plan.search.shapes import Lists
from xsim.spec.cluster import rank_devices
from xsim.spec.scenario import Scenario

__all__ = ["shortage"]


def shortage(scenario: Scenario, lists: Lists) -> SpecError:
    """The error of a search that found nothing: how many GB are missing, or how many devices."""
    if not lists.orders:
        problem = f"no number of samples that devices may take at once divides a batch of {scenario.batch}"
        return SpecError("batch", scenario.batch, problem, "choose a batch with more divisors")
    most = lists.columns.most_layers()
    held = np.where(lists.rows >= 0, most[lists.rows], 0)
    model = scenario.model
    state = scenario.dtype_bytes + scenario.gradient_dtype_bytes
    state += optimizer_state_bytes(scenario.optimizer, scenario.precision)
    devices = rank_devices(scenario.cluster)
    has = sum(device.memory_bytes for device in devices) / 1e9
    whole = np.where(((held > 0) == (lists.rows >= 0)).all(axis=1), held.sum(axis=1), 0)
    if not whole.any():
        lacks_bytes = np.array([row.lacking for row in lists.columns.rows])
        lacking = np.where(lists.rows >= 0, lacks_bytes[lists.rows], 0).max(axis=1).min() / 1e9
        problem = f"no pipeline has memory for a layer in each stage: a stage of the nearest lacks {lacking:.2f} GB"
        fix = "use devices with more memory, or a smaller model"
        return SpecError("memory", f"{has:.3g} GB of {len(devices)} devices", problem, fix)
    layers = int(min(model.layers - 1, whole.max()))
    lacks = (model.layers - layers) * model.layer_parameters(1) * state / 1e9
    each = max(1, -(-len(devices) * (model.layers - layers) // max(layers, 1)))
    problem = (
        f"the pipeline that holds most has room for {layers} of {model.layers} layers; the others need about "
        f"{lacks:.1f} GB of states more, and their activations"
    )
    return SpecError("memory", f"{has:.3g} GB of {len(devices)} devices", problem, f"add about {each} such devices")
