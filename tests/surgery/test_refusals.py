"""What convert refuses, and what it says."""

import math
import pickle
import random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from adalin import convert
from convert_models import Attribute, assert_same, dynamo_noise, mlp, vectors


def test_an_optional_argument_that_decides_by_its_value_keeps_deciding() -> None:
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
    assert_same(original, model, vectors(), how="twice")


class Powers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor, powers: tuple[int, ...] = (1, 2)) -> Tensor:
        x = self.fc(F.relu(self.fc(x)))
        return torch.stack([x**p for p in powers]).sum(0)


@pytest.mark.parametrize("powers", [(1, 2), (1, 2, 3), [1, 2], torch.tensor([1, 2])])
def test_an_optional_argument_takes_any_value(powers: Any) -> None:
    original = Powers()
    assert_same(original, convert(original, inplace=False, init=0.0).model, vectors(), powers=powers)


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor, condition: Tensor | None) -> Tensor:
        x = self.fc(F.relu(self.fc(x)))
        return 2 * x if condition is None else x


def test_none_for_a_required_argument_keeps_its_meaning() -> None:
    original = Conditional()
    model = convert(original, inplace=False, init=0.0).model
    assert_same(original, model, vectors(), condition=None)
    assert_same(original, model, vectors(), condition=torch.ones(()))


def test_activations_that_only_none_calls_are_sites_too() -> None:
    class Twofold(Conditional):
        def forward(self, x: Tensor, condition: Tensor | None, scale: float | None = 1.0) -> Tensor:
            x = self.fc(F.relu(self.fc(x)))
            x = self.fc(F.relu(x)) if condition is None else x
            return x if scale is None else x * scale

    original = Twofold()
    conversion = convert(original, inplace=False, init=0.0)
    assert len(conversion.sites) == 2
    for given in ({"condition": None}, {"condition": torch.ones(())}, {"condition": torch.ones(()), "scale": None}):
        assert_same(original, conversion.model, vectors(), **given)


def test_unknown_granularity_is_refused() -> None:
    with pytest.raises(ValueError, match="granularity must be 'neuron', 'layer' or 'network', not 'channel'"):
        convert(mlp(), granularity="channel")  # type: ignore[arg-type]


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


def test_a_module_that_contains_itself_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    model[1].add_module("up", model)
    with pytest.raises(ValueError, match=r"^Sequential cannot be converted: its module '1\.up' contains itself$"):
        convert(model)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"init": math.nan}, r"^init must be a finite number or a callable that fills a tensor, not nan$"),
        ({"gate": "cosin"}, r"^unknown gate 'cosin' \(did you mean 'cosine'\?\); known: "),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_changes(options: Any, expected: str) -> None:
    relu = nn.ReLU()
    model = nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu, nn.Linear(2, 2))
    with pytest.raises(ValueError, match=expected):
        convert(model, **options)
    assert model[1] is model[3] is relu


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


class WithoutAutocast(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            x = F.relu(self.fc1(x))
        return self.fc2(x)


class WithoutAutocastOnCuda(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cuda", enabled=False):
            x = F.relu(self.fc1(x))
        return self.fc2(x)


class WithGradients(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            return self.fc2(F.relu(self.fc1(x)))


class PreparedByParent(Untraceable):
    def prepare(self, x: Tensor) -> Tensor:
        return x if isinstance(x, Tensor) else x[0]


class Prepared(PreparedByParent):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(self.prepare(x))))


class Remembering(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.fc1(x))
        self.fc2.seen = h  # type: ignore[assignment]
        return self.fc2(h)


class Freezing(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        self.fc1.eval()
        return self.fc2(F.relu(self.fc1(x)))


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


class RandomInNumpy(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x) * float(np.random.rand())))


def first(x: Tensor) -> Tensor:
    return x if isinstance(x, Tensor) else x[0]


class TypedByAHelper(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(first(x))))


