"""convert: the same network to the bit at alpha = 0, with one AdaLin for every place that calls an activation."""

import copy
import functools
import inspect
import math
import random
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin import AdaLin, Conversion, CReLU, convert, make_activation

IN_PLACE = "works in place on a tensor that others may read: set inplace=False first"


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout2d(0.2)
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(54, 7), nn.BatchNorm1d(7), nn.ELU(0.5), nn.Linear(7, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


class BasicBlock(nn.Module):
    """torchvision's: one ReLU called twice."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(BasicBlock(3, 4), BasicBlock(4, 4))
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.layers(x), 1), 1))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc1 = nn.Linear(4, 5)
        self.fc2 = nn.Linear(5, 6)
        self.fc3 = nn.Linear(6, 7)
        self.fc4 = nn.Linear(7, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x), inplace=True).mean((2, 3))
        x = self.fc1(x).relu_()
        x = F.gelu(self.fc2(x), approximate="tanh")
        x = F.dropout(F.leaky_relu(self.fc3(x), 0.2), 0.5, training=self.training)
        x = torch.tanh(self.fc4(x))
        return self.out(x)


class Modal(nn.Module):
    """Python decides by mode, by optional argument, and in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor, mask: Tensor | None = None, *, double: bool = False, scale: float = 1.0) -> Tensor:
        for layer in self.layers:
            x = F.silu(layer(x))
            if self.training:
                x = x + 0.1 * torch.rand_like(x)
        if mask is not None:
            x = x * mask
        return self.head(2 * x if double else x) * scale


class PreNormBlock(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.reduce, self.expand = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)
        self.act, self.gate = nn.SiLU(), nn.Sigmoid()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = x * self.gate(self.expand(self.act(self.reduce(x.mean((2, 3), keepdim=True)))))
        return self.fc(x.mean((2, 3)))


class Shared(nn.Module):
    """One activation object in three places."""

    def __init__(self) -> None:
        super().__init__()
        act = nn.Tanh()
        self.first = nn.Sequential(nn.Linear(4, 5), act, nn.Linear(5, 6), act)
        self.act = act
        self.second = nn.Linear(6, 7)
        self.out = nn.Linear(7, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.act(self.second(self.first(x))))


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(4, 5), nn.Linear(5, 6), nn.Linear(6, 2)
        self.activation = F.relu
        self.smooth = functools.partial(F.gelu, approximate="tanh")

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(self.smooth(self.fc2(self.activation(self.fc1(x)))))


