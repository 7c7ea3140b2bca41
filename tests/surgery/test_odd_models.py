"""Models as people write them: each was converted wrongly, in part or not at all before."""

import copy
import functools
import pickle
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from adalin import AdaLin, convert
from convert_models import assert_same, dynamo_noise, vectors

L = nn.Linear


def names(conversion: Any) -> list[str]:
    return [site.name for site in conversion.sites]


def adalins(model: nn.Module) -> list[AdaLin]:
    return [module for module in model.modules() if isinstance(module, AdaLin)]


def assert_every_alpha_learns(model: nn.Module, output: Tensor) -> None:
    output.square().sum().backward()
    assert adalins(model)
    assert all(layer.alpha.grad is not None for layer in adalins(model))


class Decoding(nn.Module):
    def __init__(self, activation: Any) -> None:
        super().__init__()
        self.d = nn.TransformerDecoderLayer(16, 2, 32, activation=activation, batch_first=True)
        self.o = L(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.d(x, x))


@pytest.mark.parametrize("activation", ["gelu", nn.GELU(), F.gelu])
@pytest.mark.parametrize("inplace", [True, False])
def test_copies_of_a_converted_decoder_layer_keep_its_activation(activation, inplace: bool) -> None:
    original, x = Decoding(activation).eval(), torch.randn(2, 5, 16)
    expected = original(x)
    model = convert(original, init=0.0, inplace=inplace).model
    assert torch.equal(model(x), expected)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(twin.d.activation, AdaLin)
        assert isinstance(twin.d, nn.TransformerDecoderLayer)
        assert torch.equal(twin(x), expected)
        assert_every_alpha_learns(twin, twin(x))
    assert len(convert(model).sites) == 0


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(L(4, 64), nn.Tanh(), L(64, 2), nn.Tanh())
        self.critic = nn.Sequential(L(4, 64), nn.Tanh(), L(64, 1))

    def act(self, x: Tensor) -> Tensor:
        return self.actor(x)


class BoundedInForward(ActorCritic):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.numpy().any():
            x = 2 * x
        return self.actor(x), self.critic(x)


@pytest.mark.parametrize("module", [ActorCritic, BoundedInForward])
def test_the_tanh_that_bounds_a_policys_actions_is_left_alone(module) -> None:
    model = module()
    conversion = convert(model)
    assert names(conversion) == ["actor.1", "critic.1"]
    assert dict(conversion.skipped).keys() == {"actor.3"}
    assert model.act(50 * torch.randn(64, 4)).abs().max() <= 1


