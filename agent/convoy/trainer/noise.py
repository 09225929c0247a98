"""The noise of gradients, from what a data-parallel step computes anyway: each process's gradient and their mean.

The norm of a mean of b samples' gradients is, squared and in expectation, ``signal + variance / b``. Two sizes of
batch, a process's and the global one, tell the two apart (McCandlish et al., 2018, appendix A.1). One step says
little: both estimates are averaged over a window, and by their reader over many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel


class GradientNoise:
    """Estimates over a window of steps.

    Args:
        model: its gradients' way to the other processes is listened to; it must not have a hook of its own.
        shares: samples of each process's part of the global batch; at least two processes.
    """

    def __init__(self, model: DistributedDataParallel, shares: list[int]) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._inverse_small = sum(1.0 / share for share in shares) / len(shares)
        self._inverse_big = 1.0 / sum(shares)
        self._local: list[torch.Tensor] = []
        self._signal = self._variance = 0.0
        self._steps = 0
        model.register_comm_hook(None, self._listening())

    def _listening(self) -> Callable[[Any, Any], Any]:
        # DDP demands these very annotations
        def hook(state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
            self._local.append(bucket.buffer().detach().float().square().sum())
            return allreduce_hook(None, bucket)  # type: ignore[arg-type]

        hook.__annotations__ = {"bucket": GradBucket, "return": torch.futures.Future[torch.Tensor]}
        return hook

    def local(self, weight: float) -> float:
        """Return the squared norm of this process's gradient in the last backward pass, whose loss had the weight."""
        norm = float(torch.stack(self._local).sum()) / weight**2 if self._local else math.nan
        self._local.clear()
        return norm

    def count(self, small: float) -> None:
        """Count a step: ``small`` is the mean of all processes' ``local``; gradients are the global batch's by now.

        A step whose gradients aren't finite (a scaler skips it) isn't counted.
        """
        grads = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        big = (
            float(torch.stack([grad.detach().float().square().sum() for grad in grads]).sum()) if grads else math.nan
        )
        if math.isfinite(small) and math.isfinite(big):
            variance = (small - big) / (self._inverse_small - self._inverse_big)
            self._variance += variance
            self._signal += big - variance * self._inverse_big
            self._steps += 1

    def window(self) -> dict[str, float]:
        """Return the means since the last call, as fields of ``SpeedSample``; nothing where no step was counted."""
        steps, signal, variance = self._steps, self._signal, self._variance
        self._steps, self._signal, self._variance = 0, 0.0, 0.0
        return {"grad_sqr": signal / steps, "grad_var": variance / steps} if steps and variance > 0 else {}
