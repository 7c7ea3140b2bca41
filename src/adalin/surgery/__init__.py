"""Changes of models that somebody else wrote: AdaLin in place of their activations."""

from adalin.surgery._convert import convert
from adalin.surgery._report import Conversion, ConvertedSite

__all__ = ["Conversion", "ConvertedSite", "convert"]