class InPlace(nn.Module):
    """Statements whose result is in their argument."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.act = nn.Linear(4, 5), nn.Linear(5, 5), nn.ReLU(inplace=True)
        self.out = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        F.relu_(x)
        x = self.fc2(x)
        y = self.act(x)
        return self.out(x + y)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2))


def images() -> Tensor:
    return torch.randn(4, 3, 8, 8)


def vectors() -> Tensor:
    return torch.randn(4, 4)


def sequences() -> Tensor:
    return torch.randn(4, 3, 8)


# model, input, and for each site its base, width and axis
MODELS = {
    "mlp": (mlp, vectors, [("relu", 5, -1), ("tanh", 6, -1)]),
    "cnn": (ConvNet, images, [("relu", 6, -3), ("elu", 7, -1)]),
    "resnet": (ResNet, images, [("relu", 4, -3)] * 4),
    "functional": (
        Functional,
        images,
        [("relu", 4, -3), ("relu", 5, -1), ("gelu", 6, -1), ("leaky_relu", 7, -1), ("tanh", 8, -1)],
    ),
    "modal": (Modal, vectors, [("silu", 4, -1)] * 3),
    "transformer": (PreNormBlock, sequences, [("gelu", 16, -1)]),
    "squeeze-excite": (SqueezeExcite, images, [("silu", 2, -3)]),
    "shared": (Shared, vectors, [("tanh", 7, -1), ("tanh", 5, -1), ("tanh", 6, -1)]),
    "attribute": (Attribute, vectors, [("relu", 5, -1), ("gelu", 6, -1)]),
    "in place": (InPlace, vectors, [("relu", 5, -1), ("relu", 5, -1)]),
}
dynamo_noise = pytest.mark.filterwarnings("ignore:.*(should not be instantiated|torch.jit.script)")
every_model = pytest.mark.parametrize(("make", "inputs", "expected"), MODELS.values(), ids=MODELS.keys())


def run(model: nn.Module, *args: Tensor, **kwargs: object) -> Tensor:
    torch.manual_seed(7)
    output: Tensor = model(*(argument.clone() for argument in args), **kwargs)
    return output


def assert_same(original: nn.Module, converted: nn.Module, x: Tensor, **kwargs: object) -> None:
    """In train mode, in eval mode, and in train mode again, with equal buffers at the end."""
    original = copy.deepcopy(original)
    for training in (True, False, True):
        original.train(training)
        converted.train(training)
        assert torch.equal(run(original, x, **kwargs), run(converted, x, **kwargs))
    buffers = dict(converted.named_buffers())
    assert all(torch.equal(buffers[name], buffer) for name, buffer in original.named_buffers())


@every_model
def test_at_alpha_zero_the_model_is_the_same_to_the_bit_in_both_modes(make, inputs, expected) -> None:
    original = make()
    converted = convert(original, inplace=False, init=0.0).model
    assert_same(original, converted, inputs())


@every_model
def test_sites_have_the_base_width_and_axis_of_their_layers(make, inputs, expected) -> None:
    conversion = convert(make())
    assert [(site.base, site.width, site.dim) for site in conversion.sites] == expected
    assert conversion.added == sum(width for _, width, _ in expected)
    layers = dict(conversion.model.named_modules())
    assert all(layers[site.name].alpha.numel() == site.alphas == site.width for site in conversion.sites)


@every_model
def test_training_moves_the_alphas_of_every_site(make, inputs, expected) -> None:
    model = convert(make()).model
    alphas = {name: p for name, p in model.named_parameters() if name.endswith("alpha")}
    before = {name: alpha.detach().clone() for name, alpha in alphas.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(inputs()).square().sum().backward()
        optimizer.step()
    assert len(alphas) == len(expected)
    assert all(not torch.equal(alphas[name], before[name]) for name in alphas)


@every_model
def test_class_and_state_dict_keys_stay(make, inputs, expected) -> None:
    original = make()
    conversion = convert(original, inplace=False)
    assert isinstance(conversion.model, type(original))
    new_keys = conversion.model.state_dict().keys() - original.state_dict().keys()
    assert original.state_dict().keys() <= conversion.model.state_dict().keys()
    assert new_keys == {f"{site.name}.alpha" for site in conversion.sites}
    missing, unexpected = conversion.model.load_state_dict(original.state_dict(), strict=False)
    assert set(missing) == new_keys
    assert not unexpected


@every_model
def test_a_deep_copy_is_independent(make, inputs, expected) -> None:
    model, x = convert(make()).model.eval(), inputs()
    twin = copy.deepcopy(model)
    assert type(twin) is type(model)
    before = run(model, x)
    assert torch.equal(run(twin, x), before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1.0)
    assert torch.equal(run(model, x), before)
    assert not torch.equal(run(twin, x), before)


@every_model
def test_converting_twice_changes_nothing(make, inputs, expected) -> None:
    model, x = convert(make()).model.eval(), inputs()
    before, keys = run(model, x), model.state_dict().keys()
    again = convert(model)
    assert again.sites == ()
    assert again.added == 0
    assert again.overhead == 0
    assert model.state_dict().keys() == keys
    assert torch.equal(run(model, x), before)


@dynamo_noise
@pytest.mark.parametrize("name", ["functional", "resnet", "modal"])
def test_torch_compile_without_graph_breaks_equals_eager(name: str) -> None:
    make, inputs, _ = MODELS[name]
    model, x = convert(make()).model.eval(), inputs()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(run(compiled, x), run(model, x))


@pytest.mark.parametrize("name", ["functional", "resnet", "modal", "transformer"])
def test_torch_export_equals_eager(name: str) -> None:
    make, inputs, _ = MODELS[name]
    model, x = convert(make()).model.eval(), inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside torch.export
        program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.parametrize("given", [{"mask": torch.full((4, 4), 0.5)}, {"mask": 0.5}, {"double": True}, {"scale": 3.0}])
def test_optional_arguments_keep_their_meaning(given: dict[str, object]) -> None:
    original = Modal()
    assert_same(original, convert(original, inplace=False, init=0.0).model, vectors(), **given)


def test_an_optional_argument_that_decides_by_its_value_is_refused_at_the_call() -> None:
    class Choosy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Tensor, how: str = "once") -> Tensor:
            x = self.fc(F.relu(self.fc(x)))
            return 2 * x if how == "twice" else x

    original = Choosy()
    model = convert(original, inplace=False, init=0.0).model
    assert_same(original, model, vectors())
    with pytest.raises(TypeError, match="the converted forward of Choosy was not made for these optional arguments"):
        model(vectors(), how="twice")


@pytest.mark.parametrize("activation", ["relu", "gelu", nn.ReLU(), torch.tanh])
@pytest.mark.parametrize("batch_first", [True, False])
def test_torch_transformer_layers_are_converted(activation, batch_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1, activation, batch_first=batch_first)
    original = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.width, site.dim) for site in conversion.sites] == [(16, -1)] * 2
    assert_same(original, conversion.model, sequences())  # in eval too: gradients are on, so nothing is fused


def test_the_fused_path_of_torch_transformer_layers_does_not_bypass_the_alphas() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = sequences()
    with torch.no_grad():
        fused = layer(x)
        torch.testing.assert_close(convert(layer, inplace=False, init=0.0).model(x), fused)
        assert not torch.allclose(convert(layer, init=0.5).model(x), fused)


def test_decoder_layers_are_converted() -> None:
    original = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.name, site.width, site.dim) for site in conversion.sites] == [("activation", 16, -1)]
    memory = sequences()
    assert_same(original, conversion.model, sequences(), memory=memory)


def test_batched_and_unbatched_inputs_both_work() -> None:
    model = convert(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 2, 3))).model
    x = images()
    torch.testing.assert_close(model(x)[0], model(x[0]))


def test_a_reused_module_becomes_independent_layers() -> None:
    model = convert(ResNet()).model
    block = model.layers[0]
    assert isinstance(block.relu, AdaLin)
    assert isinstance(block.relu_1, AdaLin)
    assert block.relu.alpha is not block.relu_1.alpha
    assert type(model.layers[0]) is not BasicBlock
    assert type(model) is ResNet  # its own forward needs no change


def test_attributes_are_never_clobbered() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = 3
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(F.relu(self.fc(x))) + self.relu

    conversion = convert(Named())
    assert [site.name for site in conversion.sites] == ["relu_1"]
    assert conversion.model.relu == 3


def test_a_module_that_only_calls_an_activation_is_replaced_whole() -> None:
    class Act(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.leaky_relu(x, 0.3)

    act = Act()
    original = nn.Sequential(nn.Linear(4, 5), act, nn.Linear(5, 6), act, nn.Linear(6, 2))
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.name, site.base, site.width) for site in conversion.sites] == [
        ("1", "leaky_relu", 5),
        ("3", "leaky_relu", 6),
    ]
    assert_same(original, conversion.model, vectors())


def test_the_parts_of_a_hand_written_activation_are_left_alone() -> None:
    class NewGELU(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    model = nn.Sequential(nn.Linear(4, 5), NewGELU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2))
    conversion = convert(model)
    assert [site.name for site in conversion.sites] == ["3"]
    assert conversion.skipped[0][0] == "1.tanh"
    assert "part of a formula" in conversion.skipped[0][1]


def test_gates_are_left_alone_unless_named() -> None:
    conversion = convert(SqueezeExcite())
    assert conversion.skipped == (("gate", "a gate"),)
    original = SqueezeExcite()
    named = convert(original, inplace=False, init=0.0, only="gate")
    assert [(site.name, site.base, site.width, site.dim) for site in named.sites] == [("gate", "sigmoid", 4, -3)]
    assert_same(original, named.model, images())


def test_other_plasticity_layers_are_left_alone() -> None:
    known = make_activation("tanh")
    model = nn.Sequential(nn.Linear(4, 4), CReLU(), nn.Linear(8, 4), known, nn.Linear(4, 2))
    assert [site.name for site in convert(model).sites] == ["3"]


def test_softmax_is_no_candidate() -> None:
    conversion = convert(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2), nn.Softmax(-1)))
    assert [site.name for site in conversion.sites] == ["1"]
    assert conversion.skipped == ()


def test_the_output_activation_is_left_alone_unless_named() -> None:
    def actor() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 2), nn.Tanh()), nn.Dropout(0.1))

    conversion = convert(actor())
    assert [site.name for site in conversion.sites] == ["1"]
    assert conversion.skipped == (("2.1", "gives the model's output"),)
    original = actor()
    named = convert(original, inplace=False, init=0.0, only="2.1")
    assert [(site.name, site.width) for site in named.sites] == [("2.1", 2)]
    assert_same(original, named.model, vectors())


def test_a_functional_output_activation_is_left_alone() -> None:
    class Actor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(4, 5), nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            return 2 * torch.tanh(self.fc2(F.relu(self.fc1(x))))

    conversion = convert(Actor())
    assert [site.base for site in conversion.sites] == ["relu"]
    assert conversion.skipped == (("tanh", "gives the model's output"),)


@pytest.mark.parametrize(("granularity", "added"), [("neuron", 4 + 5 + 6 + 7 + 8), ("layer", 5), ("network", 1)])
def test_granularity_sets_the_number_of_alphas(granularity, added: int) -> None:
    conversion = convert(Functional(), granularity=granularity, init=0.5)
    assert conversion.added == added
    original = Functional()
    parameters = sum(p.numel() for p in original.parameters())
    assert conversion.parameters == parameters
    assert sum(p.numel() for p in conversion.model.parameters()) == parameters + added
    assert conversion.overhead == pytest.approx(100 * added / parameters)
    assert_same(original, convert(original, inplace=False, granularity=granularity, init=0.0).model, images())


def test_a_network_shares_one_parameter() -> None:
    model = convert(mlp(), granularity="network").model
    assert model[1].alpha is model[3].alpha
    model(vectors()).sum().backward()
    assert model[1].alpha.grad is not None
    assert copy.deepcopy(model)[1].alpha is not model[1].alpha


def test_unknown_granularity_is_refused() -> None:
    with pytest.raises(ValueError, match="granularity must be 'neuron', 'layer' or 'network', not 'channel'"):
        convert(mlp(), granularity="channel")  # type: ignore[arg-type]


def test_only_and_skip_take_globs_and_module_names() -> None:
    def names(conversion: Conversion) -> list[str]:
        return [site.name for site in conversion.sites]

    assert names(convert(ResNet(), only="layers.0.*")) == ["layers.0.relu", "layers.0.relu_1"]
    assert names(convert(ResNet(), only="layers.1")) == ["layers.1.relu", "layers.1.relu_1"]
    skipping = convert(ResNet(), skip=["layers.0", "*.relu_1"])
    assert names(skipping) == ["layers.1.relu"]
    assert ("layers.0.relu", "named by skip=") in skipping.skipped


@pytest.mark.parametrize("only", ["layers.0.relu", "layers.0.relu_1"])
def test_one_call_of_a_reused_module_can_be_converted_alone(only: str) -> None:
    original = ResNet()
    conversion = convert(original, inplace=False, init=0.0, only=only)
    assert only in [site.name for site in conversion.sites]
    assert_same(original, conversion.model, images())
    skipping = convert(original, inplace=False, init=0.0, skip=only)
    assert only not in [site.name for site in skipping.sites]
    assert_same(original, skipping.model, images())


def test_a_pattern_that_matches_nothing_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match=r"no activation matches 'encoder.*'; there are: 1, 3"):
        convert(mlp(), only="encoder.*")
    with pytest.raises(ValueError, match="no activation matches 'decoder'"):
        convert(mlp(), skip=["1", "decoder"])


def test_nothing_to_convert_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^nothing to convert in Linear: it calls no activation"):
        convert(nn.Linear(2, 2))
    with pytest.raises(
        ValueError, match=r"^nothing to convert in Sequential: 1 is left alone \(gives the model's output\)"
    ):
        convert(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))


@dynamo_noise
def test_what_cannot_be_converted_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"^ReLU is itself an activation: use AdaLin\('relu'\) in its place$"):
        convert(nn.ReLU())
    with pytest.raises(ValueError, match=r"is compiled: convert the model before torch.compile"):
        convert(torch.compile(mlp()))
    compiled = mlp()
    compiled.compile()
    with pytest.raises(ValueError, match=r"is compiled: convert the model before torch.compile"):
        convert(compiled)
    with pytest.raises(ValueError, match="wraps the model: convert the model before wrapping it"):
        convert(nn.DataParallel(mlp()))
    with pytest.raises(TypeError, match=r"convert takes an nn.Module, not function"):
        convert(F.relu)  # type: ignore[arg-type]


@dynamo_noise
def test_a_script_module_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is a ScriptModule, whose code is fixed: convert the model before torch.jit"):
        convert(torch.jit.script(mlp()))


class Untraceable(nn.Module):
    """Its body decides by values."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 5), nn.Linear(5, 2)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x if x.sum() > 0 else -x)))


