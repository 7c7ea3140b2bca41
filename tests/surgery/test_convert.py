"""convert: the same network to the bit at alpha = 0, with one AdaLin for every place that calls an activation."""

import copy
import inspect
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin import AdaLin, convert
from convert_models import (
    MODELS,
    BasicBlock,
    Functional,
    Modal,
    ResNet,
    SqueezeExcite,
    assert_same,
    dynamo_noise,
    every_model,
    images,
    mlp,
    run,
    sequences,
    vectors,
)


@every_model
def test_at_alpha_zero_the_model_is_the_same_to_the_bit_in_both_modes(make, inputs, expected) -> None:
    original = make()
    converted = convert(original, inplace=False, init=0.0).model
    assert_same(original, converted, inputs())


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


def test_a_container_that_is_looped_over_is_no_second_caller() -> None:
    class Looping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    conversion = convert(Looping())
    assert [site.name for site in conversion.sites] == ["layers.1", "layers.3"]
    assert type(conversion.model) is Looping
    assert len(conversion.model.layers) == 5
    conversion.model.layers[:-1](torch.randn(2, 4))
    conversion.model(torch.randn(2, 4)).sum().backward()
    assert all(parameter.grad is not None for parameter in conversion.model.parameters())


def test_an_activation_that_is_left_alone_is_the_same_object_as_before() -> None:
    shared = nn.Tanh()
    model = nn.Sequential(nn.Linear(4, 4), shared, nn.Linear(4, 4), shared, nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    convert(model, only="5")
    assert model[1] is model[3] is shared
