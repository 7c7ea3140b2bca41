"""What the definition of a run of SAC stands for: its environment, its networks, its buffer."""

import torch
from torch import nn

from adalin._seeds import seeded
from adalin.engine import Engine, Net, choose_engine, make_net
from adalin.models import make_model
from adalin.rl._environment import transition_size
from adalin.runs import Run
from adalin.settings import SACSettings

PREFIX = "sac-"
"""Beginning of the benchmark's name; the environment's follows."""

SACRun = Run[SACSettings]
"""A run of SAC in an environment."""


def environment_of(run: SACRun) -> str:
    """The name of a run's environment."""
    return run.benchmark.removeprefix(PREFIX)


def kept_transitions(run: SACRun) -> int:
    """How many transitions the replay buffer has room for: no more than are made."""
    return min(run.settings.steps, run.settings.buffer_size)


def buffer_bytes(run: SACRun) -> int:
    """What the replay buffer takes, in memory and on disk."""
    return kept_transitions(run) * 4 * transition_size(environment_of(run))


def make_networks(run: SACRun, observation: int, action: int) -> tuple[Net, list[Net], list[Net]]:
    """Actor, critics and targets on their engines, newly initialised from the run's seed."""
    with seeded(run.seed, "init"):
        actor = make_network(run, observation, 2 * action)
        critics = [make_network(run, observation + action, 1) for _ in range(2)]
    targets = [make_network(run, observation + action, 1) for _ in range(2)]  # SAC makes them copies of the critics
    rules = run.parsed_method.rules
    nets = [make_net(one, rules=rules) for one in (actor, *critics, *targets)]
    return nets[0], nets[1:3], nets[3:]


def check_network(run: SACRun) -> Engine:
    """The engine of a run's networks; raises ValueError if they cannot have the method's activation."""
    with seeded(run.seed, "init"):
        network, x = make_network(run, 1, 1), torch.linspace(-3, 3, 32)[:, None]
        with torch.no_grad():
            is_repeatable = torch.allclose(network(x), network(x), rtol=0, atol=0, equal_nan=True)
    if not is_repeatable or next(network.buffers(), None) is not None:
        raise ValueError(f"SAC saves parameters only, and {run.method} draws random numbers or has buffers")
    return choose_engine(network, rules=run.parsed_method.rules)


def make_network(run: SACRun, inputs: int, outputs: int) -> nn.Sequential:
    """One of a run's networks, newly initialised from torch's random state."""
    plain = make_model("mlp-256", (inputs,), outputs, run.parsed_method.activation)
    if not all(parameter.requires_grad for parameter in plain.parameters()):
        raise ValueError(f"SAC trains all parameters, and {run.method} has some that are frozen")
    layers: list[nn.Module] = []
    assert isinstance(plain, nn.Sequential)
    *hidden, output = list(plain)[1:]  # without Flatten
    for layer in hidden:
        layers.append(layer)
        if run.settings.layer_norm and isinstance(layer, nn.Linear):
            layers.append(nn.LayerNorm(layer.out_features))
    return nn.Sequential(*layers, output)
