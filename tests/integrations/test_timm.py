"""timm models built with `act_layer=AdaLin`, which calls the class without a width, sometimes with `inplace=True`."""

import pytest
import torch
import torch.nn.functional as F

import torchvision_schemas
from adalin import AdaLin, param_groups

torchvision_schemas.declare()
timm = pytest.importorskip("timm", reason="the integrations extra is not installed")


def train(model, size, steps=6):
    x, y = torch.randn(8, 3, size, size), torch.arange(8) % 4
    model(x)  # widths
    optimizer = torch.optim.SGD(param_groups(model, weight_decay=1e-4), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_resnet_built_with_adalin_trains():
    model = timm.create_model("resnet18", act_layer=AdaLin, num_classes=4)
    losses = train(model, 32)
    assert losses[-1] < losses[0]
    layers = [module for module in model.modules() if isinstance(module, AdaLin)]
    assert len(layers) == 17
    assert {layer.alpha.numel() for layer in layers} == {64, 128, 256, 512}
    assert all(layer.alpha.grad.abs().sum() > 0 for layer in layers)


def test_a_vision_transformer_built_with_adalin_trains():
    model = timm.create_model(
        "vit_tiny_patch16_224", act_layer=AdaLin, num_classes=4, img_size=32, depth=2, embed_dim=48, num_heads=3
    )
    losses = train(model, 32)
    assert losses[-1] < losses[0]
    layers = [module for module in model.modules() if isinstance(module, AdaLin)]
    assert [(layer.alpha.numel(), layer.dim) for layer in layers] == [(192, -1)] * 2
    assert all(layer.alpha.grad.abs().sum() > 0 for layer in layers)
