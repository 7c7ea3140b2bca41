"""Lets torchvision, and so timm, be imported beside a torch that its compiled operators were not built for.

On import torchvision describes the shapes of two operators that only its compiled part declares. `declare()` declares
them without implementing them, which is all that importing takes.
"""

import torch

_library: torch.library.Library | None = None

NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def declare() -> None:
    """Declare `torchvision::nms` and `torchvision::qnms`, if nobody has."""
    global _library
    missing = [name for name in ("nms", "qnms") if not hasattr(torch.ops.torchvision, name)]
    if missing:
        _library = torch.library.Library("torchvision", "FRAGMENT")  # declarations live as long as their library
        for name in missing:
            _library.define(name + NMS)