def test_what_is_returned_as_well_as_used_stays_bounded() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.h, self.mu, self.q = L(4, 8), L(8, 2), L(6, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            a = torch.tanh(self.mu(F.relu(self.h(x))))
            return self.q(torch.cat([x, a], 1)), a

    conversion = convert(Both())
    assert names(conversion) == ["relu"]
    assert conversion.skipped == (("tanh", "limits what the model returns, and is used as well"),)


def test_methods_that_forward_calls_are_converted_under_their_own_names() -> None:
    class Q(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = L(4, 8), L(8, 2)

        def compute(self, x: Tensor) -> Tensor:
            return self.b(torch.tanh(self.a(x)))

        def act(self, x: Tensor) -> Tensor:
            return self.compute(x)

        def forward(self, x: Tensor) -> Tensor:
            return self.act(x)

    original = Q()
    model = convert(original, inplace=False, init=0.0).model
    assert_same(original, model, vectors())
    for method in (model.act, model.compute, model):
        model.zero_grad()
        method(vectors()).sum().backward()
        assert model.tanh.alpha.grad.abs().sum() > 0


def test_two_methods_that_compute_the_same_units_have_the_same_alphas() -> None:
    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.pi, self.v = L(4, 8), L(8, 2), L(8, 1)

        def act(self, x: Tensor) -> Tensor:
            return self.pi(F.relu(self.a(x)))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = F.relu(self.a(x))
            return self.pi(h), self.v(h)

    original = Policy()
    model = convert(original, inplace=False, init=0.0).model
    assert torch.equal(model.act(x := vectors()), original.act(x))
    with torch.no_grad():
        model.relu.alpha.fill_(0.7)
    assert torch.equal(model.act(x), model(x)[0])
    assert len(adalins(model)) == 1


def test_a_replaced_object_is_replaced_under_every_name() -> None:
    class Layer(nn.Module):
        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.fc, self.act = L(i, o), nn.ReLU()
            self.layers = nn.ModuleList([self.fc, self.act])

        def forward(self, x: Tensor) -> Tensor:
            return self.act(self.fc(x))

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = [Layer(4, 8), Layer(8, 8)]
            self.layers = nn.ModuleList([m for h in self.hidden for m in h.layers] + [L(8, 2)])

        def predict(self, x: Tensor) -> Tensor:
            return self.layers[-1](self.hidden[1](self.hidden[0](x)))

    model = Deep()
    assert len(convert(model).sites) == 2
    assert model.hidden[0].act is model.layers[1]
    assert model.hidden[1].layers[1] is model.layers[3]
    assert_every_alpha_learns(model, model.predict(vectors()))


class Predicting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = L(8, 2)
        self.a, self.act = L(4, 8), nn.Tanh()
        self.layers = nn.ModuleList([self.a, self.act, self.head])

    def predict(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.a(x)))


def test_a_model_without_forward_is_converted_where_its_methods_can_be_read() -> None:
    model = Predicting()
    assert names(convert(model)) == ["act"]
    assert model.layers[1] is model.act
    assert_every_alpha_learns(model, model.predict(vectors()))


def test_a_refused_conversion_leaves_every_module_where_it_was() -> None:
    class Ending(Predicting):
        def predict(self, x: Tensor) -> Tensor:
            return self.act(self.a(x))

    model = Ending()
    before = {module: (type(module), dict(vars(module)), dict(module._modules)) for module in model.modules()}
    with pytest.raises(ValueError, match="nothing to convert"):
        convert(model)
    assert model.layers[1] is model.act
    assert {m: (type(m), dict(vars(m)), dict(m._modules)) for m in model.modules()} == before


def test_an_activation_that_is_registered_and_never_called_is_no_site() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.act = L(4, 8), L(8, 2), nn.SiLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.b(F.relu(self.a(x)))

    assert names(convert(Unused())) == ["relu"]


class GELUMethod(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = L(8, 8)

    def gelu(self, x: Tensor) -> Tensor:
        return F.gelu(x.float()) if x.device.type == "mps" else F.gelu(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.gelu(self.proj(x))


class MadeInForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = L(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return nn.GELU()(self.proj(x))


ACT2FN = {"gelu": nn.GELU(), "relu": nn.ReLU()}


class ByName(MadeInForward):
    name = "gelu"

    def forward(self, x: Tensor) -> Tensor:
        return ACT2FN[self.name](self.proj(x))


class ByAttribute(MadeInForward):
    def __init__(self) -> None:
        super().__init__()
        self.act = F.gelu

    def forward(self, x: Tensor) -> Tensor:
        act = self.act
        return act(self.proj(x))


def act(x: Tensor) -> Tensor:
    return F.gelu(x)


def block(layer: nn.Module, x: Tensor) -> Tensor:
    return F.gelu(layer(x))


class ByHelper(MadeInForward):
    def forward(self, x: Tensor) -> Tensor:
        return act(self.proj(x))


class ByLargerHelper(MadeInForward):
    def forward(self, x: Tensor) -> Tensor:
        return block(self.proj, x)


class ByParent(ByLargerHelper):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class Decorated(MadeInForward):
    @torch.enable_grad()
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.proj(x))


class Private(MadeInForward):
    def __init__(self) -> None:
        super().__init__()
        self.__scale = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.__scale * F.gelu(self.proj(x))


class Checkpointed(MadeInForward):
    def body(self, x: Tensor) -> Tensor:
        return F.gelu(self.proj(x))

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.body, x, use_reentrant=False)


class Method(MadeInForward):
    def forward(self, x: Tensor) -> Tensor:
        h = self.proj(x)
        return h.sigmoid() * h.relu()


@pytest.mark.parametrize(
    "module",
    [
        *(GELUMethod, MadeInForward, ByName, ByAttribute, ByHelper, ByLargerHelper, ByParent, Decorated, Private),
        *(Checkpointed, Method),
    ],
)
def test_activations_are_found_however_they_are_called(module) -> None:
    original = nn.Sequential(L(4, 8), nn.ReLU(), module(), L(8, 2))
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.base, site.width) for site in conversion.sites] == [
        ("relu", 8),
        ("relu" if module is Method else "gelu", 8),
    ]
    assert_same(original, conversion.model, vectors())
    for model in (conversion.model, copy.deepcopy(conversion.model), pickle.loads(pickle.dumps(conversion.model))):
        assert_every_alpha_learns(model, model(vectors()))


