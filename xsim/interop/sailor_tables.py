"""Sailor's profiles and formulas as tables of a planner (https://github.com/eth-easl/sailor, branch sosp25_ae).

Times per layer are measured, ``profile.json``: ``{micro_batch: {tp: {layer: [forward_s, backward_s, update_s]}}}``;
they hold the collectives of tensor parallelism. ``llm_info.json`` has what a layer holds and gives, by tp, in fp32; and
``multizone_bandwidths_het.json`` polynomials of the bandwidth between two devices of which so many send at once.

A hand-over of b bytes takes ``b / bw`` with ``bw(log2(b) - log2(1e6))`` GB/s; the first stage of more than three sends
its activations twice, and the last its gradients. A sum over d copies goes in buckets of 500 MB, each in
``2 (d - 1)`` hand-overs of a d-th; here block after block of layers with one set of holders, and, as its simulator
does where tensor-parallel degrees differ, at the rate of two single devices of the slowest pair of kinds. A rank needs
24 bytes a parameter, what a micro-batch leaves in its layers for each in flight, and 2 GiB more, 3 with tensor
parallelism. The optimizer takes as long as the profile says of one layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xsim.errors import SpecError
from xsim.interop.profiles import loaded
from xsim.plan.kinds import Sketch
from xsim.plan.search.contracts import Again, Ints, Kind, Seat
from xsim.plan.search.sends import hand_overs_ps
from xsim.plan.search.sync import Holding, blocks, holdings, longest_ps

__all__ = ["SailorTables", "sailor_tables"]

FLOAT_BYTES = 4
BUCKET_BYTES = 500_000_000
STATE_BYTES = 24  # Adam 8, weights, gradients, what is communicated, and a copy 4 each
GIB = 1 << 30


def sailor_tables(
    kinds: Sequence[Kind], profiles: Mapping[str, str], layers: str, bandwidths: str, *, model: str, batch: int
) -> SailorTables:
    """Tables from the texts of Sailor's files.

    Args:
        kinds: Named as Sailor names devices.
        profiles: ``profile.json`` of each kind.
        layers: ``llm_info.json``.
        bandwidths: Of one zone.

    Raises:
        SpecError: One is no such file, or lacks a kind or the model.
    """
    info = loaded(layers, "llm_info")
    if not isinstance(info, dict) or model not in info:
        raise SpecError("llm_info", model, "it has no such model", "name another, or the file that has it")
    zones = loaded(bandwidths, "bandwidths")
    if not isinstance(zones, dict) or len(zones) != 1:
        raise SpecError("bandwidths", sorted(zones)[:3], "one zone is asked for", "keep one zone of the file")
    ((zone, rates),) = zones.items()
    own = {kind.name: loaded(profiles[kind.name], f"profiles.{kind.name}") for kind in kinds}
    return SailorTables(tuple(kinds), own, info[model], rates, zone, batch)


@dataclass(frozen=True, slots=True, eq=False)
class SailorTables:
    """As ``xsim.plan.search.contracts.Tables`` says."""

    kinds: tuple[Kind, ...]
    profiles: Mapping[str, Any]
    info: Mapping[str, Any]
    rates: Mapping[str, Any]
    zone: str
    batch: int
    _known: dict[tuple[object, ...], Any] = field(default_factory=dict)

    @property
    def layers(self) -> int:
        return len(next(iter(self.info.values()))) - 2

    @property
    def sequence_parallel(self) -> bool:
        return False

    def tps(self, kind: str) -> tuple[int, ...]:
        most = next(each.per_host for each in self.kinds if each.name == kind)
        each = {int(tp) for by_tp in self.profiles[kind].values() for tp in by_tp}
        return tuple(sorted(tp for tp in each if tp <= most))

    def micro_batches(self, kind: str, tp: int) -> tuple[int, ...]:
        return tuple(sorted(int(samples) for samples, by_tp in self.profiles[kind].items() if str(tp) in by_tp))

    def forward_ps(self, kind: str, tp: int, samples: int) -> Ints:
        return self._times_ps(kind, tp, samples, 0)

    def backward_ps(self, kind: str, tp: int, samples: int, again: frozenset[str] = frozenset()) -> Ints:
        return self._times_ps(kind, tp, samples, 1)

    def operator_ps(self, kind: str, tp: int, samples: int) -> Mapping[str, Mapping[str, tuple[int, int]]]:
        return {}

    def saved_bytes(self, kind: str, tp: int, samples: int, again: frozenset[str]) -> int:
        return 0

    def memory_bytes(
        self, kind: str, tp: int, samples: int, layers: range, in_flight: int, recompute: Again = ()
    ) -> int:
        span = slice(layers.start, layers.stop)
        parameters, kept = (int(self._info(tp, name)[span].sum()) for name in ("params_floats", "act_mem_floats"))
        return int(_need(tp, parameters, samples * in_flight * kept))

    def memory_column(self, kind: str, tp: int, samples: int, ends: tuple[bool, bool], in_flight: int) -> Ints:
        found = []
        for name in ("params_floats", "act_mem_floats"):
            each = self._info(tp, name)
            inner = np.arange(self.layers + 1) * each[1:-1].max()
            found.append(inner + ends[0] * each[0] + ends[1] * each[-1])
        return np.asarray(_need(tp, found[0], samples * in_flight * found[1]), dtype=np.int64)

    def capacity_bytes(self, kind: str) -> int:
        return next(each.device.memory_bytes for each in self.kinds if each.name == kind)

    def in_flight(self, stage: int, stages: int, micro_batches: int) -> int:
        return stages - stage

    def boundary_ps(self, source: Seat, target: Seat, *, near: bool = False) -> int:
        size = int(self._info(source.tp, "act_output_floats")[0]) * FLOAT_BYTES * source.samples
        return round(self._hand_over_s((source.kind, source.tp), (target.kind, target.tp), size) * 1e12)

    def host(self, rank: int) -> int:
        return 0

    def hand_overs_ps(self, stages: Sequence[tuple[Seat, ...]]) -> tuple[int, ...]:
        return hand_overs_ps(self, stages)

    def send_weights(self, stages: int) -> tuple[int, int]:
        return 1 + (stages > 3), 2

    def sync_ps(self, sketch: Sketch) -> int:
        return longest_ps(self.sums_ps(sketch))

    def sums_ps(self, sketch: Sketch) -> list[tuple[tuple[tuple[int, int], ...], int]]:
        found = []
        for members, layers in blocks(holdings(sketch, self.layers)):
            copies = sum(each.copies for each in members)
            if copies > 1:
                places = tuple(sorted({each.place for each in members}))
                found.append((places, round(self._sum_s(members, layers, copies) * 1e12)))
        return found

    def sync_floor_ps(self, kind: str, tp: int, ends: tuple[bool, bool]) -> Ints:
        first, layer, *_, last = self._info(tp, "params_floats").tolist()
        sizes = [(ends[0] * first + n * layer + ends[1] * last) * FLOAT_BYTES for n in range(self.layers + 1)]
        each = [self._ring_s(kind, kind, size, 2) for size in sizes]
        return np.array([round(seconds * 1e12) for seconds in each], dtype=np.int64)

    def update_ps(self, kind: str, tp: int, layers: range, samples: int = 1) -> int:
        by_tp = self.profiles[kind][str(samples)][str(tp)]
        return round(max(float(by_tp[str(layer)][2]) for layer in layers) * 1e12)

    def _times_ps(self, kind: str, tp: int, samples: int, position: int) -> Ints:
        key = (kind, tp, samples, position)
        if key not in self._known:
            own = self.profiles[kind][str(samples)][str(tp)]
            seconds = [float(own[str(layer)][position]) for layer in range(self.layers + 2)]
            self._known[key] = np.array([round(each * 1e12) for each in seconds], dtype=np.int64)
        found: Ints = self._known[key]
        return found

    def _info(self, tp: int, name: str) -> Ints:
        key = (tp, name)
        if key not in self._known:
            own = self.info[str(tp)]
            self._known[key] = np.array([int(own[str(layer)][name]) for layer in range(self.layers + 2)])
        found: Ints = self._known[key]
        return found

    def _hand_over_s(self, source: tuple[str, int], target: tuple[str, int], size: float) -> float:
        key = (source, target)
        if key not in self._known:
            self._known[key] = self.rates[source[0]][str(source[1])][self.zone][target[0]][str(target[1])][0]
        power, rate = math.log2(size) - math.log2(1e6), 0.0
        for coefficient in self._known[key]:
            rate = rate * power + coefficient
        return size / (rate * 1e9)

    def _sum_s(self, members: Sequence[Holding], layers: range, copies: int) -> float:
        narrowest = min(each.tp for each in members)
        size = int(self._info(narrowest, "params_floats")[layers.start : layers.stop].sum()) * FLOAT_BYTES
        kinds = sorted({each.kind for each in members})
        return max(self._ring_s(a, b, size, copies) for a in kinds for b in kinds)

    def _ring_s(self, source: str, target: str, size: int, copies: int) -> float:
        whole, rest = divmod(size, BUCKET_BYTES)
        steps = 2 * (copies - 1)
        found = 0.0
        for times, bucket in ((whole, BUCKET_BYTES), (1, rest)):
            if times and bucket:
                found += times * steps * self._hand_over_s((source, 1), (target, 1), bucket / copies)
        return found


def _need(tp: int, parameters: Any, kept: Any) -> Any:
    return parameters * STATE_BYTES + kept * FLOAT_BYTES + (3 if tp > 1 else 2) * GIB