class Counting(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.fc2(F.relu(self.fc1(x)))


class Typed(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x if isinstance(x, Tensor) else -x)))


class Blocked(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = -x
        return self.fc2(F.relu(self.fc1(x)))


class Decorated(Untraceable):
    @torch.inference_mode()
    def features(self, x: Tensor) -> Tensor:
        return -x

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(self.features(x))))


class Collecting(Untraceable):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return self.fc2(F.relu(self.fc1(x)))


class Deciding(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x if torch.rand(1) < 0.5 else -x)))


class Constant(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x)) * torch.ones(5))


class Noisy(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x) + torch.rand(5)))


class Random(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x) * random.random()))


class Auxiliary(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(F.relu(self.fc1(x)) - 1) if self.training else F.relu(self.fc1(x)))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Untraceable, "symbolically traced variables cannot be used as inputs to control flow"),
        (Counting, "it changes its attribute calls"),
        (Typed, "it uses isinstance"),
        (Blocked, "it changes the gradient mode or autocast"),
        (Decorated, "it changes the gradient mode or autocast"),
        (Collecting, "it changes its attribute seen"),
        (Deciding, "it draws random numbers"),
        (Noisy, "it draws random numbers"),
        (Constant, "it makes a tensor that does not depend on its input"),
        (Random, "it draws random numbers"),
        (Auxiliary, "it calls other activations in eval mode or with other optional arguments"),
    ],
)
def test_a_forward_that_cannot_be_traced_faithfully_is_refused_and_left_as_it_was(module, reason: str) -> None:
    model = nn.Sequential(module(), nn.ReLU(), nn.Linear(2, 2))
    python, state = random.getstate(), torch.get_rng_state()
    before = {id(m): dict(vars(m)) for m in model.modules()}
    with pytest.raises(ValueError, match="cannot convert") as error:
        convert(model)
    assert str(error.value) == (
        f"cannot convert the calls of relu in the forward of '0' ({module.__name__}), because {reason}: "
        "leave it out with skip='0', or use AdaLin layers in its code"
    )
    assert random.getstate() == python
    assert torch.equal(torch.get_rng_state(), state)
    assert getattr(model[0], "seen", []) == []
    assert {id(m): dict(vars(m)) for m in model.modules()} == before
    assert type(model[0]) is module
    assert [site.name for site in convert(model, skip="0").sites] == ["1"]


