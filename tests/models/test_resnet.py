"""ResNet-18: torchvision's names, the activation under study in 17 places, and room for two outputs per channel."""

from collections.abc import Iterator
from math import prod

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin.methods import Method, methods
from adalin.metrics import NetworkOnData
from adalin.models import INITS, make_model, models, resnet18

METHODS = list(methods())
DOUBLED = ["crelu", "fourier"]
SITES = ["act1", *(f"layer{stage}.{block}.act{act}" for stage in range(1, 5) for block in (0, 1) for act in (1, 2))]
UNITS = [64, *(64 * 2**stage for stage in range(4) for _ in range(4))]
"""Channels at each site."""


def make(method: str = "baseline", *, width: int = 4, outputs: int = 5) -> nn.Sequential:
    return resnet18(3, outputs, Method.parse(method).activation, width=width)


def registered(model: str, method: str) -> nn.Module:
    with torch.device("meta"):
        return make_model(model, (3, 32, 32), 100, Method.parse(method).activation)


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def images(count: int = 4, *, pixels: int = 8, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(count, 3, pixels, pixels, dtype=dtype)


# names and sizes


def convolution(name: str, inputs: int, outputs: int, kernel: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (outputs, inputs, kernel, kernel)


def batch_norm(name: str, channels: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for part in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{part}", (channels,)
    yield f"{name}.num_batches_tracked", ()


def torchvisions(stem: int, outputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The state dict of torchvision's resnet18, in its order; its own stem is 7 pixels wide."""
    yield from convolution("conv1", 3, 64, stem)
    yield from batch_norm("bn1", 64)
    inputs = 64
    for stage, channels in enumerate((64, 128, 256, 512), start=1):
        for block in (0, 1):
            name = f"layer{stage}.{block}"
            yield from convolution(f"{name}.conv1", inputs, channels, 3)
            yield from batch_norm(f"{name}.bn1", channels)
            yield from convolution(f"{name}.conv2", channels, channels, 3)
            yield from batch_norm(f"{name}.bn2", channels)
            if inputs != channels:
                yield from convolution(f"{name}.downsample.0", inputs, channels, 1)
                yield from batch_norm(f"{name}.downsample.1", channels)
            inputs = channels
    yield "fc.weight", (outputs, 512)
    yield "fc.bias", (outputs,)


def test_names_shapes_and_their_order_are_torchvisions() -> None:
    expected = list(torchvisions(3, 100))
    assert len(expected) == 122
    state = registered("resnet18", "baseline").state_dict()
    assert [(name, tuple(tensor.shape)) for name, tensor in state.items()] == expected


def test_torchvisions_weights_load_but_for_the_stem_and_the_classes() -> None:
    others = ("conv1.weight", "fc.weight", "fc.bias")
    theirs = {name: torch.full(shape, 2.0) for name, shape in torchvisions(7, 1000) if name not in others}
    model = resnet18(3, 100, Method.parse("adalin").activation)
    keys = model.load_state_dict(theirs, strict=False)
    assert keys.unexpected_keys == []
    assert sorted(keys.missing_keys) == sorted([*others, *(f"{site}.alpha" for site in SITES)])
    assert (model.state_dict()["layer4.1.bn2.running_var"] == 2).all()


@pytest.mark.parametrize(
    ("model", "method", "parameters"),
    [
        ("resnet18", "baseline", 11_220_132),
        ("resnet18", "linear", 11_220_132),
        ("resnet18", "adalin", 11_220_132 + 3_904),
        ("resnet18", "prelu", 11_220_132 + 3_904),
        ("resnet18", "adalin:granularity=layer", 11_220_132 + 17),
        ("resnet18", "adalin:granularity=network", 11_220_132 + 1),
        ("resnet18", "crelu", 5_812_868),
        ("resnet18", "fourier", 5_812_868),
        ("resnet18-narrow", "baseline", 182_252),
        ("resnet18-narrow", "adalin", 182_252 + 488),
        ("resnet18-narrow", "crelu", 97_256),
        ("resnet18-narrow", "fourier", 97_256),
    ],
)
def test_a_network_has_so_many_parameters(model: str, method: str, parameters: int) -> None:
    assert model in models()
    assert size(registered(model, method)) == parameters


def test_there_is_an_alpha_for_each_channel_of_each_activation() -> None:
    named = registered("resnet18", "adalin").named_parameters()
    alphas = {name: parameter.numel() for name, parameter in named if name.endswith("alpha")}
    assert alphas == {f"{site}.alpha": units for site, units in zip(SITES, UNITS, strict=True)}
    assert sum(alphas.values()) == 3_904


# what it computes


def reference(state: dict[str, Tensor], x: Tensor, activation: str) -> Tensor:
    """The network in functions only, with the statistics of the batch."""

    def norm(x: Tensor, name: str) -> Tensor:
        return F.batch_norm(x, None, None, state[f"{name}.weight"], state[f"{name}.bias"], training=True)

    def phi(x: Tensor, name: str) -> Tensor:
        if activation == "crelu":
            return torch.cat((x.relu(), (-x).relu()), 1)
        if activation == "fourier":
            return torch.cat((x.sin(), x.cos()), 1)
        return F.prelu(x, state[f"{name}.alpha"]) if activation == "adalin" else x.relu()

    x = phi(norm(F.conv2d(x, state["conv1.weight"], padding=1), "bn1"), "act1")
    for stage in range(1, 5):
        for block in (0, 1):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            h = F.conv2d(x, state[f"{name}.conv1.weight"], stride=stride, padding=1)
            h = phi(norm(h, f"{name}.bn1"), f"{name}.act1")
            h = norm(F.conv2d(h, state[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
            if f"{name}.downsample.0.weight" in state:
                x = norm(F.conv2d(x, state[f"{name}.downsample.0.weight"], stride=stride), f"{name}.downsample.1")
            x = phi(h + x, f"{name}.act2")
    return F.linear(x.mean((2, 3)), state["fc.weight"], state["fc.bias"])


@pytest.mark.parametrize("method", ["baseline", "adalin", *DOUBLED])
@pytest.mark.parametrize("pixels", [8, 9, 16])
def test_the_network_is_its_formula(method: str, pixels: int) -> None:
    model, x = make(method).double(), images(pixels=pixels, dtype=torch.float64)
    torch.testing.assert_close(model(x), reference(model.state_dict(), x, method))


@pytest.mark.parametrize("method", METHODS)
def test_a_step_of_every_method_reaches_every_parameter(method: str) -> None:
    model = make_model("resnet18-narrow", (3, 8, 8), 10, Method.parse(method).activation)
    outputs = model(images(6))
    assert outputs.shape == (6, 10)
    outputs.square().sum().backward()
    untouched = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert untouched == []
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("method", METHODS)
def test_metrics_see_the_seventeen_activations_and_nothing_else(method: str) -> None:
    names = [layer.name for layer in NetworkOnData(make(method), images()).layers]
    assert [name.removesuffix(".1") for name in names] == SITES, "where a norm comes first, the activation is second"


def test_adalin_with_alpha_zero_is_the_plain_network_to_the_bit() -> None:
    plain, ours, x = make("baseline"), make("adalin"), images()
    ours.load_state_dict(plain.state_dict(), strict=False)
    for name, parameter in ours.named_parameters():
        if name.endswith("alpha"):
            nn.init.zeros_(parameter)
    gradients = []
    for model in (plain, ours):
        assert torch.equal(model(x), plain(x))
        model.zero_grad()
        model(x).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if not name.endswith("alpha")})
    assert gradients[0].keys() == gradients[1].keys()
    assert all(torch.equal(gradient, gradients[1][name]) for name, gradient in gradients[0].items())


def test_the_two_activations_of_a_block_are_independent() -> None:
    model = make("adalin")
    assert len({id(model.get_submodule(site)) for site in SITES}) == 17
    assert len({id(model.get_submodule(site).alpha) for site in SITES}) == 17
    block = model.layer3[1]
    before = block.act2.alpha.clone()
    with torch.no_grad():
        block.act1.alpha.fill_(7.0)
    assert torch.equal(block.act2.alpha, before)


@pytest.mark.parametrize("method", ["adalin", "crelu"])
def test_channels_last_gives_the_same(method: str) -> None:
    model, x = make(method).double(), images(dtype=torch.float64)
    expected = model(x)
    model = model.to(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x.contiguous(memory_format=torch.channels_last)), expected)


def test_training_moves_the_running_statistics_and_evaluation_does_not() -> None:
    model = make("adalin")
    buffers = [name for name, _ in model.named_buffers()]
    assert len(buffers) == 3 * 20
    assert set(buffers) <= set(model.state_dict())
    model(images())
    moved = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert all(moved[name] == 1 for name in buffers if name.endswith("num_batches_tracked"))
    assert all(moved[name].any() for name in buffers if name.endswith("running_mean"))
    model.eval()(images())
    assert all(torch.equal(buffer, moved[name]) for name, buffer in model.named_buffers())


# first weights


def test_weights_come_from_torchs_default_initialisation() -> None:
    model = make(width=16)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = prod(module.weight.shape[1:]) ** -0.5
            assert 0.9 * bound < module.weight.abs().max() <= bound
        if isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


@pytest.mark.parametrize("init", list(INITS))
def test_an_initialisation_draws_everything_anew_and_forgets_the_running_statistics(init: str) -> None:
    used, new = make("adalin"), make("adalin")
    used(images())
    for model in (used, new):
        torch.manual_seed(3)
        INITS.get(init)(model)
    assert all(torch.equal(tensor, new.state_dict()[name]) for name, tensor in used.state_dict().items())


# two outputs per channel


def outputs_of(model: nn.Module, kind: type[nn.Module]) -> dict[str, tuple[int, ...]]:
    """The shapes of what modules of a class give."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, module in model.named_modules():
        if isinstance(module, kind):
            module.register_forward_hook(lambda _, __, output, name=name: shapes.update({name: tuple(output.shape)}))
    model(images())
    return shapes


@pytest.mark.parametrize("method", DOUBLED)
def test_two_outputs_per_channel_halve_the_channels_of_convolutions_and_leave_those_after_activations(
    method: str,
) -> None:
    plain, doubled = make(), make(method)
    activations = [type(model.act1) for model in (plain, doubled)]
    assert outputs_of(plain, activations[0]) == outputs_of(doubled, activations[1])
    assert len(outputs_of(doubled, activations[1])) == 17
    full, half = (outputs_of(model, nn.Conv2d) for model in (plain, doubled))
    assert {name: (n, channels // 2, h, w) for name, (n, channels, h, w) in full.items()}.items() <= half.items()
    # The shortcuts that were identities have a convolution now.
    assert sorted(half.keys() - full.keys()) == [
        "layer1.0.downsample.0",
        *(f"layer{stage}.1.downsample.0" for stage in range(1, 5)),
    ]
    assert doubled.fc.in_features == plain.fc.in_features


@pytest.mark.parametrize("model", ["resnet18", "resnet18-narrow"])
@pytest.mark.parametrize("method", DOUBLED)
@pytest.mark.parametrize("match", ["half", "params"])
def test_widths_that_shortcuts_do_not_allow_are_refused_in_one_line(model: str, method: str, match: str) -> None:
    told = (
        f"^a resnet18 with {method} has half the channels in its blocks already: match is 'units' there, not '{match}'$"
    )
    with pytest.raises(ValueError, match=told):
        make_model(model, (3, 32, 32), 100, Method.parse(f"{method}:match={match}").activation)


def test_an_odd_width_is_refused_where_it_cannot_be_halved() -> None:
    with pytest.raises(ValueError, match=r"^the width of a resnet18 with crelu is a multiple of 2, not 7$"):
        make("crelu", width=7)
    assert make("adalin", width=7)(images()).shape == (4, 5)


# images


@pytest.mark.parametrize("shape", [(784,), (28, 28)])
def test_inputs_that_are_no_images_are_refused_in_one_line(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^a resnet18 needs images, not inputs of shape \("):
        make_model("resnet18", shape, 10, Method().activation)


def test_images_of_any_size_and_number_of_channels_will_do() -> None:
    for shape in ((1, 9, 9), (3, 12, 8), (3, 33, 33)):
        model = make_model("resnet18-narrow", shape, 10, Method().activation)
        assert model(torch.zeros(2, *shape)).shape == (2, 10)
