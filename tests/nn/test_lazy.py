"""A layer without a width takes it from its first input."""

import copy
import pickle

import pytest
import torch
from torch import nn

from adalin import AdaLin, Interpolation, param_groups


@pytest.mark.parametrize("layer", [AdaLin, Interpolation])
@pytest.mark.parametrize(("shape", "dim"), [((4, 7), 1), ((4, 7, 5, 5), 1), ((4, 9, 7), -1), ((4, 7, 3, 3, 3), 1)])
def test_width_and_axis_come_from_the_first_input(layer, shape, dim):
    lazy = layer()
    assert lazy(torch.randn(shape)).shape == shape
    assert lazy.alpha.shape == (7,)
    assert lazy.dim == dim


def test_a_given_axis_is_kept():
    lazy = AdaLin(dim=1)
    lazy(torch.randn(4, 9, 7))
    assert lazy.alpha.shape == (9,)


def test_the_class_itself_serves_as_an_activation_factory():
    for build in (AdaLin, lambda: AdaLin(inplace=True)):
        net = nn.Sequential(nn.Linear(3, 5), build(), nn.Linear(5, 2))
        assert net(torch.randn(4, 3)).shape == (4, 2)


def test_an_optimizer_built_before_the_first_forward_trains_alpha():
    net = nn.Sequential(nn.Linear(3, 5), AdaLin(), nn.Linear(5, 2))
    optimizer = torch.optim.Adam(param_groups(net, weight_decay=0.1), lr=0.1)
    net(torch.randn(4, 3)).sum().backward()
    before = net[1].alpha.detach().clone()
    optimizer.step()
    assert not torch.equal(net[1].alpha, before)


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "state_dict"])
def test_copies_made_before_the_first_forward_get_the_same_alphas(how):
    net = AdaLin("tanh")
    if how == "deepcopy":
        target = copy.deepcopy(net)
    elif how == "pickle":
        target = pickle.loads(pickle.dumps(net))
    else:
        target = AdaLin("tanh")
        target.load_state_dict(net.state_dict())
    x = torch.randn(4, 7)
    assert torch.equal(net(x), target(x))


def test_the_alphas_do_not_depend_on_what_else_draws_random_numbers():
    def alphas(draws):
        torch.manual_seed(1)
        lazy = AdaLin()
        torch.rand(draws)
        state = torch.get_rng_state()
        lazy(torch.ones(4, 7))
        assert torch.equal(torch.get_rng_state(), state)
        return lazy.alpha

    assert torch.equal(alphas(0), alphas(5))


def test_two_layers_get_different_alphas():
    x = torch.randn(4, 7)
    one, other = AdaLin(), AdaLin()
    one(x), other(x)
    assert not torch.equal(one.alpha, other.alpha)


def test_repr_says_what_is_not_known_yet():
    lazy = AdaLin("gelu")
    assert repr(lazy) == "AdaLin(gelu, num_parameters=?, dim=None, gate=cosine)"
    lazy(torch.randn(4, 7))
    assert repr(lazy) == "AdaLin(gelu, num_parameters=7, dim=1, gate=cosine)"
