"""Measure what ``compute=profile`` reads, on the device of this machine, with PyTorch (version 2.1 or later).

python -m runners.profile h100_80 llama2_7b h100.csv --tp 1,2,4 --micro-batch 1,2,4
python -m runners.run ... compute=profile compute.path=h100.csv

Each operator of the embedding, of a transformer layer and of the head, of the shape that one tensor rank has, runs
alone: its forward pass, and its gradients; the optimizer runs on the weights of a layer. Times are medians. Two columns
that the table does not need tell the bytes that an operator keeps for its gradients and those that PyTorch has
reserved; on a CPU they are empty. With ``--links`` and a process per device
(torchrun --nproc-per-node 8 -m runners.profile ...) collectives and transfers between two ranks are timed too.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from analysis.command import Parser, exits
from runners.options import CONF
from runners.torch_kernels import Kernel, Maker
from runners.torch_links import link_rows
from xsim.errors import SpecError
from xsim.plan.operator import ShardedOperator
from xsim.plan.operators import layer_kind, shard_operators
from xsim.plan.profile import COLUMNS
from xsim.plan.shard import Shard
from xsim.spec.codec import from_plain
from xsim.spec.model import ModelSpec
from xsim.spec.yaml_text import load

__all__ = ["Clock", "main", "measured_rows"]

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
MEMORY_COLUMNS = ("kept_bytes", "reserved_bytes")


@exits
def main(argv: Sequence[str]) -> int:
    """Write the table."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", help="what the table calls the device: its name in the cluster")
    parser.add_argument("model", help="a model of conf/model, or a YAML file of one")
    parser.add_argument("table", type=Path, help="the file to write")
    parser.add_argument("--tp", type=_counts, default=(1,), help="tensor-parallel degrees: 1,2,4")
    parser.add_argument("--micro-batch", type=_counts, default=(1, 2, 4), help="samples: 1,2,4")
    parser.add_argument("--attention", choices=("flash", "unfused"), default="flash", help="as of a scenario")
    parser.add_argument("--precision", choices=tuple(DTYPES), default="bf16", help="of weights and activations")
    parser.add_argument("--repeat", type=int, default=20, help="how often each time is taken, after as many for warmth")
    parser.add_argument("--links", type=Path, help="a file to write with the times of collectives")
    asked = parser.parse_args(argv)
    torch, model = _torch(), _model(asked.model)
    if int(os.environ.get("RANK", "0")) == 0:
        rows = measured_rows(torch, model, asked)
        with asked.table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(([*COLUMNS, *MEMORY_COLUMNS], *rows))
        print(f"wrote {asked.table}")
    if asked.links is not None:
        link_rows(torch, asked.links, asked.repeat)
    return 0


def _counts(text: str) -> tuple[int, ...]:
    found = tuple(int(word) for word in text.split(","))
    if min(found) < 1:
        raise ValueError(text)
    return found


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        fix = "pip install 'xsim[profile]', or the PyTorch of your device"
        raise SpecError("torch", None, f"it cannot be imported: {error}", fix) from None
    return torch


def _model(name: str) -> ModelSpec:
    path = Path(name) if name.endswith(".yaml") else CONF / "model" / f"{name}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError("model", name, str(error), "name a model of conf/model, or a YAML file of one") from None
    return from_plain(ModelSpec, load(text), "model")


def measured_rows(torch: Any, model: ModelSpec, asked: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    """Rows of the table, with the two columns for memory."""
    clock = Clock(torch, asked.repeat)
    dtype = getattr(torch, DTYPES[asked.precision])
    for tp in asked.tp:
        for batch in asked.micro_batch:
            shard = Shard(model, batch, tp, 0, asked.precision, sequence_parallel=False)
            maker = Maker(torch, clock.place, dtype, shard)
            for operator in _operators(shard, asked.attention):
                place = (tp, batch, model.seq_len)
                for pass_, time_us, kept, reserved in clock.passes(lambda op=operator, by=maker: by.make(op)):  # type: ignore[misc]
                    yield asked.device, operator.name, pass_, *place, f"{time_us:.3f}", kept, reserved
        for layer in (0, 1, model.layers + 1) if model.vocab else (1,):
            time_us = clock.update_us(model.layer_parameters(layer) // tp)
            yield asked.device, layer_kind(model, layer), "update", tp, "", model.seq_len, f"{time_us:.3f}", "", ""


def _operators(shard: Shard, attention: str) -> Iterator[ShardedOperator]:
    """Each once: a transformer layer has two norms and two residuals of one shape, and both have names."""
    for layer in (0, 1, shard.model.layers + 1):
        for part in shard_operators(shard, layer, attention):
            if isinstance(part, ShardedOperator):
                yield part


class Clock:
    """Times what runs on the device of this machine."""

    def __init__(self, torch: Any, repeat: int) -> None:
        self.torch, self.repeat = torch, repeat
        self.place = "cuda" if torch.cuda.is_available() else "cpu"

    def passes(self, make: Callable[[], Kernel | None]) -> Iterator[tuple[str, float, object, object]]:
        """Of each pass of a kernel its name and microseconds, and of the forward pass the bytes kept and reserved."""
        kernel = make()
        if kernel is None:
            return
        before = self._allocated()
        out = kernel.forward()
        kept = self._allocated() - before - out.element_size() * out.nelement() if self.place == "cuda" else ""
        reserved = self.torch.cuda.memory_reserved() if self.place == "cuda" else ""
        yield "forward", self.median_us(kernel.forward), kept, reserved
        back = self.torch.ones_like(out)
        split = {"input_gradient": kernel.inputs, "weight_gradient": kernel.weights}
        if not (kernel.inputs and kernel.weights):
            split = {"backward": kernel.inputs + kernel.weights}
        for name, wanted in split.items():

            def gradients(wanted: tuple[Any, ...] = wanted) -> Any:
                return self.torch.autograd.grad(out, wanted, back, retain_graph=True)

            yield name, self.median_us(gradients), "", ""

    def update_us(self, parameters: int) -> float:
        """Of an Adam step on so many fp32 parameters."""
        weight = self.torch.zeros(parameters, device=self.place, requires_grad=True)
        weight.grad = self.torch.ones_like(weight)
        options = {"fused": True} if self.place == "cuda" else {}
        return self.median_us(self.torch.optim.Adam([weight], **options).step)

    def median_us(self, run: Callable[[], Any]) -> float:
        """Of one run, each between two waits for the device."""
        for _ in range(self.repeat):
            run()
        return median(self._once_us(run) for _ in range(self.repeat))

    def _once_us(self, run: Callable[[], Any]) -> float:
        if self.place == "cpu":
            begun = perf_counter()
            run()
            return (perf_counter() - begun) * 1e6
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3

    def _allocated(self) -> int:
        return int(self.torch.cuda.memory_allocated()) if self.place == "cuda" else 0


if __name__ == "__main__":
    raise SystemExit(main())
