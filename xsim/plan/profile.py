"""Tables of measured times: what a user's own devices took for operators, or for whole layers.

A table is CSV with a head. A row is the time of one pass of one operator, or of all operators of one layer:

    device,operator,pass,tp,micro_batch,seq,time_us
    h100_80,qkv,forward,2,1,4096,310.5
    h100_80,transformer,backward,2,1,,5120

``device`` is a name of the device library or of the cluster, ``operator`` as operators are called (``qkv core out up
down`` ...), one of ``embedding transformer head``, or ``attention_block`` or ``mlp_block``: the two parts of a
transformer layer, each from its norm to what it adds. ``pass`` is ``forward``, ``input_gradient``, ``weight_gradient``,
``backward`` (both gradients), ``forward_backward`` (all three) or ``update``. Without ``seq`` a row holds for any
length; an update has no ``micro_batch``. More samples never take less: where a table says so, the device was cold, and
the time of the larger micro-batch holds for the smaller one.
"""

from __future__ import annotations

import csv
import io
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import exp, isfinite, log

from xsim.errors import SpecError
from xsim.plan.operator import PASSES, Pass, Place
from xsim.spec.naming import nearest
from xsim.units import PS_PER_S

__all__ = ["BLOCKS", "COLUMNS", "PARTS", "Reading", "Table", "parse_table", "table_text"]

COLUMNS = ("device", "operator", "pass", "tp", "micro_batch", "seq", "time_us")
TRAINING: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")
BLOCKS = ("attention_block", "mlp_block")  # of a transformer layer
KNOWN = frozenset(  # all that a row may be the time of
    (
        *("embedding", "transformer", "head", *BLOCKS),
        *("lookup", "positions", "embedding_dropout", "final_norm", "logits", "loss"),
        *("attention_norm", "qkv", "rotary", "core", "scores", "softmax", "attention_dropout", "context", "merge"),
        *("out", "attention_residual", "mlp_norm", "up", "activation", "down", "mlp_residual"),
        *("router", "top", "permute", "expert_up", "expert_activation", "expert_down", "unpermute"),
        *("qkv_cast", "out_cast", "up_cast", "down_cast", "expert_up_cast", "expert_down_cast"),
        *("cast_gradients", "gradient_norm", "clip", "adam", "sgd", "cast_weights"),
    )
)
PARTS: Mapping[str, tuple[Pass, ...]] = {  # of each pass of a table
    **{pass_: (pass_,) for pass_ in PASSES},
    "backward": TRAINING[1:],
    "forward_backward": TRAINING,
}
LONGEST_US = 1e12
BEYOND = "beyond the micro-batches that were measured"

Key = tuple[str, str, str, int, int]  # device, operator, pass, tp, seq


