"""A row as experiments: the keys and values that make a config of it, or why that cannot be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import Any

from runners.published.machines import Unknown, cluster
from runners.published.measures import measured_s
from runners.published.rows import Row
from runners.published.sources import Source, architecture
from xsim.spec.scenario import DTYPE_BYTES

__all__ = ["Replay", "narrow", "replay"]

DISTRUSTED = re.compile(r"SUSPECT|IDENTICAL|INCONSISTENT|CAUTION", re.IGNORECASE)
NARROW = re.compile(r"(mx)?fp8(?! or)")  # with any granularity of its scales
EXPERTS = re.compile(r"\bEP=(\d+)")
SHARDED = re.compile(r"\bFSDP=(\d+)")
LARGEST_MICRO_BATCH = 16  # that is tried
TRIED_ON = {"network": "analytic", "noise": "none"}  # one replica: who is fastest is seen without company and noise
LEAST_BUCKET, PER_REPLICA = 40 * 10**6, 10**6  # parameters, of a rank
SHAPE = ("layers", "hidden", "heads", "gbs", "num_gpus", "nodes", "pp")
PER_STAGE = ("sequence_parallel", "recompute")  # of a deployment's keys
OF_TENSOR_GROUPS = ("sequence_parallel", "tp_async", "tp_overlap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a row becomes.

    Attributes:
        step_s: Measured time of a step.
        model: As a model's file has it.
        choices: Settings of the experiments that the row may be; one, unless its source chose the fastest.
        trials: Each of them with one replica alone, on a cluster without noise, by which the fastest is found.
    """

    step_s: float
    model: Mapping[str, Any]
    choices: tuple[Mapping[str, Any], ...]
    trials: tuple[Mapping[str, Any], ...]


def replay(
    row: Row,
    source: Source | None,
    models: Sequence[tuple[str, Mapping[str, Any]]],
    reference: Path | None = None,
) -> Replay:
    """The experiments of ``row``.

    Args:
        reference: The folder that profiles of sources are in.

    Raises:
        Unknown: What it lacks, or what of it is not simulated.
    """
    if source is None:
        raise Unknown("nothing is known of its source's hosts and software: its group is not in sources.yaml")
    source = source.edition(row.texts["source"])
    _check(row)
    precision = _precision(row, source)
    model = _model(row, source, models)
    step_s = measured_s(row, model, source.flops)
    if step_s is None:
        raise Unknown("it states neither time nor throughput")
    common = {"cluster": cluster(row, source), "model": model, "batch": row.whole["gbs"], "precision": precision}
    common |= {**source.settings, **_profiled(row, source, reference)}
    deployment = dict(source.deployment) | _recomputed(row, source)
    if "sequence parallel" in row.texts["recompute"]:
        deployment["sequence_parallel"] = True
    deploy = _placed if row.mixed else _uniform
    choices = tuple(common | chosen for chosen in deploy(row, source, deployment))
    if not choices:
        raise Unknown("no micro-batch divides its batch")
    alone = _one_replica(row) if len(choices) > 1 else row
    one = {"cluster": cluster(alone, source), "batch": alone.whole["gbs"], **TRIED_ON}
    return Replay(step_s=step_s, model=model, choices=choices, trials=tuple({**each, **one} for each in choices))


def _profiled(row: Row, source: Source, reference: Path | None) -> dict[str, Any]:
    """The settings by which times count that the source has measured, if they are there."""
    for pattern, found in source.profiles.items():
        if reference is None or not re.search(pattern, row.texts["model"], re.IGNORECASE):
            continue
        folders = {key: reference / found[key] for key in ("path", "ratios") if key in found}
        if all(folder.is_dir() for folder in folders.values()):
            named = {"device": found["device"]} if "device" in found else {}
            options = named | {key: str(folder) for key, folder in folders.items()} | {"collectives": "inside"}
            member = {"compute": "scaled" if named else "profile"}
            return member | {f"compute.{key}": value for key, value in options.items()}
    return {}