def test_skipping_the_models_own_forward_leaves_the_rest() -> None:
    class Whole(Untraceable):
        def __init__(self) -> None:
            super().__init__()
            self.fc2 = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2))

    with pytest.raises(ValueError, match=r"the model \(Whole\), because .* leave it out with skip=''"):
        convert(Whole())
    assert [site.name for site in convert(Whole(), skip="").sites] == ["fc2.1"]
    assert [site.name for site in convert(Whole(), only="fc2").sites] == ["fc2.1"]


def test_the_functions_of_a_graph_module_are_refused_and_its_modules_replaced() -> None:
    with pytest.raises(ValueError, match=r"it is a GraphModule"):
        convert(torch.fx.symbolic_trace(Attribute()))
    original = torch.fx.symbolic_trace(mlp())
    conversion = convert(original, inplace=False, init=0.0)
    assert_same(original, conversion.model, vectors())
    assert [conversion.model.get_submodule(site.name).alpha.numel() for site in conversion.sites] == [5, 6]


def test_weights_used_twice_have_alphas_used_twice() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.out = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 2)

        def forward(self, x: Tensor, **options: object) -> Tensor:
            return self.out(self.block(torch.relu(self.block(x))))

    original = Recurrent()
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.name, site.width) for site in conversion.sites] == [("relu", 4), ("block.1", 4)]
    assert_same(original, conversion.model, vectors())
    with pytest.raises(TypeError, match="unexpected keyword argument 'flag'"):
        conversion.model(vectors(), flag=True)