class Recomputed(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(recomputed(self.fc1, x, use_reentrant=False)))


class ReadingAChild(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.dropout(F.relu(self.fc1(x)), 0.5, self.fc1.training))


class Auxiliary(Untraceable):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(F.relu(self.fc1(x)) - 1) if self.training else F.relu(self.fc1(x)))


HARD = [
    *(Untraceable, Counting, Typed, Blocked, Decorated, WithoutAutocast, WithoutAutocastOnCuda, WithGradients),
    *(Prepared, Remembering, Freezing, Collecting, Deciding, Noisy, Constant, Random, RandomInNumpy, TypedByAHelper),
    *(Recomputed, ReadingAChild),
]


@pytest.mark.parametrize("module", HARD)
def test_forwards_that_no_graph_can_express_are_converted_and_stay_themselves(module) -> None:
    original = nn.Sequential(module(), nn.ReLU(), nn.Linear(2, 2))
    python, state, numpys = random.getstate(), torch.get_rng_state(), str(np.random.get_state())
    before = {id(m): dict(vars(m)) for m in original.modules()}
    conversion = convert(original, inplace=False, init=0.0)
    assert random.getstate() == python
    assert str(np.random.get_state()) == numpys
    assert torch.equal(torch.get_rng_state(), state)
    assert getattr(original[0], "seen", []) == []
    assert {id(m): dict(vars(m)) for m in original.modules()} == before
    assert [(site.name, site.width) for site in conversion.sites] == [("1", 2), ("0.relu", 5)]
    outputs = []
    for model in (original, conversion.model, pickle.loads(pickle.dumps(conversion.model))):
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        with torch.set_grad_enabled(module is not Decorated):  # inference tensors have none
            outputs.append(model(torch.linspace(-1, 1, 8).view(2, 4)))
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])
    if module is not Decorated:
        outputs[1].sum().backward()
        assert conversion.model[0].relu.alpha.grad is not None


def test_a_forward_that_calls_more_activations_in_train_mode_keeps_them_apart() -> None:
    original = nn.Sequential(Auxiliary(), nn.Linear(2, 2))
    conversion = convert(original, inplace=False, init=0.0)
    assert_same(original, conversion.model, vectors())
    assert len(conversion.sites) == 2


def test_the_functions_of_a_graph_module_are_refused_and_its_modules_replaced() -> None:
    with pytest.raises(ValueError, match=r"it is a GraphModule"):
        convert(torch.fx.symbolic_trace(Attribute()))
    assert (
        len(
            convert(
                nn.Sequential(torch.fx.symbolic_trace(Attribute()), nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)),
                skip="0",
            ).sites
        )
        == 1
    )
    original = torch.fx.symbolic_trace(mlp())
    conversion = convert(original, inplace=False, init=0.0)
    assert_same(original, conversion.model, vectors())
    assert [conversion.model.get_submodule(site.name).alpha.numel() for site in conversion.sites] == [5, 6]


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
    assert [(site.name, site.width) for site in conversion.sites] == [("act", 5)]
    for x in (torch.ones(2, 4), -torch.ones(2, 4)):
        assert_same(original, conversion.model, x)


def test_an_activation_that_two_branches_call_has_a_layer_for_each() -> None:
    original = BranchingTwice()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.width for site in conversion.sites] == [5, 5]
    for x in (torch.ones(2, 4), -torch.ones(2, 4)):
        assert_same(original, conversion.model, x)


def test_branches_that_call_other_layers_have_alphas_of_their_own() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.out = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 2)

        def forward(self, x: Tensor, alternative: bool = False) -> Tensor:
            return self.out(F.relu(self.b(x))) if alternative else self.out(F.relu(self.a(x)))

    original = Branches()
    conversion = convert(original, inplace=False, init=0.0)
    assert len(conversion.sites) == 2
    assert_same(original, conversion.model, vectors())
    assert_same(original, conversion.model, vectors(), alternative=True)
