"""Where a device waits for its host, which launches one kernel after another and is ahead of it as long as it can be.

A kernel starts when the one before it has ended and the host has launched it. So a layer is not over before the host
has launched all kernels and collectives of the action so far, and what its device lacks until then, it waits. The host
begins with an action when the device does: what it could launch while its device waits for other stages is left out,
and so is what only some actions launch, hand-overs and syncs of gradients.

How long a launch takes: eager PyTorch needs 5 to 25 us of the host's time for an operator, from Python through the
dispatchers to the driver (https://jiahuanglin.xyz/all_lessons/gpu_kernel_serving/18_pytorch_to_kernel.html); CUDA
graphs have one launch for many (https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xsim.plan.operator import Pass, ShardedOperator

__all__ = ["host_waits_ps", "kernels"]


def kernels(operator: ShardedOperator, passes: Iterable[Pass]) -> int:
    """How many of them these passes of ``operator`` launch."""
    return sum(operator.work(pass_).kernels for pass_ in passes)


def host_waits_ps(launches: Sequence[int], device_ps: Sequence[int], launch_ps: int) -> Iterator[int]:
    """What a device waits for its host at the end of each layer of an action, in their order.

    Args:
        launches: Of each layer.
        device_ps: What each takes on the device, if everything has been launched.
        launch_ps: Of the host, for one launch.

    >>> list(host_waits_ps([10, 10, 10], [50, 200, 10], 10))
    [50, 0, 0]
    """
    host_ps = now_ps = 0
    for count, own_ps in zip(launches, device_ps, strict=True):
        host_ps += count * launch_ps
        now_ps += own_ps
        waits_ps = max(0, host_ps - now_ps)
        now_ps += waits_ps
        yield waits_ps
