"""Norms before the activation of every hidden layer, as parts of a method."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from adalin.nn import SampleLayerNorm, SampleRMSNorm


@dataclass(frozen=True)
class Norm(ABC):
    """What normalises the inputs of every hidden activation. Subclasses are frozen dataclasses of options."""

    name: ClassVar[str]
    """Name in methods' texts."""
    title: ClassVar[str] = ""
    """Name in figures and tables."""
    summary: ClassVar[str] = ""
    """One line about it."""
    paper: ClassVar[str] = ""
    """Paper that it comes from."""

    eps: float = 1e-5
    """Number added to the variance, so that nothing is divided by 0."""

    def __post_init__(self) -> None:
        if not 0 < self.eps < math.inf:
            raise ValueError(f"option eps of {self.name} must be a number > 0, not {self.eps}")

    @abstractmethod
    def layer(self, width: int) -> nn.Module:
        """The norm of a hidden layer of so many units."""


@dataclass(frozen=True)
class LayerNorm(Norm):
    """Layer normalisation (Ba et al. 2016) before every activation, with a gain and a shift for each unit.

    Where Kumar et al. 2023 and Lyle et al. 2023 put it. An image is normalised over channels and places together.
    """

    name = "layernorm"
    title = "LayerNorm"
    summary = "layer normalisation before every activation"
    paper = "Ba et al. 2016"

    def layer(self, width: int) -> nn.Module:
        return SampleLayerNorm(width, eps=self.eps)


@dataclass(frozen=True)
class RMSNorm(Norm):
    """Root-mean-square normalisation (Zhang & Sennrich 2019) before every activation, with a gain for each unit."""

    name = "rmsnorm"
    title = "RMSNorm"
    summary = "root-mean-square normalisation before every activation"
    paper = "Zhang & Sennrich 2019"

    def layer(self, width: int) -> nn.Module:
        return SampleRMSNorm(width, eps=self.eps)
