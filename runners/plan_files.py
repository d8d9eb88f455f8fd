"""Files of plans of other tools: recognised by what stands in them, read, and laid on a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from runners.foreign import file_text
from xsim.errors import SpecError
from xsim.interop.plans.aceso import aceso_plan
from xsim.interop.plans.amp import amp_plan
from xsim.interop.plans.hexiscale import hexiscale_plan
from xsim.interop.plans.interchange import read_plan
from xsim.interop.plans.megatron import megatron_plan
from xsim.interop.plans.metis import metis_plan
from xsim.interop.plans.sailor import sailor_plan
from xsim.interop.plans.target import Imported, Target
from xsim.interop.plans.texts import ordinal

__all__ = ["FORMATS", "read_file"]

FORMATS: Mapping[str, Callable[[str, Target, str], Imported]] = {
    "json": read_plan,
    "metis": metis_plan,
    "sailor": sailor_plan,
    "hexiscale": hexiscale_plan,
    "amp": amp_plan,
    "aceso": aceso_plan,
    "megatron": megatron_plan,
}
LARGEST_BYTES = 64 * 10**6
_SINGLE = ("hexiscale", "aceso", "megatron")  # files of one plan
_SIGNS = (  # the first that a file has says what it is
    ("sailor", r"['\"]pipeline_list['\"]"),
    ("aceso", r"['\"]num_ops_in_each_stage['\"]"),
    ("hexiscale", r"hetero[_-]configs|layer partitions:"),
    ("amp", r"['\"]mp_deg['\"]"),
    ("metis", r"DeviceType\."),
    ("megatron", r"--(tensor|pipeline)[-_]model[-_]parallel[-_]size"),
    ("json", r"['\"](pipelines|node_sequence|top)['\"]"),
)


def read_file(path: Path, chosen: str | None, target: Target) -> Imported:
    """The plan in ``path``, in the format ``chosen``, one of ``FORMATS``, or in that which it looks like.

    Raises:
        SpecError: It cannot be read, or is no plan of this model and cluster.
    """
    if path.is_file() and path.stat().st_size > LARGEST_BYTES:
        problem = f"it has more than {LARGEST_BYTES // 10**6} MB"
        raise SpecError("from", str(path), problem, "name the file of a plan")
    text = file_text("from", path)
    kind = chosen or next((kind for kind, sign in _SIGNS if re.search(sign, text)), None)
    kind = "json" if kind is None and path.suffix == ".json" else kind
    if kind is None:
        problem = "it shows no sign of any format"
        raise SpecError("from", str(path), problem, f"say which it is: format={'|'.join(FORMATS)}")
    if kind not in FORMATS:
        raise SpecError("format", kind, "there is no such format", f"choose one of {', '.join(FORMATS)}")
    if kind in _SINGLE:
        ordinal(target.which, 1)
    return FORMATS[kind](text, target, path.name)
