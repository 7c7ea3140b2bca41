"""New units in the place of old ones: the one place that knows what belongs to a unit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy

import torch
from torch import Tensor

from adalin.structure import Edge, Network, Units

Draw = Callable[[Edge, Tensor], Tensor]
"""(edge, the numbers of the chosen units as (units, copies, repeat, ...)) -> new numbers of the same form."""


def replaceable(net: Network) -> Sequence[Units]:
    """The hidden layers whose units can be replaced one by one; raises ValueError if there are none."""
    if net.replaceable is not None:
        return net.replaceable
    found = [layer for layer in net.layers if not refusal(net, layer)]
    if not found:
        layers = {layer.name: refusal(net, layer) for layer in net.layers}
        why = "; ".join(f"{name}: {reason}" for name, reason in layers.items()) or "it has no hidden layers"
        raise ValueError(f"this {type(net.model).__name__} has no units that can be replaced: {why}")
    net.replaceable = found
    return found


def refusal(net: Network, layer: Units) -> str:
    """Why the units of a layer cannot be replaced one by one; empty where they can."""
    if layer.entangled:
        return layer.entangled
    if not layer.incoming or not layer.outgoing:
        return "nobody knows the weights before and behind it"
    trained = net.params
    for edge in (*layer.incoming, *layer.outgoing):
        if edge.parameter not in trained:
            return f"{edge.parameter} is not trained"
    return ""


def replace_units(
    net: Network,
    layer: Units,
    chosen: Tensor,
    draw: Draw,
    generator: torch.Generator,
    *,
    draw_bias: Draw | None = None,
    forget: bool = True,
    restart: bool = False,
) -> None:
    """Put new units in the place of some: what feeds them is drawn, what reads them becomes 0.

    Biases become 0 unless they are drawn, gains of norms 1 and shifts 0, statistics of batch norms 0 and 1, alphas what
    they are in a new network. The optimiser forgets all that concerns these numbers, and mirrors of the network get
    the same units.

    Args:
        net: the network.
        layer: the hidden layer.
        chosen: the units, as a mask.
        draw: what feeds them.
        generator: where new alphas come from.
        draw_bias: their biases.
        forget: whether the optimiser's moments become 0.
        restart: whether its steps of all parameters that are touched become 0.
    """
    (index,) = chosen.nonzero(as_tuple=True)
    new = [(edge, draw) for edge in layer.incoming]
    new += [(edge, draw_bias or _zeros) for edge in layer.biases]
    new += [(edge, _ones) for edge in layer.gains]
    new += [(edge, _zeros) for edge in layer.shifts]
    new += [(edge, _first_values(net, layer, generator)) for edge in layer.alphas]
    new += [(edge, _zeros) for edge in layer.outgoing]
    params, mirrors = net.params, [mirror.params for mirror in net.mirrors]
    for edge, make in new:
        if edge.parameter not in params:
            continue
        own = edge.of(params[edge.parameter], layer.width)
        values = make(edge, own[index])
        own[index] = values
        for mirror in mirrors:
            edge.of(mirror[edge.parameter], layer.width)[index] = values
        if forget:
            for moment in moments_of(net, edge.parameter):
                edge.of(moment, layer.width)[index] = 0
        if restart and (steps := net.memory.get(f"step.{edge.parameter}")) is not None:
            steps.zero_()
    buffers = dict(net.model.named_buffers())
    for edge in layer.means:
        edge.of(buffers[edge.parameter], layer.width)[index] = 0
    for edge in layer.variances:
        edge.of(buffers[edge.parameter], layer.width)[index] = 1


def silence(net: Network, layer: Units, chosen: Tensor) -> None:
    """Let nobody read some units."""
    for own in (net, *net.mirrors):
        params = own.params
        for edge in layer.outgoing:
            edge.of(params[edge.parameter], layer.width)[chosen] = 0


def moments_of(net: Network, parameter: str) -> Iterator[Tensor]:
    """What the optimiser remembers of each number of a parameter."""
    for name, value in net.memory.items():
        what, _, own = name.partition(".")
        if own == parameter and what != "step":
            yield value


def fan_in(edge: Edge, units: Tensor) -> int:
    """Numbers that feed one unit."""
    return units[0].numel()


def inputs_of(params: Mapping[str, Tensor], name: str) -> int:
    """Numbers that feed one unit of a weight's layer, or of a bias's."""
    value = params[name]
    weight = params.get(f"{name.rpartition('.')[0]}.weight".lstrip("."), value) if value.dim() < 2 else value
    return weight[0].numel() if weight.dim() > 1 else weight.numel()


def uniform(bound: Callable[[Edge, Tensor], float], generator: torch.Generator) -> Draw:
    """Numbers between -bound and bound."""

    def draw(edge: Edge, units: Tensor) -> Tensor:
        values = torch.empty(units.shape, dtype=units.dtype)
        limit = bound(edge, units)
        return values.uniform_(-limit, limit, generator=generator).to(units.device)

    return draw


def mean_size(layer: Units, edges: Sequence[Edge], params: Mapping[str, Tensor]) -> Tensor:
    """Mean size of some weights for each unit."""
    owns = [edge.of(params[edge.parameter], layer.width) for edge in edges]
    if len(owns) == 1:
        return owns[0].abs().mean(tuple(range(1, owns[0].dim())))
    return torch.cat([own.flatten(1) for own in owns], 1).abs().mean(1)


def _zeros(edge: Edge, units: Tensor) -> Tensor:
    return torch.zeros_like(units)


def _ones(edge: Edge, units: Tensor) -> Tensor:
    return torch.ones_like(units)


def _first_values(net: Network, layer: Units, generator: torch.Generator) -> Draw:
    """Draws as many values of an activation's parameter as its initialiser gives."""

    def draw(edge: Edge, units: Tensor) -> Tensor:
        path, _, name = edge.parameter.rpartition(".")
        module = net.model.get_submodule(path)
        if not hasattr(module, "reset_parameters"):
            return units
        new = deepcopy(module).cpu()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.set_state(generator.get_state())
            new.reset_parameters()  # type: ignore[operator]
            generator.set_state(torch.default_generator.get_state())
        value = edge.of(getattr(new, name).detach(), layer.width)
        return value[: len(units)].to(units)

    return draw