def test_weights_without_layers_count_as_weights_and_leave_the_width_to_the_first_forward() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel, self.weight = nn.Parameter(torch.randn(6, 3, 2, 2)), nn.Parameter(torch.randn(7, 6))
            self.matrix, self.out = nn.Parameter(torch.randn(7, 5)), nn.Parameter(torch.randn(5, 2))

        def forward(self, x: Tensor) -> Tensor:
            x = F.relu(F.conv2d(x, self.kernel)).mean((2, 3))
            x = torch.tanh(F.linear(x, self.weight))
            return F.silu(x @ self.matrix) @ self.out

    original = Plain()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.width for site in conversion.sites] == [None] * 3
    assert_same(original, conversion.model, images())
    assert [conversion.model.get_submodule(site.name).alpha.numel() for site in conversion.sites] == [6, 7, 5]


class BranchingBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x))) if x.sum() > 0 else self.fc2(self.fc1(x))


class BranchingTwice(BranchingBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x))) if x.sum() > 0 else self.fc2(self.act(-self.fc1(x)))


def test_activation_modules_of_an_untraceable_forward_are_replaced() -> None:
    original = BranchingBlock()
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.name, site.width) for site in conversion.sites] == [("act", None)]
    for x in (torch.ones(2, 4), -torch.ones(2, 4)):
        assert_same(original, conversion.model, x)


