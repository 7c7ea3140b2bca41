"""What networks are trained on by autograd; native kernels stay on the CPU."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Hardware:
    """A device and how to use it. Numbers differ a little between devices and with `compile`; the manifest has both."""

    device: str = "cpu"
    """As torch names it: "cpu", "cuda", "cuda:1"."""
    compile: bool = False
    """Through torch.compile."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device is cpu, cuda or cuda:N, not {self.device!r}")
        count = torch.cuda.device_count()
        if self.device != "cpu" and count == 0:
            raise ValueError("there is no CUDA device here; leave out --device")
        if int(self.device.partition(":")[2] or 0) >= max(count, 1):
            raise ValueError(f"there is no device {self.device}: there are {count}, numbered from 0")

    def forward_of(self, model: nn.Module) -> Callable[[Tensor], Tensor]:
        """What computes the model's outputs."""
        return torch.compile(model) if self.compile else model

    def autocast(self, precision: str) -> AbstractContextManager[object]:
        """Mixed precision for one forward pass."""
        if precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.partition(":")[0], dtype=getattr(torch, precision))
