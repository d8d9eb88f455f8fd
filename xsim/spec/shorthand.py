"""What people may write shorter, rewritten into the full form before it is read.

| shorthand | full form |
|---|---|
| ``device: h100_80`` | ``device: {library: h100_80}`` |
| ``{library: h100_80, power: 350 W}`` | the library's entry, its keys replaced by those written here |
| ``layers: {first: 1, last: 20}`` | ``layers: [{first: 1, last: 20}]`` |
| a stage's only group without ``samples`` | ``samples``: the stage's ``micro_batch``, or else the replica's |

What does not have the expected form is left as it is: the codec then says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xsim.errors import SpecError
from xsim.spec.cluster import DeviceSpec
from xsim.spec.deployment import Replica, Stage
from xsim.spec.library import entry

__all__ = ["LARGEST_COUNT", "expand"]

LARGEST_COUNT = 2**31 - 1  # counts are int32 in xsim.proto


def expand(cls: type, value: object) -> object:
    """``value`` in the full form of ``cls``."""
    rewrite = _REWRITES.get(cls)
    return rewrite(value) if rewrite else value


def _device(value: object) -> object:
    if isinstance(value, str):
        return entry(value)
    if isinstance(value, Mapping) and value.get("library") is not None:
        own = {key: item for key, item in value.items() if key != "library" and item is not None}
        try:
            found = entry(value["library"])
        except SpecError as error:
            raise error.under("library") from None
        return {**found, **({"speed": 1.0} if "rate" in own else {}), **own}  # an explicit rate is that under load
    return value


def _stage(value: object) -> object:
    if isinstance(value, Mapping) and isinstance(value.get("layers"), Mapping):
        return {**value, "layers": [value["layers"]]}
    return value


def _replica(value: object) -> object:
    if not isinstance(value, Mapping) or not isinstance(value.get("stages"), list | tuple):
        return value
    return {**value, "stages": [_with_samples(stage, value.get("micro_batch")) for stage in value["stages"]]}


def _with_samples(stage: object, micro_batch: object) -> object:
    groups = stage.get("groups") if isinstance(stage, Mapping) else None
    if not isinstance(stage, Mapping) or not isinstance(groups, list | tuple) or len(groups) != 1:
        return stage
    only = groups[0]
    if not isinstance(only, Mapping) or only.get("samples") is not None:
        return stage
    own = stage.get("micro_batch")
    return {**stage, "groups": [{**only, "samples": _samples(micro_batch if own is None else own)}]}


def _samples(micro_batch: object) -> int:
    """All of the micro-batch; 1 if that is no count, since the codec then refuses the key that was written."""
    if isinstance(micro_batch, bool) or not isinstance(micro_batch, int):
        return 1
    return micro_batch if 0 < micro_batch <= LARGEST_COUNT else 1


_REWRITES: Mapping[type, Callable[[object], object]] = {DeviceSpec: _device, Stage: _stage, Replica: _replica}