def test_an_activation_that_an_untraceable_forward_names_twice_is_reported() -> None:
    with pytest.warns(
        UserWarning, match=r"act stands in several places of a forward that cannot be traced .* share one AdaLin"
    ):
        convert(BranchingTwice())


def test_an_in_place_activation_on_the_callers_tensor_is_left_alone() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.out = nn.Linear(4, 4), nn.Linear(4, 2)
            self.block = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            x = self.fc(x)
            return self.out(x + self.block(x))

    original = Residual()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.name for site in conversion.sites] == ["block.2"]
    assert conversion.skipped == (
        ("block.0", "works in place on a tensor that others may read: set inplace=False first"),
    )
    assert_same(original, conversion.model, vectors())


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(4, 4), nn.Linear(4, 2)
        self.block = nn.Sequential(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        return self.out(self.block(h) + h)


class Second(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + self.act(b)


class SecondArgument(Nested):
    def __init__(self) -> None:
        super().__init__()
        self.block = Second()

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        return self.out(self.block(x, h) + h)


class Alias(Nested):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        return self.out(F.relu_(self.block(h)) + h + torch.tanh(h))


class View(Nested):
    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        F.relu_(h[:, :2])
        return self.out(h + torch.tanh(h))


@pytest.mark.parametrize("module", [Nested, SecondArgument, Alias, View])
def test_in_place_activations_on_tensors_with_two_names_are_left_alone(module) -> None:
    model = nn.Sequential(module(), nn.ReLU(), nn.Linear(2, 2))
    conversion = convert(model, inplace=False, init=0.0)
    assert "works in place on a tensor that others may read: set inplace=False first" in {
        reason for _, reason in conversion.skipped
    }
    assert_same(model, conversion.model, vectors())


def test_weights_that_are_transformed_first_are_weights_too() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Linear(4, 5)

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(F.relu(self.encode(x)), F.normalize(self.encode.weight.t()))

    assert [site.width for site in convert(Tied()).sites] == [5]


def test_the_name_of_a_module_stands_for_its_hidden_activations_only() -> None:
    model = nn.Sequential(SqueezeExcite(), nn.Flatten(), nn.LazyLinear(3))
    assert [site.name for site in convert(model, inplace=False, only="0").sites] == ["0.act"]
    assert [site.name for site in convert(model, only="0.gate").sites] == ["0.gate"]
    with pytest.raises(ValueError, match="only= names nothing"):
        convert(model, only=[])


def test_functional_layers_and_broadcasts_tell_the_axis() -> None:
    class Dueling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 4))
            self.value, self.advantage, self.out = nn.Linear(6, 1), nn.Linear(6, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = F.relu(F.linear(x, self.weight))
            return self.out(torch.tanh(self.value(h) + self.advantage(h)))

    conversion = convert(Dueling())
    assert [(site.width, site.dim) for site in conversion.sites] == [(None, -1), (None, -1)]
    conversion.model(torch.randn(2, 5, 5, 4))
    assert [m.alpha.numel() for m in conversion.model.modules() if isinstance(m, AdaLin)] == [6, 3]


def test_glu_halves_the_width() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.GLU(), nn.Tanh(), nn.Linear(4, 2))
    convert(model)
    model(vectors())
    assert model[2].alpha.numel() == 4