@dataclass(frozen=True, slots=True)
class Reading:
    """A time of a table, and what is to be said against it; empty if it was measured, or lies between such."""

    time_ps: float
    doubt: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Measured times: of each key the micro-batches, rising, with their picoseconds."""

    times: Mapping[Key, Sequence[tuple[int, float]]]

    def has(self, device: str, names: Collection[str], tp: int) -> bool:
        """Whether any of ``names`` was measured by so many ranks."""
        return any(key[0] == device and key[1] in names and key[3] == tp for key in self.times)

    def read(self, device: str, name: str, pass_: str, place: Place) -> Reading | None:
        """The time of a pass of the operator or layer ``name``; none if no row is of its ``tp`` and length.

        Between two micro-batches the logarithm of the time is linear in that of the work, which is in proportion to
        the micro-batch. Beyond them the nearest line goes on, no steeper than the work and never falling.
        """
        for seq in (place.seq_len, 0):
            found = self.times.get((device, name, pass_, place.tp, seq))
            if found:
                return _between(found, place.samples)
        return None


def _between(found: Sequence[tuple[int, float]], samples: int) -> Reading:
    position = bisect_left(found, (samples, 0.0))
    if position < len(found) and found[position][0] == samples:
        return Reading(found[position][1])
    inside = 0 < position < len(found)
    if len(found) == 1:
        ((batch, time_ps),) = found
        return Reading(time_ps * samples / batch, BEYOND)
    left, right = found[(start := min(max(position, 1), len(found) - 1) - 1)], found[start + 1]
    slope = log(right[1] / left[1]) / log(right[0] / left[0])
    if inside:
        return Reading(left[1] * exp(slope * log(samples / left[0])))
    near = left if position == 0 else right
    return Reading(near[1] * exp(min(max(slope, 0.0), 1.0) * log(samples / near[0])), BEYOND)


def _rows(reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    try:
        yield from reader
    except csv.Error as error:
        at = f"line {reader.line_num}"
        raise SpecError("path", at, f"it is no CSV ({error})", "write a table of times") from None


@lru_cache(maxsize=16)
def parse_table(text: str) -> Table:
    """The table that a text holds.

    Raises:
        SpecError: It is no such table; the field is ``path`` with the line.
    """
    reader = csv.DictReader(io.StringIO(text))
    head = tuple(reader.fieldnames or ())
    missing = [name for name in COLUMNS if name not in head and name != "seq"]
    if missing:
        raise SpecError("path", ",".join(head)[:80], f"it has no column {missing[0]}", f"write {','.join(COLUMNS)}")
    rows: defaultdict[Key, dict[int, float]] = defaultdict(dict)
    for row in _rows(reader):
        at = f"path[line {reader.line_num}]"
        key, batch, time_ps = _row(row, at)
        if batch in rows[key]:
            raise SpecError(at, ",".join(map(str, key)), "a line before it has the same place", "keep one of the two")
        rows[key][batch] = time_ps
    if not rows:
        raise SpecError("path", ",".join(head)[:80], "it has no times below its head", "write a row for each time")
    return Table({key: _rising(times) for key, times in rows.items()})


def _rising(times: Mapping[int, float]) -> list[tuple[int, float]]:
    """By micro-batch, none above that of a larger one."""
    batches = sorted(times)
    least = list(accumulate((times[batch] for batch in reversed(batches)), min))
    return list(zip(batches, reversed(least), strict=True))


def _row(row: Mapping[str, str | None], at: str) -> tuple[Key, int, float]:
    if row["pass"] not in PARTS:
        raise SpecError(f"{at}.pass", row["pass"], "there is no such pass", f"choose one of {', '.join(PARTS)}")
    for name in ("device", "operator"):
        if not row[name]:
            raise SpecError(f"{at}.{name}", row[name], "it is missing", "write a name")
    if row["operator"] not in KNOWN:
        problem = "there is no such operator, layer or block"
        raise SpecError(f"{at}.operator", row["operator"], problem, nearest(row["operator"], sorted(KNOWN)))
    update = row["pass"] == "update"
    tp = _whole(row["tp"], f"{at}.tp")
    batch = 0 if update and not row["micro_batch"] else _whole(row["micro_batch"], f"{at}.micro_batch")
    seq = _whole(row["seq"], f"{at}.seq") if row.get("seq") else 0
    return (
        (row["device"] or "", row["operator"] or "", row["pass"] or "", tp, seq),
        0 if update else batch,
        _time(row, at),
    )


def _whole(word: str | None, at: str) -> int:
    try:
        found = int(word or "")
    except ValueError:
        found = 0
    if not 1 <= found < 2**31:
        raise SpecError(at, word, "it is no whole number of at least 1", "write such as 8")
    return found


def _time(row: Mapping[str, str | None], at: str) -> float:
    try:
        found = float(row["time_us"] or "")
    except ValueError:
        found = -1.0
    if not (isfinite(found) and 0 < found <= LONGEST_US):
        raise SpecError(f"{at}.time_us", row["time_us"], "it is no time", "write microseconds, such as 310.5")
    return found * PS_PER_S * 1e-6


def table_text(rows: Iterable[tuple[str, str, str, int, int, int, float]]) -> str:
    """Rows, in the order of ``COLUMNS``, as a table; 0 stands for any length, and for the micro-batch of an update."""
    lines = (",".join(str(cell) if cell else "" for cell in row) for row in rows)
    return "\n".join([",".join(COLUMNS), *lines]) + "\n"
