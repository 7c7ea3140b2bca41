"""CReLU, deep Fourier features, interpolation, parameter groups, and the registry by name."""

import copy
import math
import re

import pytest
import torch
from torch import nn

from adalin import (
    AdaLin,
    CReLU,
    DeepFourier,
    Interpolation,
    activations,
    convert,
    make_activation,
    param_groups,
    register_activation,
)


@pytest.mark.parametrize(("shape", "dim"), [((4, 6), 1), ((4, 6, 5, 5), 1), ((4, 6, 5), -1), ((6,), 1)])
def test_crelu_and_fourier_double_the_width_on_any_axis(shape, dim):
    x = torch.randn(shape)
    axis = 0 if len(shape) == 1 else dim
    first, second = CReLU(dim=dim)(x).chunk(2, axis)
    assert torch.equal(first, x.clamp_min(0))
    assert torch.equal(second, (-x).clamp_min(0))
    first, second = DeepFourier(dim=dim)(x).chunk(2, axis)
    assert torch.equal(first, x.sin())
    assert torch.equal(second, x.cos())


def test_interpolation_mixes_the_base_and_the_identity():
    layer = Interpolation("tanh", 3, dtype=torch.float64)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    share = torch.sigmoid(layer.alpha)
    torch.testing.assert_close(layer(x), share * x + (1 - share) * torch.tanh(x))
    assert torch.autograd.gradcheck(
        lambda x, alpha: torch.func.functional_call(layer, {"alpha": alpha}, x), (x, layer.alpha)
    )


def test_param_groups_keep_alpha_out_of_weight_decay():
    shared = nn.Parameter(torch.rand(1))
    model = nn.Sequential(
        nn.Linear(4, 8), AdaLin("relu", 8), Interpolation("relu", 8), AdaLin(alpha=shared), AdaLin(alpha=shared)
    )
    decayed, kept = param_groups(model, weight_decay=0.5, lr=0.1)
    assert decayed["weight_decay"] == 0.5
    assert kept["weight_decay"] == 0.0
    assert [id(p) for p in kept["params"]] == [id(model[1].alpha), id(model[2].alpha), id(shared)]
    for optimizer in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop):
        twin = copy.deepcopy(model)
        stepper = optimizer(param_groups(twin, weight_decay=0.5, lr=0.1))
        for parameter in twin.parameters():
            parameter.grad = torch.zeros_like(parameter)
        stepper.step()
        assert torch.equal(twin[1].alpha, model[1].alpha)
        assert not torch.equal(twin[0].weight, model[0].weight)


def test_param_groups_leave_out_a_group_with_nothing_in_it():
    (group,) = param_groups(nn.Linear(2, 2), weight_decay=0.1)
    assert group["weight_decay"] == 0.1


@pytest.mark.parametrize("name", activations())
def test_every_registered_activation_trains_keeps_dtype_and_copies(name):
    entry = activations()[name]
    for dtype in (torch.float32, torch.float64):
        act = make_activation(name, 6, dim=1)
        net = nn.Sequential(nn.Linear(4, 6), act, nn.Linear(6 * entry.expansion, 2)).to(dtype)
        x = torch.randn(5, 4, dtype=dtype)
        y = net(x)
        y.sum().backward()
        assert y.dtype == dtype
        y = net.eval()(x)  # some draw random numbers while they train
        assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
        assert torch.equal(copy.deepcopy(net)(x), y)
    assert entry.summary


@pytest.mark.parametrize("name", activations())
def test_every_registered_activation_compiles(name):
    torch._dynamo.reset()
    act, x = make_activation(name, 6).eval(), torch.randn(5, 6)
    torch.testing.assert_close(torch.compile(act, fullgraph=True, backend="aot_eager")(x), act(x))


@pytest.mark.parametrize("name", activations())
def test_every_registered_activation_can_be_built_without_a_width(name):
    make_activation(name)(torch.randn(5, 6))


@pytest.mark.parametrize("name", activations())
def test_every_registered_activation_accepts_inplace_and_leaves_its_input(name):
    x = torch.randn(5, 6)
    before = x.clone()
    make_activation(name, 6, inplace=True)(x)
    assert torch.equal(x, before)


def test_options_reach_the_layer():
    assert make_activation("adalin-gelu", 3, gate="linear").gate.__name__ == "linear"
    assert make_activation("adalin", 3, base="tanh").base.name == "tanh"
    assert torch.equal(make_activation("leaky_relu", negative_slope=0.5)(torch.tensor([-2.0])), torch.tensor([-1.0]))
    assert make_activation("prelu", 3).alpha.tolist() == [0.25] * 3


def test_a_class_or_callable_serves_in_place_of_a_name():
    assert isinstance(make_activation(nn.ReLU), nn.ReLU)
    assert make_activation(AdaLin, 3).alpha.shape == (3,)
    assert isinstance(make_activation(lambda: nn.ELU(0.5)), nn.ELU)