def test_calls_in_different_branches_are_refused() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.out = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 2)

        def forward(self, x: Tensor, alternative: bool = False) -> Tensor:
            return self.out(F.relu(self.b(x))) if alternative else self.out(F.relu(self.a(x)))

    with pytest.raises(ValueError, match="it calls other activations in eval mode or with other optional arguments"):
        convert(Branches())


def test_a_rewritten_forward_keeps_its_signature_and_can_be_converted_further() -> None:
    model = Modal()
    signature = inspect.signature(model.forward)
    sites = convert(model, inplace=False).sites
    assert len(convert(model, only=sites[0].name).sites) == 1
    assert inspect.signature(model.forward) == signature
    assert len(convert(model).sites) == len(sites) - 1


def test_a_transformer_encoder_takes_padding_masks_in_inference() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    convert(model)
    mask = torch.tensor([[False, False, True], [False, True, True]])
    with torch.no_grad():
        assert model(torch.randn(2, 3, 8), src_key_padding_mask=mask).shape == (2, 3, 8)


def test_an_unknown_width_is_inferred_at_the_first_forward() -> None:
    class Reshaping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(4, 6), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc2(F.relu(self.fc1(x).reshape(-1, 3)))

    conversion = convert(Reshaping())
    assert [(site.width, site.alphas) for site in conversion.sites] == [(None, None)]
    conversion.model(vectors())
    assert conversion.model.relu.alpha.shape == (3,)


def test_alphas_have_the_dtype_and_device_of_the_layer_before() -> None:
    model = nn.Sequential(
        nn.Linear(4, 5).double(), nn.ReLU(), nn.Linear(5, 2, device="meta"), nn.Tanh(), nn.Linear(2, 2)
    )
    convert(model)
    assert model[1].alpha.dtype == torch.float64
    assert model[3].alpha.device.type == "meta"


def test_hooks_and_modes_stay() -> None:
    seen: list[str] = []
    model = Functional().eval()
    model.register_forward_hook(lambda *_: seen.append("model"))
    model.fc1.register_forward_hook(lambda *_: seen.append("fc1"))
    convert(model)
    assert not model.training
    assert not any(module.training for module in model.modules())
    model(images())
    assert seen == ["fc1", "model"]


def test_inplace_false_leaves_the_model_alone() -> None:
    for make, inputs, _ in MODELS.values():
        model, x = make().eval(), inputs()
        before = {id(m): (type(m), dict(vars(m))) for m in model.modules()}
        output = run(model, x)
        assert convert(model, inplace=False).model is not model
        assert {id(m): (type(m), dict(vars(m))) for m in model.modules()} == before
        assert torch.equal(run(model, x), output)
        assert convert(model).model is model


def test_init_and_gate_reach_the_layers() -> None:
    model = convert(mlp(), init=0.25, gate="linear").model
    assert all(torch.equal(model[i].alpha, torch.full_like(model[i].alpha, 0.25)) for i in (1, 3))
    torch.testing.assert_close(
        model[3](torch.ones(1, 6)), AdaLin("tanh", 6, init=0.25, gate="linear")(torch.ones(1, 6))
    )
    with pytest.raises(ValueError, match="unknown gate"):
        convert(mlp(), gate="cosin")


def test_the_report_reads_as_a_table() -> None:
    assert str(convert(SqueezeExcite())) == (
        "site  base  width  alphas  axis\n"
        "act   silu      2       2    -3\n"
        "2 alphas added to 144 parameters (+1.39 %)\n"
        "left alone: gate (a gate)"
    )
