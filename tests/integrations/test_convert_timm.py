"""convert on models of timm, after the fact."""

import pytest
import torch
from torch import nn

import torchvision_schemas
from adalin import AdaLin, convert

torchvision_schemas.declare()
timm = pytest.importorskip("timm", reason="the integrations extra is not installed")


def resnet() -> nn.Module:
    return timm.create_model("resnet18", num_classes=10)


def vit() -> nn.Module:
    return timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=10, proj_drop_rate=0.1)


def mobilenet() -> nn.Module:
    return timm.create_model("mobilenetv3_small_050", num_classes=10, drop_rate=0.1)


@pytest.mark.parametrize("make", [resnet, vit, mobilenet])
def test_at_alpha_zero_timm_models_are_the_same_to_the_bit(make) -> None:
    torch.manual_seed(0)
    original = make()
    converted = convert(original, inplace=False, init=0.0).model
    x = torch.randn(2, 3, 32, 32)
    for training in (True, False):
        outputs = []
        for model in (original, converted):
            torch.manual_seed(1)
            outputs.append(model.train(training)(x))
        assert torch.equal(*outputs)
    assert type(converted) is type(original)


def test_resnet18_gets_an_alpha_per_channel_of_every_activation() -> None:
    conversion = convert(resnet())
    assert [site.width for site in conversion.sites] == [64] * 5 + [128] * 4 + [256] * 4 + [512] * 4
    assert {site.dim for site in conversion.sites} == {-3}
    assert conversion.sites[1].name == "layer1.0.act1"
    assert conversion.skipped == ()


def test_vit_gets_an_alpha_per_feature_of_every_block() -> None:
    conversion = convert(vit())
    assert [(site.name, site.base, site.width, site.dim) for site in conversion.sites] == [
        ("blocks.0.mlp.act", "gelu", 768, -1),
        ("blocks.1.mlp.act", "gelu", 768, -1),
    ]


def test_the_gates_of_mobilenet_are_left_alone() -> None:
    conversion = convert(mobilenet())
    assert sum(type(module).__name__ == "Hardsigmoid" for module in conversion.model.modules()) == 9
    assert all(site.alphas is not None for site in conversion.sites)


@pytest.mark.parametrize("make", [resnet, vit])
def test_training_moves_every_alpha(make) -> None:
    model = convert(make()).model
    alphas = [module.alpha for module in model.modules() if isinstance(module, AdaLin)]
    before = [alpha.detach().clone() for alpha in alphas]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):  # in the first step timm's residual branches still end in a scale of zero
        optimizer.zero_grad()
        model(torch.randn(4, 3, 32, 32)).logsumexp(1).mean().backward()
        optimizer.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, alphas, strict=True))
