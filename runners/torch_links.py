"""Times of collectives, and of transfers between two ranks, with PyTorch's process groups."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

__all__ = ["LINK_COLUMNS", "link_rows"]

LINK_COLUMNS = ("collective", "ranks", "bytes", "time_us")
SIZES = tuple(2**power for power in range(16, 31, 2))  # of the whole tensor
ITEM_BYTES = 4


def link_rows(torch: Any, path: Path, repeat: int, sizes: tuple[int, ...] = SIZES) -> None:
    """Write a table of what each collective takes among all processes, by the size of the whole tensor.

    The processes are those that torchrun started; every one of them comes here, and the first writes.
    """
    gpu = torch.cuda.is_available()
    torch.distributed.init_process_group("nccl" if gpu else "gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    place = f"cuda:{rank % torch.cuda.device_count()}" if gpu else "cpu"
    if gpu:
        torch.cuda.set_device(place)
    rows = [
        (name, 2 if name == "send_recv" else ranks, size, f"{_median_us(torch, run, repeat, gpu):.3f}")
        for size in sizes
        for name, run in _runs(torch, place, rank, ranks, size)
    ]
    if rank == 0:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows((LINK_COLUMNS, *rows))
        print(f"wrote {path}")
    torch.distributed.destroy_process_group()


def _runs(torch: Any, place: str, rank: int, ranks: int, size: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Collectives of a tensor of ``size`` bytes, the same in every process."""
    each = size // ITEM_BYTES // ranks
    whole, part = torch.zeros(each * ranks, device=place), torch.zeros(each, device=place)
    wholes, links = list(whole.chunk(ranks)), torch.distributed
    yield "all_reduce", lambda: links.all_reduce(whole)
    yield "all_gather", lambda: links.all_gather(wholes, part)
    if place != "cpu":  # gloo has neither
        others = torch.zeros_like(whole)
        yield "reduce_scatter", lambda: links.reduce_scatter(part, wholes)
        yield "all_to_all", lambda: links.all_to_all_single(others, whole)
    if ranks > 1:
        yield "send_recv", lambda: _hand_over(links, whole, rank)


def _hand_over(links: Any, tensor: Any, rank: int) -> None:
    """From the first process to the second; the others have nothing to do."""
    if rank == 0:
        links.send(tensor, 1)
    elif rank == 1:
        links.recv(tensor, 0)


def _median_us(torch: Any, run: Callable[[], Any], repeat: int, gpu: bool) -> float:
    def once_us() -> float:
        torch.distributed.barrier()
        if gpu:
            torch.cuda.synchronize()
        begun = perf_counter()
        run()
        if gpu:
            torch.cuda.synchronize()
        return (perf_counter() - begun) * 1e6

    for _ in range(repeat):
        once_us()
    return median(once_us() for _ in range(repeat))