@pytest.mark.parametrize(
    ("activation", "reason"),
    [
        (nn.PReLU(), "PReLU, which has slopes of its own to learn and is AdaLin on ReLU"),
        (nn.Hardsigmoid(), "Hardsigmoid, a gate"),
        (nn.Softshrink(), "Softshrink, which is no base of AdaLin"),
        (nn.RReLU(), "RReLU, whose slopes are random"),
        (nn.LogSigmoid(), "LogSigmoid, which is no base of AdaLin"),
    ],
)
def test_activations_that_are_no_bases_are_reported(activation, reason: str) -> None:
    conversion = convert(nn.Sequential(L(8, 8), nn.ReLU(), L(8, 8), activation, L(8, 2)))
    assert names(conversion) == ["1"]
    assert conversion.skipped == (("3", reason),)


def test_functions_that_are_no_bases_are_reported() -> None:
    class Others(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.slope, self.rnn = L(4, 8), L(4, 2), nn.Parameter(torch.ones(1)), nn.RNN(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = F.prelu(F.glu(F.relu(self.a(x))), self.slope)
            return self.b(self.rnn(F.hardsigmoid(x).clamp(min=0))[0])

    conversion = convert(Others())
    assert names(conversion) == ["relu"]
    assert sorted(reason for _, reason in conversion.skipped) == [
        "GLU, which halves the width",
        "Hardsigmoid, a gate",
        "PReLU, which has slopes of its own to learn and is AdaLin on ReLU",
        "clamp(min=0), a ReLU by another name",
        "tanh inside torch's RNN",
    ]


def test_numbers_that_decide_keep_deciding() -> None:
    class B(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.act = L(8, 8), L(8, 8), nn.SiLU()

        def forward(self, x: Tensor, rate: float | None = None) -> Tensor:
            x = self.act(self.b(self.act(self.a(x))))
            return F.dropout(x, rate, self.training) if rate is not None and rate > 0 else x

    class E(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.o = nn.ModuleList(B() for _ in range(2)), L(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            for i, b in enumerate(self.blocks):
                x = b(x, 0.1 * i)
            return self.o(x)

    original = E()
    conversion = convert(original, inplace=False, init=0.0)
    assert len(conversion.sites) == 4
    assert_same(original, conversion.model, torch.randn(2, 8))


class Viewed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l, self.o = L(16, 32), L(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        return self.o(F.relu(self.l(x).view(b, n, 4, 8)).flatten(2))


def test_behind_a_view_of_a_linear_layer_the_last_axis_has_the_neurons() -> None:
    model = Viewed()
    convert(model)
    for positions in (7, 9):
        model(torch.randn(2, positions, 16))
    assert (model.relu.dim, model.relu.alpha.numel()) == (-1, 8)


def test_the_axis_of_a_site_can_be_given() -> None:
    model = Viewed()
    conversion = convert(model, dim={"relu": -2})
    model(torch.randn(2, 7, 16))
    assert conversion.sites[0].dim == -2
    assert model.relu.alpha.numel() == 4
    with pytest.raises(ValueError, match="no activation matches 'gelu'; there are: relu"):
        convert(Viewed(), dim={"gelu": -2})


def test_softplus_is_left_alone_unless_named() -> None:
    class V(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.m, self.s, self.d = L(8, 16), L(16, 4), L(16, 4), L(4, 8)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = F.relu(self.e(x))
            std = F.softplus(self.s(h))
            return self.d(self.m(h) + std), std

    conversion = convert(V())
    assert names(conversion) == ["relu"]
    assert conversion.skipped == (("softplus", "a link that keeps a value positive"),)
    assert names(convert(V(), only="softplus")) == ["softplus"]


class NewGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * torch.pow(x, 3.0))))


class QuickGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class Swish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid().mul(x)


class Fraction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / (1 + torch.exp(-x))


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.square(F.relu(x))


class SquaredByPower(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x) ** 2


@pytest.mark.parametrize("module", [NewGELU, QuickGELU, Swish, Squared, SquaredByPower])
@pytest.mark.parametrize("only", [None, "*"])
def test_a_formula_of_ones_own_is_a_base_of_its_own(module, only) -> None:
    original = nn.Sequential(L(4, 8), module(), L(8, 2))
    conversion = convert(original, inplace=False, init=0.0, only=only)
    assert [(site.name, site.base, site.width) for site in conversion.sites] == [("1", module.__name__, 8)]
    assert_same(original, conversion.model, vectors())
    model = pickle.loads(pickle.dumps(conversion.model))
    assert_every_alpha_learns(model, model(vectors()))


def test_a_formula_that_is_no_base_says_why() -> None:
    conversion = convert(nn.Sequential(L(4, 8), Fraction(), L(8, 8), nn.ReLU(), L(8, 2)))
    ((name, reason),) = conversion.skipped
    assert name == "1"
    assert reason.startswith("base Fraction has no finite Lipschitz constant: its derivative is not finite")


def test_a_formula_inside_a_forward_is_left_alone() -> None:
    class Inline(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = L(4, 8), L(8, 8), L(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = F.relu(self.a(x)) ** 2
            x = self.b(x)
            x = 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * torch.pow(x, 3.0))))
            return self.c(F.relu(x))

    conversion = convert(Inline())
    assert names(conversion) == ["relu_1"]
    assert conversion.skipped == (("relu", "part of a formula"), ("tanh", "part of a formula"))


def test_what_is_a_gate_or_no_activation_is_no_formula() -> None:
    class HardGate(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu6(x + 3) / 6

    class Double(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * x + 1

    conversion = convert(nn.Sequential(L(4, 8), HardGate(), Double(), nn.ReLU(), L(8, 2)))
    assert names(conversion) == ["3"]
    assert conversion.skipped[0][0].startswith("1")


def test_a_getattr_of_somebody_elses_is_not_asked() -> None:
    class K(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cfg: dict[str, Any] = {}
            self.a, self.act, self.b = L(8, 8), nn.ReLU(), L(8, 2)

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return self.__dict__["cfg"][name]

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.act(F.gelu(self.a(x))))

    assert names(convert(K())) == ["gelu", "act"]


def test_leaving_out_one_call_leaves_the_modules_beside_it() -> None:
    class Enc(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(L(8, 8), nn.GELU(), L(8, 8)) for _ in range(4))
            self.stem = L(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            if x.shape[-1] != 8:
                raise ValueError
            x = F.gelu(self.stem(x))
            for b in self.blocks:
                x = b(x)
            return x

    assert len(convert(nn.Sequential(Enc(), L(8, 2))).sites) == 5
    conversion = convert(nn.Sequential(Enc(), L(8, 2)), skip="0.gelu")
    assert names(conversion) == [f"0.blocks.{i}.1" for i in range(4)]
    assert conversion.skipped == (("0.gelu", "named by skip="),)


def test_each_round_of_a_loop_has_alphas_of_its_own_behind_a_decision_by_values() -> None:
    class Lp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act, self.ls, self.out = nn.ReLU(), nn.ModuleList([L(4, 8), L(8, 6)]), L(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            if x.isnan().any():
                raise ValueError("nan")
            for layer in self.ls:
                x = self.act(layer(x))
            return self.out(x)

    original = Lp()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.width for site in conversion.sites] == [8, 6]
    assert_same(original, conversion.model, vectors())


def test_a_module_that_is_asked_for_before_it_is_called_is_no_shared_one(recwarn) -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.act, self.b = L(4, 8), nn.ReLU(), L(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            if self.act is not None:
                x = self.act(x)
            return self.b(x if x.sum() > 0 else -x)

    assert names(convert(Asking())) == ["act"]
    assert not recwarn.list


class Repeated(nn.Module):
    """One helper is called in several places, one of them a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.o = L(4, 5), L(5, 6), L(6, 2)
        self.ls = nn.ModuleList([L(6, 6), L(6, 6)])

    def step(self, layer: nn.Module, x: Tensor) -> Tensor:
        return F.gelu(layer(x))

    def forward(self, x: Tensor, early: bool = False) -> Tensor:
        x = self.step(self.a, x)
        x = self.step(self.b, x) if x.sum() > -1e9 else x
        for layer in self.ls:
            x = self.step(layer, x)
            if early:
                break
        return self.o(x)


@pytest.mark.parametrize("early", [False, True])
def test_calls_of_a_helper_are_told_apart_by_where_they_stand(early: bool) -> None:
    original = Repeated()
    conversion = convert(original, inplace=False, init=0.0)
    assert [(site.name, site.width) for site in conversion.sites] == [
        ("gelu", 5),
        ("gelu_1", 6),
        ("gelu_2", 6),
        ("gelu_3", 6),
    ]
    assert_same(original, conversion.model, vectors(), early=early)
    twin = pickle.loads(pickle.dumps(conversion.model))
    assert type(twin) is type(conversion.model)
    assert_same(original, twin, vectors(), early=early)


def test_decisions_by_plain_attributes_stay_open() -> None:
    class Flagged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.double = L(4, 8), L(8, 2), False

        def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            x = self.b(F.relu(self.a(x)))
            return 2 * x if self.double else x

    original = Flagged()
    model = convert(original, inplace=False, init=0.0).model
    for module in (original, model):
        module.double = True
    assert_same(original, model, vectors(), anything=3)


def test_equal_models_have_one_class_after_conversion() -> None:
    first, second = convert(Repeated()).model, convert(Repeated()).model
    assert type(first) is type(second)
    assert type(first).__name__ == "Repeated"
    parameters, _ = torch.func.stack_module_state([first, second])
    assert parameters["gelu.alpha"].shape == (2, 5)


CODE = """
def block(layer, x):
    return F.gelu(layer(x))

class Made(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(4, 8), nn.Linear(8, 6), nn.Linear(6, 7), nn.Linear(7, 2)
        self.act, self.twice, self.ls = nn.ReLU(), nn.Linear(8, 8), nn.ModuleList([nn.Linear(7, 7), nn.Linear(7, 7)])

    def step(self, layer, x):
        return block(layer, x)

    def forward(self, x):
        x = self.act(self.a(x))
        x = self.act(self.twice(x))
        x = torch.tanh(self.b(x)) if x.sum() > 0 else torch.tanh(-self.b(x))
        x = self.step(self.c, x)
        for layer in self.ls:
            x = self.step(layer, x)
        return self.d(x)

class Deciding(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        for i in range(len(x)):
            x = x + 0 * self.b(F.relu(self.a(x)))[i].sum()
        return x
"""


def without_source(name: str) -> nn.Module:
    space: dict[str, Any] = {"nn": nn, "F": F, "torch": torch, "__name__": "nowhere"}
    exec(CODE, space)
    made: nn.Module = space[name]()
    return made


def test_code_without_a_source_is_redirected_while_it_runs() -> None:
    original = nn.Sequential(L(4, 4), nn.ReLU(), without_source("Made"))
    conversion = convert(original, inplace=False, init=0.0)
    assert sorted((site.name, site.width) for site in conversion.sites) == [
        ("1", 4),
        ("2.act", 8),
        ("2.act_1", 8),
        ("2.gelu", 7),
        ("2.gelu_1", 7),
        ("2.gelu_2", 7),
        ("2.tanh", 6),
        ("2.tanh_1", 6),
    ]
    assert_same(original, conversion.model, vectors())
    for x in (torch.ones(2, 4), -torch.ones(2, 4)):
        assert_same(original, conversion.model, x)
    twin = copy.deepcopy(conversion.model)
    twin(vectors()).sum().backward()
    assert {name for name, p in twin.named_parameters() if p.grad is None} in ({"2.tanh.alpha"}, {"2.tanh_1.alpha"})
    with torch.no_grad():
        for layer in adalins(twin):
            layer.alpha.fill_(0.5)
    assert not torch.equal(twin(vectors()), original(vectors()))
    assert convert(conversion.model).sites == ()
    assert_same(original, conversion.model, vectors())


@dynamo_noise
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
def test_code_without_a_source_breaks_the_graph_of_a_compiled_model_and_stays_right() -> None:
    model = convert(nn.Sequential(L(4, 4), nn.ReLU(), without_source("Made")), init=0.3).model
    x = vectors()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="eager")(x), model(x))


def test_code_that_can_neither_be_read_nor_traced_is_refused_with_the_call_and_the_way_out() -> None:
    model = nn.Sequential(L(4, 4), nn.ReLU(), without_source("Deciding"), L(4, 2))
    with pytest.raises(ValueError, match="cannot convert the call of relu in the code of '2'") as error:
        convert(model)
    assert "(Deciding), because its source cannot be read and " in str(error.value)
    assert str(error.value).endswith(": leave it out with skip='2.relu', or use an AdaLin layer in its code")
    assert names(convert(model, skip="2.relu")) == ["1"]


def test_a_call_inside_others_code_is_refused_with_the_way_out() -> None:
    class Handed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = L(4, 8), L(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(checkpoint(F.relu, self.a(x), use_reentrant=False))

    with pytest.raises(ValueError, match=r"because it is called inside checkpoint, whose code is not the module's"):
        convert(Handed())


def test_functions_that_are_handed_around_are_followed() -> None:
    class Handed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = L(4, 8), L(8, 6), L(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.c(functools.reduce(lambda x, f: f(x), [self.a, F.relu, self.b, torch.relu], x))

    original = Handed()
    conversion = convert(original, inplace=False, init=0.0)
    assert [site.width for site in conversion.sites] == [8, 6]
    assert_same(original, conversion.model, vectors())
    assert_every_alpha_learns(conversion.model, conversion.model(vectors()))


def test_sharded_models_are_refused() -> None:
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        model = fully_shard(nn.Sequential(L(4, 4), nn.ReLU(), L(4, 2)), mesh=init_device_mesh("cpu", (1,)))
        with pytest.raises(ValueError, match="is sharded: convert the model before fully_shard"):
            convert(model)
    finally:
        dist.destroy_process_group()


RAN: list[Any] = []


def records(x: Any) -> Any:
    RAN.append(x)
    return F.relu(x)


def test_functions_with_other_effects_are_never_run_to_see_what_they_are() -> None:
    class Recording(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = L(4, 8), L(8, 2)

        def other(self, x: Tensor) -> Tensor:
            return records(x)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(torch.relu(self.a(x)))

    RAN.clear()
    assert names(convert(Recording())) == ["relu"]
    assert all(type(x).__name__ == "Proxy" for x in RAN)


@pytest.mark.parametrize("decides", [False, True])
def test_a_chain_with_a_forward_of_its_own_is_converted(decides: bool) -> None:
    class Chain(nn.Sequential):
        def forward(self, *inputs: Tensor) -> Tensor:
            if len(inputs) > 1:
                inputs = (torch.cat(inputs, -1),)
            if decides:
                assert all(float(row.sum()) > -1e9 for row in list(inputs[0].detach()))
            return super().forward(*inputs)

    original = Chain(L(4, 8), nn.Tanh(), L(8, 8), nn.Tanh(), L(8, 2))
    conversion = convert(original, inplace=False, init=0.0)
    assert names(conversion) == ["1", "3"]
    assert_same(original, conversion.model, vectors())