def _one_replica(row: Row) -> Row:
    """``row`` without data parallelism: a replica's devices, on as few hosts, and its part of the batch."""
    ranks, hosts = row.whole["tp"] * row.whole.get("cp", 1) * row.whole["pp"], row.whole["nodes"]
    replicas = row.whole["num_gpus"] // ranks
    one = {"num_gpus": ranks, "nodes": -(-hosts // replicas), "gbs": row.whole["gbs"] // replicas, "dp": 1}
    return replace(row, whole={**row.whole, **one})


def _check(row: Row) -> None:
    """Refuse what is not to be trusted, not whole, or of a kind that is not simulated."""
    notes, model = row.texts["notes"], row.texts["model"]
    if flag := DISTRUSTED.search(notes):
        raise Unknown(f"the table flags it: {flag[0].upper()}")
    if (experts := EXPERTS.search(notes)) and int(experts[1]) > 1:
        raise Unknown("the experts of its model are not known")
    if re.search("lora", f"{model} {notes}", re.IGNORECASE):
        raise Unknown("LoRA is not simulated")
    if lacking := [name for name in SHAPE if name not in row.whole]:
        raise Unknown(f"it does not state {', '.join(lacking)}")
    if not row.mixed:
        if "tp" not in row.whole:
            raise Unknown("it does not state tp")
        parts = row.whole["tp"] * row.whole.get("cp", 1) * row.whole["pp"]
        if row.whole["num_gpus"] != parts * row.whole.get("dp", row.whole["num_gpus"] // parts):
            raise Unknown("its degrees do not make its number of devices")


def narrow(row: Row) -> bool:
    """Whether its products are in fp8."""
    return bool(NARROW.match(row.texts["precision"].lower()))


def _precision(row: Row, source: Source) -> str:
    stated = row.texts["precision"].lower() or source.precision
    if stated is None:
        raise Unknown("neither it nor its source states a precision")
    if narrow(row):
        return "fp8"
    stated = stated.removeprefix("amp_")
    if stated not in DTYPE_BYTES:
        raise Unknown(f"precision {stated.upper().split(' ')[0]} is not simulated")
    return stated


def _model(row: Row, source: Source, models: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    name = row.texts["model"]
    facts = architecture(name, models)
    if facts is None:
        raise Unknown("the architecture of its model is not known")
    facts = {**facts, **source.model}
    text = row.texts["vocab"]
    vocab = int(text) if text.isdecimal() else facts.get("vocab", source.vocab)
    seq = row.whole.get("seq", source.seq)
    if seq is None or vocab is None:
        raise Unknown(f"neither it nor its source states {'seq' if seq is None else 'vocab'}")
    hidden, heads = row.whole["hidden"], row.whole["heads"]
    if hidden % heads:
        raise Unknown(f"{heads} heads do not divide a width of {hidden}")
    facts.pop("vocab", None)
    shape = {"layers": row.whole["layers"], "hidden": hidden, "heads": heads, "seq_len": seq, "vocab": vocab}
    return {"name": name, "kv_heads": heads, "ffn": row.whole.get("ffn", 4 * hidden), **shape, **facts}


def _recomputed(row: Row, source: Source) -> dict[str, Any]:
    stated = row.texts["recompute"].lower()
    words = ("full", "selective", "none")
    kind = next((word for word in words if stated.startswith(word)), source.recompute)
    return {} if kind == "none" else {"recompute": kind}


def _uniform(row: Row, source: Source, deployment: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Megatron's equal split, for each micro-batch and number of chunks that the row may mean."""
    tp, cp, pp = row.whole["tp"], row.whole.get("cp", 1), row.whole["pp"]
    dp = row.whole["num_gpus"] // (tp * cp * pp)
    given = {key: value for key, value in deployment.items() if tp > 1 or key not in OF_TENSOR_GROUPS}
    if (sharded := SHARDED.search(row.texts["notes"])) and int(sharded[1]) > 1:
        given["zero"] = 3
    if source.bucket == "megatron":
        given["bucket"] = f"{max(LEAST_BUCKET, PER_REPLICA * dp) * tp * _gradient_bytes(row, source) // 10**6} MB"
    for micro_batch, chunks in product(_micro_batches(row, source, dp), _chunks(row, source)):
        micro_batches, rest = divmod(row.whole["gbs"], dp * micro_batch)
        if rest or (chunks > 1 and micro_batches % pp):
            continue
        options = {
            "tp": tp,
            **({"cp": cp} if cp > 1 else {}),
            "pp": pp,
            "chunks": chunks,
            "micro_batch": micro_batch,
            **given,
        }
        yield {
            "planner": "uniform",
            "schedule": "interleaved" if chunks > 1 else "one_f_one_b",
            **{f"planner.{key}": value for key, value in options.items()},
        }


def _gradient_bytes(row: Row, source: Source) -> int:
    return DTYPE_BYTES[source.settings.get("gradient_dtype") or _precision(row, source)]


def _micro_batches(row: Row, source: Source, dp: int) -> list[int]:
    if "mbs" in row.whole:
        return [row.whole["mbs"]]
    if source.micro_batch is None:
        raise Unknown("neither it nor its source states a micro-batch")
    samples = row.whole["gbs"] // dp
    powers = [2**power for power in range(LARGEST_MICRO_BATCH.bit_length())]
    return [size for size in powers if samples % size == 0]


def _chunks(row: Row, source: Source) -> list[int]:
    pp, layers = row.whole["pp"], row.whole["layers"]
    if "vp" in row.whole:
        return [row.whole["vp"] if pp > 1 else 1]
    if source.chunks is None or pp == 1 or layers % pp:
        return [1]
    return [count for count in range(1, layers // pp + 1) if layers // pp % count == 0]


def _placed(row: Row, source: Source, deployment: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The deployment that the row spells out: stages in order, their replicas side by side in each."""
    dp, pp = row.whole.get("dp", 1), row.whole["pp"]
    layers = _stage_layers(row, source)
    degrees = _counts(row, "tp_per_stage")
    degrees = degrees * pp if len(degrees) == 1 else degrees
    if len(layers) != pp or len(degrees) != pp:
        raise Unknown(f"it has {pp} stages, and lists {len(layers)} parts of layers and {len(degrees)} degrees")
    sizes = _micro_batches(row, source, dp)
    if len(sizes) != 1:
        raise Unknown("it does not state its micro-batch")
    (micro_batch,) = sizes
    micro_batches, rest = divmod(row.whole["gbs"], dp * micro_batch)
    if rest:
        return
    first = [0, *accumulate(tp * dp for tp in degrees)]
    replicas = [
        {
            "micro_batch": micro_batch,
            "micro_batches": micro_batches,
            "stages": [
                {
                    "groups": [{"ranks": list(range(first[s] + r * tp, first[s] + (r + 1) * tp))}],
                    "layers": {"first": part.start, "last": part.stop - 1},
                    **_own(deployment, part),
                }
                for s, (tp, part) in enumerate(zip(degrees, layers, strict=True))
            ],
        }
        for r in range(dp)
    ]
    rest_of = {key: value for key, value in deployment.items() if key not in PER_STAGE}
    yield {"planner": "given", "deployment": {"name": row.name, "replicas": replicas, **rest_of}}


def _own(deployment: Mapping[str, Any], layers: range) -> dict[str, Any]:
    """What a stage says of itself; only transformer layers are recomputed."""
    own = {key: deployment[key] for key in PER_STAGE if key in deployment}
    if "recompute" in own:
        own["recompute"] = [{"operator": own["recompute"], "layers": {"first": layers.start, "last": layers.stop - 1}}]
    return own


def _counts(row: Row, column: str) -> list[int]:
    """Of each stage."""
    texts = [text.strip() for text in row.texts.get(column, "").split("|") if text.strip()]
    if not all(text.isdecimal() for text in texts):
        raise Unknown(f"its {column} is no list of whole numbers")
    return [int(text) for text in texts]


def _stage_layers(row: Row, source: Source) -> list[range]:
    """Of each stage; its list counts what comes before the first layer and after the last as the source says."""
    counts = _counts(row, "layers_per_stage")
    before, after = source.ends
    layers = row.whole["layers"]
    if sum(counts) != before + layers + after:
        raise Unknown(f"its stages have {sum(counts)} entries, and the model {before + layers + after}")
    cuts = [0, *accumulate(counts)]
    inner = [min(max(cut - before + 1, 1), layers + 1) for cut in cuts]
    parts = [range(a, b) for a, b in pairwise(inner)]
    parts[0] = range(0, parts[0].stop)
    parts[-1] = range(parts[-1].start, layers + 2)
    if not all(parts):
        raise Unknown("a stage between the first and the last has no layer")
    return parts
