"""The units of models that others wrote: permuted with all their edges, each network computes what it did."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchvision_schemas
from adalin.structure import RESIDUAL, Units, find_units
from unit_edges import check_permutations, check_replacements, randomize

torchvision_schemas.declare()
timm = pytest.importorskip("timm", reason="the integrations extra is not installed")
transformers = pytest.importorskip("transformers", reason="the integrations extra is not installed")

TIMM = {
    "resnet18": 32,
    "vit_tiny_patch16_224": 224,
    "mobilenetv3_small_100": 64,
    "convnext_atto": 64,
    "efficientnet_b0": 64,
    "regnety_002": 64,
    "levit_128s": 224,
}


def spread(layers: list[Units], count: int) -> list[Units]:
    return layers[:: max(1, len(layers) // count)]


def check(model: nn.Module, run: Callable[[nn.Module], Any], layers: list[Units], count: int) -> None:
    assert check_permutations(model, spread([u for u in layers if u.groups < u.width], count), run)
    alone = [u for u in layers if not u.entangled]
    assert len(check_replacements(model, spread(alone, count), run)) >= min(count, len(alone))


@pytest.mark.parametrize("name", TIMM)
def test_units_of_timm_models(name: str) -> None:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=3).eval()
    x = torch.randn(1, 3, TIMM[name], TIMM[name])
    randomize(model)
    check(model, lambda m: m(x), find_units(model, x), 2)


def test_the_layers_of_a_timm_resnet_and_vit_are_told_one_by_one() -> None:
    layers = {u.name: u for u in find_units(timm.create_model("resnet18"), torch.randn(2, 3, 64, 64))}
    assert len(layers) == 17
    assert [name for name, u in layers.items() if not u.entangled] == [
        f"layer{stage}.{block}.act1" for stage in (1, 2, 3, 4) for block in (0, 1)
    ]
    assert layers["act1"].entangled == RESIDUAL
    vit = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2)
    first, second = find_units(vit, torch.randn(1, 3, 32, 32))
    assert (first.name, first.width, first.axis, first.entangled) == ("blocks.0.mlp.act", 768, -1, "")
    assert [edge.parameter for edge in second.outgoing] == ["blocks.1.mlp.fc2.weight"]


SMALL = {"vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
IDS = torch.arange(7)[None] + 3
IMAGE = torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32).sin()


def bert() -> tuple[nn.Module, dict[str, Any], list[str]]:
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL))
    inner = [f"bert.encoder.layer.{k}.intermediate.intermediate_act_fn" for k in (0, 1)]
    return model, {"input_ids": IDS}, [*inner, "bert.pooler.activation"]


def gpt2() -> tuple[nn.Module, dict[str, Any], list[str]]:
    config = transformers.GPT2Config(vocab_size=99, n_embd=16, n_layer=2, n_head=2, n_positions=32)
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS}, [f"transformer.h.{k}.mlp.act" for k in (0, 1)]


def vit() -> tuple[nn.Module, dict[str, Any], list[str]]:
    sizes = {name: value for name, value in SMALL.items() if name != "vocab_size"}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8)
    model = transformers.ViTForImageClassification(config)
    return model, {"pixel_values": IMAGE}, [u.name for u in find_units(model, IMAGE)]


def llama() -> tuple[nn.Module, dict[str, Any], list[str]]:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, num_key_value_heads=1))
    return model, {"input_ids": IDS}, [f"model.layers.{k}.mlp.act_fn" for k in (0, 1)]


def t5() -> tuple[nn.Module, dict[str, Any], list[str]]:
    config = transformers.T5Config(vocab_size=99, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2)
    ends = ["encoder.block.0.layer.1", "decoder.block.0.layer.2"]
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS}
    return transformers.T5Model(config), inputs, [f"{end}.DenseReluDense.act" for end in ends]


def mamba() -> tuple[nn.Module, dict[str, Any], list[str]]:
    config = transformers.MambaConfig(vocab_size=99, hidden_size=16, state_size=4, num_hidden_layers=1)
    return transformers.MambaForCausalLM(config), {"input_ids": IDS}, []


@pytest.mark.parametrize("make", [bert, gpt2, vit, llama, t5, mamba])
def test_units_of_transformers(make: Callable[[], tuple[nn.Module, dict[str, Any], list[str]]]) -> None:
    torch.manual_seed(0)
    model, inputs, names = make()
    model.eval()
    randomize(model)
    layers = find_units(model, **inputs)
    assert [u.name for u in layers if not u.entangled] == names
    check_permutations(model, layers, lambda m: m(**inputs))
    check_replacements(model, layers, lambda m: m(**inputs))


def test_units_of_stable_baselines3_agents() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    observations = torch.linspace(-1, 1, 6).reshape(2, 3)
    agent = sb3.SAC("MlpPolicy", "Pendulum-v1", device="cpu", policy_kwargs={"net_arch": [16, 12]})
    actor, critic = agent.policy.actor, agent.policy.critic
    layers = find_units(actor, call=lambda m: m.action_log_prob(observations))
    alone = [u for u in layers if not u.entangled]
    assert [u.name for u in alone] == ["latent_pi.1", "latent_pi.3"]
    assert [edge.parameter for edge in alone[1].outgoing] == ["mu.weight", "log_std.weight"]
    check(actor, lambda m: m.action_log_prob(observations), layers, 2)
    actions = torch.ones(2, 1)
    layers = find_units(critic, observations, actions)
    assert [u.name for u in layers] == ["qf0.1", "qf0.3", "qf1.1", "qf1.3"]
    check(critic, lambda m: m(observations, actions), layers, 4)
