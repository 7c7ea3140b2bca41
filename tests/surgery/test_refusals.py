"""What convert refuses, and what it says."""

import math
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


class Powers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor, powers: tuple[int, ...] = (1, 2)) -> Tensor:
        x = self.fc(F.relu(self.fc(x)))
        return torch.stack([x**p for p in powers]).sum(0)


def test_an_optional_argument_that_was_fixed_takes_no_other_value() -> None:
    original = Powers()
    model = convert(original, inplace=False, init=0.0).model
    assert_same(original, model, vectors())
    assert_same(original, model, vectors(), powers=(1, 2))
    for powers in ((1, 2, 3), [1, 2], torch.tensor([1, 2])):
        with pytest.raises(TypeError, match="the converted forward of Powers was not made for these optional argument"):
            model(vectors(), powers)


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


def test_none_is_refused_where_it_calls_other_activations_or_was_not_traced() -> None:
    class Twofold(Conditional):
        def forward(self, x: Tensor, condition: Tensor | None, scale: float | None = 1.0) -> Tensor:
            x = self.fc(F.relu(self.fc(x)))
            x = F.relu(x) if condition is None else x
            return x if scale is None else x * scale

    original = Twofold()
    model = convert(original, inplace=False, init=0.0).model
    assert_same(original, model, vectors(), condition=torch.ones(()))
    for given in ({"condition": None}, {"condition": torch.ones(()), "scale": None}):
        with pytest.raises(TypeError, match=r"the converted forward of Twofold was not made for .* None: leave the"):
            model(vectors(), **given)


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


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Untraceable, "symbolically traced variables cannot be used as inputs to control flow"),
        (Counting, "it changes its attribute calls"),
        (Typed, "it uses isinstance"),
        (Blocked, "it changes the gradient mode or autocast"),
        (Decorated, "it changes the gradient mode or autocast"),
        (WithoutAutocast, "it changes the gradient mode or autocast"),
        (WithoutAutocastOnCuda, "it changes the gradient mode or autocast"),
        (WithGradients, "it uses enable_grad"),
        (Prepared, "it uses isinstance"),
        (Remembering, "it changes its attribute fc2.seen"),
        (Freezing, "it changes its attribute fc1.training"),
        (Collecting, "it changes its attribute seen"),
        (Deciding, "it draws random numbers"),
        (Noisy, "it draws random numbers"),
        (Constant, "it makes a tensor that does not depend on its input"),
        (Random, "it draws random numbers"),
        (RandomInNumpy, "it draws random numbers"),
        (TypedByAHelper, "it uses isinstance"),
        (Recomputed, "it uses checkpoint"),
        (ReadingAChild, "it reads the mode of one of its modules"),
        (Auxiliary, "it calls other activations in eval mode or with other optional arguments"),
    ],
)
def test_a_forward_that_cannot_be_traced_faithfully_is_refused_and_left_as_it_was(module, reason: str) -> None:
    model = nn.Sequential(module(), nn.ReLU(), nn.Linear(2, 2))
    python, state, numpys = random.getstate(), torch.get_rng_state(), str(np.random.get_state())
    before = {id(m): dict(vars(m)) for m in model.modules()}
    with pytest.raises(ValueError, match="cannot convert") as error:
        convert(model)
    assert str(error.value) == (
        f"cannot convert the calls of relu in the forward of '0' ({module.__name__}), because {reason}: "
        "leave it out with skip='0', or use AdaLin layers in its code"
    )
    assert random.getstate() == python
    assert str(np.random.get_state()) == numpys
    assert torch.equal(torch.get_rng_state(), state)
    assert getattr(model[0], "seen", []) == []
    assert {id(m): dict(vars(m)) for m in model.modules()} == before
    assert type(model[0]) is module
    assert [site.name for site in convert(model, skip="0").sites] == ["1"]


@pytest.mark.parametrize(("module", "mode"), [(Blocked, torch.no_grad), (Decorated, torch.inference_mode)])
def test_a_change_of_the_gradient_mode_is_seen_inside_that_mode_too(module, mode) -> None:
    with mode(), pytest.raises(ValueError, match="it changes the gradient mode or autocast"):
        convert(module())


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


def test_calls_in_different_branches_are_refused() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.out = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 2)

        def forward(self, x: Tensor, alternative: bool = False) -> Tensor:
            return self.out(F.relu(self.b(x))) if alternative else self.out(F.relu(self.a(x)))

    with pytest.raises(ValueError, match="it calls other activations in eval mode or with other optional arguments"):
        convert(Branches())