@pytest.mark.usefixtures("forget")
@pytest.mark.parametrize("made", [None, 5, nn.ReLU])
def test_ones_own_activation_that_is_no_module_is_told_when_it_is_made(made):
    register_activation("mine", lambda width, dim: made, "an example")
    with pytest.raises(TypeError, match=r"^the activation 'mine' must be an nn.Module, and its function made "):
        make_activation("mine", 3)


@pytest.mark.usefixtures("forget")
def test_ones_own_activation_can_be_registered():
    register_activation("cube", lambda width, dim: nn.ELU(), "an example")
    assert isinstance(make_activation("cube", 3), nn.ELU)
    with pytest.raises(ValueError, match="registered already"):
        register_activation("cube", lambda width, dim: nn.ELU(), "an example")


def build(width, dim):
    return nn.ELU()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"build": None}, "an activation needs a callable that makes it, not None"),
        ({"summary": None}, "an activation needs a summary of one line, not None"),
        ({"expansion": 0}, "the expansion of an activation must be a whole number >= 1, not 0"),
        ({"expansion": 1.5}, "the expansion of an activation must be a whole number >= 1, not 1.5"),
        ({"options": {"a": None}}, "option 'a' of an activation needs a default: a text, a number or a bool"),
        ({"options": {"a b": 1}}, "option 'a b' of an activation needs a default: a text, a number or a bool"),
        ({"expansion": True}, "the expansion of an activation must be a whole number >= 1, not True"),
        ({"name": "a/b"}, "an activation's name is made of letters, digits, "),
    ],
)
def test_nonsense_is_refused_when_it_is_registered(changed, expected):
    arguments = {"name": "own", "build": build, "summary": "mine"} | changed
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}") as error:
        register_activation(**arguments)
    assert "\n" not in str(error.value)
    assert "own" not in activations()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("softplus", {"beta": -1}, "the beta of softplus must be a positive finite number, not -1"),
        ("softplus", {"threshold": math.nan}, "the threshold of softplus must be a number, not nan"),
        (
            "leaky_relu",
            {"negative_slope": math.nan},
            "the negative_slope of leaky_relu must be a finite number, not nan",
        ),
        ("leaky_relu", {"negative_slope": "x"}, "the negative_slope of leaky_relu must be a finite number, not 'x'"),
        ("elu", {"alpha": math.inf}, "the alpha of elu must be a finite number, not inf"),
        ("celu", {"alpha": 0}, "the alpha of celu must be a positive finite number, not 0"),
        ("hardtanh", {"min_val": 1.0}, "the min_val of hardtanh must be below its max_val, not 1.0 and 1.0"),
        ("adalin", {"dim": "x"}, "dim must be the number of an axis, not 'x'"),
        ("adalin-tanh", {"init": math.inf}, "init must be a finite number or a callable that fills a tensor, not inf"),
    ],
)
def test_options_that_make_no_sense_are_refused(name, options, expected):
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        make_activation(name, 3, **options)


@pytest.mark.parametrize("wrong", [None, 5, nn.Parameter(torch.zeros(2))])
def test_what_is_no_activation_is_refused(wrong):
    with pytest.raises(TypeError, match=r"^an activation is a registered name, a class or a callable, not "):
        make_activation(wrong)


@pytest.mark.parametrize("weight_decay", [math.nan, math.inf, -1, "0.1", None])
def test_a_weight_decay_that_makes_no_sense_is_refused(weight_decay):
    with pytest.raises(ValueError, match=f"^weight_decay must be a finite number >= 0, not {weight_decay!r}$"):
        param_groups(nn.Linear(2, 2), weight_decay)


def test_param_groups_of_what_is_no_model_are_refused():
    conversion = convert(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)))
    for wrong, expected in (
        (None, "param_groups needs an nn.Module, not NoneType"),
        ([], "param_groups needs an nn.Module, not list"),
        (conversion, "param_groups needs an nn.Module, not Conversion: give its .model"),
    ):
        with pytest.raises(TypeError, match=f"^{expected}$"):
            param_groups(wrong, 0.1)


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"unknown activation 'adalin-tan' \(did you mean 'adalin-tanh'\?\)"):
        make_activation("adalin-tan")
    with pytest.raises(ValueError, match="base 'relu': got an unexpected keyword argument 'slope'"):
        make_activation("relu", slope=3)


def test_alphas_that_do_not_learn_stay_so_when_their_width_comes_with_the_first_input():
    layer = make_activation("adalin", learned=False, init=0.5)
    layer(torch.randn(5, 6))
    assert not layer.alpha.requires_grad
    torch.testing.assert_close(layer.alpha, torch.full((6,), 0.5))
