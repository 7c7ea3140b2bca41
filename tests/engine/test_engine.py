"""Which engine a network gets, and what is said of it."""

import pytest
from torch import nn

from adalin import native
from adalin._hardware import Hardware
from adalin.engine import ModuleNet, NativeNet, Preset, choose_engine, make_net, presets
from adalin.methods import Activation
from adalin.models import mlp

with_kernels = pytest.mark.skipif(native.isa() is None, reason="there are no native kernels here")


def network() -> nn.Module:
    return mlp(4, 2, Activation())


@with_kernels
def test_a_network_is_computed_natively_where_that_is_possible() -> None:
    assert str(choose_engine(network())) == "native kernels"
    net = make_net(network(), hardware=Hardware(compile=True))
    assert type(net) is NativeNet


@with_kernels
@pytest.mark.parametrize(
    ("model", "options", "reason"),
    [
        (nn.Bilinear(2, 2, 2), {}, "it is no nn.Sequential"),
        (network(), {"precision": "bfloat16"}, "its precision is bfloat16"),
        (network(), {"preset": presets.get("dohare2024")}, "preset dohare2024 changes images or outputs"),
    ],
)
def test_any_other_is_computed_by_pytorch_and_the_reason_is_told(model, options, reason) -> None:
    engine = choose_engine(model, **options)
    assert str(engine) == f"PyTorch's autograd ({reason})"
    assert type(make_net(model, **options)) is ModuleNet


@with_kernels
def test_a_preset_that_only_chooses_an_optimiser_and_drops_is_native() -> None:
    assert choose_engine(network(), preset=Preset(name="mine", summary="", drops=((3, 0.1),))).name == "native"


def test_without_native_kernels_everything_is_computed_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "isa", lambda: None)
    engine = choose_engine(network())
    assert str(engine) == "PyTorch's autograd (there are no native kernels for networks here)"
    assert engine.numbers["kernels"] == "none"


def test_kernels_that_give_the_same_bits_have_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {}
    for isa in ("v4", "v3", "base"):
        monkeypatch.setattr(native, "isa", lambda isa=isa: isa)
        numbers[isa] = choose_engine(network()).numbers
    assert numbers["v4"] == numbers["v3"] != numbers["base"]
