"""What a network is made of, as optimisers, methods and metrics see it."""

from adalin.structure._network import Network, Part

__all__ = ["Network", "Part"]
