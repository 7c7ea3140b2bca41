"""What a network consists of, whoever trains it."""

from adalin.structure._network import Network, Part
from adalin.structure._units import Edge, Units

__all__ = ["Edge", "Network", "Part", "Units"]
