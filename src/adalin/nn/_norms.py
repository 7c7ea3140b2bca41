"""Norms over all features of a sample, for layers and for images."""

import torch.nn.functional as F
from torch import Tensor, nn


class SampleLayerNorm(nn.LayerNorm):
    """torch's LayerNorm over units; images are normalised over channels and places, with one gain per channel."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() > 2:
            return F.group_norm(input, 1, self.weight, self.bias, self.eps)
        return super().forward(input)


class SampleRMSNorm(nn.RMSNorm):
    """torch's RMSNorm over units; images are normalised over channels and places, with one gain per channel."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() > 2:
            normal = F.rms_norm(input, input.shape[1:], None, self.eps)
            return normal * self.weight.view(-1, *[1] * (input.dim() - 2))
        return super().forward(input)
