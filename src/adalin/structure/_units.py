"""A hidden layer of any model: which numbers make its units, and which read them."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Edge:
    """Those numbers of a parameter that belong to the units of one layer.

    Along `axis`, from `start`, they lie as (copies, units, repeat): CReLU gives two copies of all units, and a linear
    layer behind an image reads `repeat` places of each channel.
    """

    parameter: str
    """Name of the parameter in the model."""
    axis: int = 0
    """Axis along which the units lie."""
    start: int = 0
    """Index of the first unit's first number: not 0 behind a concatenation."""
    copies: int = 1
    """Number of times that all units follow each other."""
    repeat: int = 1
    """Number of neighbouring numbers that belong to one unit."""

    def of(self, value: Tensor, width: int) -> Tensor:
        """Those numbers of a tensor with the parameter's shape, (units, copies, repeat, ...), as a view."""
        own = value.movedim(self.axis, 0)[self.start : self.start + self.copies * width * self.repeat]
        return own.unflatten(0, (self.copies, width, self.repeat)).transpose(0, 1)


@dataclass(frozen=True)
class Units:
    """One hidden layer, seen from its activation.

    Where `entangled` is empty, a unit is replaced by itself: with new `incoming` and an `outgoing` of 0, nothing else
    of the network changes, except through a norm over all units before the activation. All edges together, `others`
    too, are every place of the unit's index: the network computes the same if all of them are permuted alike, within
    `groups`.
    """

    name: str
    """Path of the activation in the model; of a function, that of its caller and the function's name."""
    width: int
    """Number of units."""
    axis: int
    """Axis of the units in what the activation takes, counted from the end."""
    incoming: tuple[Edge, ...]
    """Weights whose products are summed into the units, or multiply them as those of a gated unit's other half do."""
    biases: tuple[Edge, ...] = ()
    """Biases of the layers that `incoming` belong to."""
    gains: tuple[Edge, ...] = ()
    """Factors of norms between these layers and the activation; 1 in a new network."""
    shifts: tuple[Edge, ...] = ()
    """Summands of these norms; 0 in a new network."""
    alphas: tuple[Edge, ...] = ()
    """Other parameters of which each unit has its own: those of the activation, factors of a layer scale."""
    outgoing: tuple[Edge, ...] = ()
    """Weights that read the units' outputs."""
    entangled: str = ""
    """Reason why a unit cannot be replaced by itself, such as a residual sum; empty where it can."""
    means: tuple[Edge, ...] = ()
    """Running means of the norms, which are buffers; 0 in a new network."""
    variances: tuple[Edge, ...] = ()
    """Running variances, likewise; 1 in a new network."""
    others: tuple[Edge, ...] = ()
    """All else that has an index of the same units: of layers before and behind that share them, such as a stream."""
    groups: int = 1
    """Number of groups of neighbours within which units may change places, such as those of a grouped convolution; as
    many as units where none may, since something tells them apart that is no edge: the model's outputs, for one."""
    activation: str = ""
    """Name of the activation: that of its base, else of its class."""

    def outputs(self, value: Tensor) -> Tensor:
        """What the activation gave, or takes, as (samples, copies, units): the places of an image are samples."""
        last = value.movedim(self.axis, -1)
        return last.reshape(-1, last.shape[-1] // self.width, self.width)
