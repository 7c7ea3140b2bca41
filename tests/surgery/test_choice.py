"""What is converted and what is left alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adalin import Conversion, CReLU, convert, make_activation
from convert_models import ResNet, SqueezeExcite, assert_same, images, mlp, vectors


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


def test_a_pattern_may_name_what_is_converted_already() -> None:
    model = convert(mlp(), only="1").model
    again = convert(model, only="1")
    assert again.sites == ()
    assert [site.name for site in convert(model, skip="1").sites] == ["3"]
