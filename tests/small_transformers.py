"""Transformers from small configurations, with random weights: a model, what to run it on, its hidden activations."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchvision_schemas

torchvision_schemas.declare()
transformers = pytest.importorskip("transformers", reason="the integrations extra is not installed")

SIZES = {"vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
IDS = torch.arange(14).reshape(2, 7) + 3
IMAGES = torch.linspace(-9, 9, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32).sin()

Small = tuple[nn.Module, dict[str, Any], list[str]]


def bert() -> Small:
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES))
    inner = [f"bert.encoder.layer.{k}.intermediate.intermediate_act_fn" for k in (0, 1)]
    return model, {"input_ids": IDS}, [*inner, "bert.pooler.activation"]


def gpt2() -> Small:
    config = transformers.GPT2Config(vocab_size=99, n_embd=16, n_layer=2, n_head=2, n_positions=32)
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS}, [f"transformer.h.{k}.mlp.act" for k in (0, 1)]


def vit() -> Small:
    sizes = {name: value for name, value in SIZES.items() if name != "vocab_size"}
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, image_size=32, patch_size=8))
    return model, {"pixel_values": IMAGES}, [f"vit.layers.{k}.mlp.activation_fn" for k in (0, 1)]


def llama() -> Small:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=1))
    return model, {"input_ids": IDS}, [f"model.layers.{k}.mlp.act_fn" for k in (0, 1)]


def t5() -> Small:
    config = transformers.T5Config(vocab_size=99, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2)
    ends = ["encoder.block.0.layer.1", "decoder.block.0.layer.2"]
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS}
    return transformers.T5Model(config), inputs, [f"{end}.DenseReluDense.act" for end in ends]


def mamba() -> Small:
    config = transformers.MambaConfig(vocab_size=99, hidden_size=16, state_size=4, num_hidden_layers=1)
    return transformers.MambaForCausalLM(config), {"input_ids": IDS}, []


SMALL: dict[str, Callable[[], Small]] = {made.__name__: made for made in (bert, gpt2, vit, llama, t5, mamba)}
