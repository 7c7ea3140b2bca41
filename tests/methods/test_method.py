"""Methods as texts: what they mean, and what is said about those that mean nothing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import adalin
from adalin import AdaLin, CReLU, register_activation
from adalin.methods import Activation, Method, Rule, _method, methods, register_method
from adalin.methods._l2 import L2
from adalin.methods._scratch import Scratch
from adalin.nn import activations
from adalin.optim import SGD, Adam, AdamW
from adalin.streams import get_benchmark, register_benchmark
from own_benchmarks import on_data
from registries import forgotten
from synthetic_data import synthetic

pytestmark = pytest.mark.usefixtures("forget")


def message(text: str, **defaults: Any) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011, whoever calls compares the whole text
        Method.parse(text, **defaults)
    return str(error.value)


# what texts mean


@pytest.mark.parametrize(
    ("text", "method", "written"),
    [
        ("baseline", Method(), "baseline"),
        ("relu", Method(), "baseline"),
        ("tanh", Method(Activation("baseline", base="tanh")), "tanh"),
        ("baseline:base=tanh", Method(Activation("baseline", base="tanh")), "tanh"),
        ("adalin", Method(Activation("adalin")), "adalin"),
        ("adalin-relu", Method(Activation("adalin")), "adalin"),
        ("adalin-tanh", Method(Activation("adalin", base="tanh")), "adalin-tanh"),
        (
            "adalin:base=tanh,gate=linear",
            Method(Activation("adalin", base="tanh", gate="linear")),
            "adalin-tanh:gate=linear",
        ),
        ("l2", Method(Activation(), (L2(),)), "l2"),
        ("relu+l2", Method(Activation(), (L2(),)), "l2"),
        ("l2:strength=1e-2+gelu", Method(Activation("baseline", base="gelu"), (L2(),)), "gelu+l2"),
        (
            "scratch+adalin+l2:strength=0.5",
            Method(Activation("adalin"), (Scratch(), L2(0.5))),
            "adalin+scratch+l2:strength=0.5",
        ),
        ("sgd", Method(), "baseline"),
        ("crelu+sgd", Method(Activation("crelu")), "crelu"),
        ("adam+relu", Method(optimizer=Adam()), "adam"),
        ("l2+tanh+adamw", Method(Activation("baseline", base="tanh"), (L2(),), AdamW()), "adamw+tanh+l2"),
        (
            "adalin+sgd:nesterov=true,momentum=0.9",
            Method(Activation("adalin"), optimizer=SGD(momentum=0.9, nesterov=True)),
            "sgd:momentum=0.9,nesterov=True+adalin",
        ),
        (
            "adam:beta2=0.99,lr=1e-4,schedule=cosine+scratch",
            Method(Activation(), (Scratch(),), Adam(lr=1e-4, beta2=0.99, schedule="cosine")),
            "adam:lr=0.0001,schedule=cosine,beta2=0.99+scratch",
        ),
        # The base has torch's slope, the method the one that Lillo & Cheney tuned.
        ("leaky_relu", Method(Activation("leaky_relu", negative_slope=0.7)), "leaky_relu"),
        ("baseline:base=leaky_relu", Method(Activation("baseline", base="leaky_relu")), "baseline:base=leaky_relu"),
        # "1e+20" would be two parts.
        ("l2:strength=1e20", Method(Activation(), (L2(1e20),)), "l2:strength=1e20"),
        ("l2:strength=1e-20", Method(Activation(), (L2(1e-20),)), "l2:strength=1e-20"),
        (
            "l2:strength=0.1234567890123456",
            Method(Activation(), (L2(0.1234567890123456),)),
            "l2:strength=0.1234567890123456",
        ),
    ],
)
def test_a_text_stands_for_a_method_that_is_written_in_one_way(text: str, method: Method, written: str) -> None:
    assert Method.parse(text) == method
    assert str(method) == written
    assert Method.parse(written) == method


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("baseline", "gelu"),
        ("l2", "gelu+l2"),
        ("adalin", "adalin-gelu"),
        ("no-gate", "no-gate:base=gelu"),
        ("tanh", "tanh"),
        ("adalin-tanh", "adalin-tanh"),
        ("adalin:base=tanh", "adalin-tanh"),
        ("crelu", "crelu"),
    ],
)
def test_a_default_base_is_for_those_methods_that_have_one_and_do_not_say_it(text: str, written: str) -> None:
    assert str(Method.parse(text, base="gelu")) == written
    assert Method.parse(text, base=None) == Method.parse(text)


@pytest.mark.parametrize(("text", "slope"), [("leaky_relu", 0.7), ("leaky_relu:negative_slope=0.25", 0.25)])
def test_an_option_reaches_the_layer(text: str, slope: float) -> None:
    layer = Method.parse(text).activation.layers()(4)
    assert layer(torch.tensor([[-1.0, 2.0]])).tolist() == [[pytest.approx(-slope), 2.0]]


def test_prelu_starts_from_its_usual_slope_and_adalin_from_random_ones() -> None:
    prelu, adalin = (Method.parse(text).activation.layers()(50).alpha for text in ("prelu", "adalin"))
    assert prelu.tolist() == [0.25] * 50
    assert 0 <= min(adalin.tolist()) < 0.2 < 0.8 < max(adalin.tolist()) < 1


# what is wrong


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "adalin+crelu",
            "method 'adalin+crelu' has more than one activation; join one with rules such as l2 or scratch",
        ),
        ("relu+tanh", "method 'relu+tanh' has more than one activation; join one with rules such as l2 or scratch"),
        ("l2+l2", "method 'l2+l2' has a rule twice"),
        ("adalin+l2+l2:strength=1", "method 'adalin+l2+l2:strength=1' has a rule twice"),
        ("adam+adalin+sgd", "method 'adam+adalin+sgd' has more than one optimiser"),
        ("adam:lr=nan", "option lr of adam must be a number > 0, not nan"),
        ("sgd:lr=-1", "option lr of sgd must be a number > 0, not -1.0"),
        ("adamw:lr=inf", "option lr of adamw must be a number > 0, not inf"),
        ("adam:lr=fast", "option lr of method 'adam' must be a number, not 'fast'"),
        ("l2:strenght=1", "method 'l2' has no option 'strenght' (did you mean 'strength'?); it has: strength"),
        ("crelu:base=tanh", "method 'crelu' has no option 'base'; it has: match"),
        ("linear:base=tanh", "method 'linear' has no option 'base'; it has: none"),
        ("gelu:base=tanh", "method 'gelu' has no option 'base'; it has: none"),
        (
            "adalin-gelu:base=tanh",
            "method 'adalin-gelu' has no option 'base'; it has: gate, init, learned, granularity",
        ),
        ("l2:strength", "options of a method are written name:key=value,key=value, each once; got 'l2:strength'"),
        (
            "l2:strength=1,strength=2",
            "options of a method are written name:key=value,key=value, each once; got 'l2:strength=1,strength=2'",
        ),
        ("l2:strength=much", "option strength of method 'l2' must be a number, not 'much'"),
        ("l2:strength=", "option strength of method 'l2' must be a number, not ''"),
        ("l2:strength=-1", "the strength of l2 must be a number >= 0, not -1.0"),
        ("l2:strength=nan", "the strength of l2 must be a number >= 0, not nan"),
        ("l2:strength=inf", "the strength of l2 must be a number >= 0, not inf"),
        ("shrink-perturb:shrink=1.5", "the shrink of shrink-perturb must be between 0 and 1, not 1.5"),
        ("shrink-perturb:noise=-1", "the noise of shrink-perturb must be a number >= 0, not -1.0"),
        ("shrink-perturb:every=epoch", "shrink-perturb acts every 'step' or every 'task', not 'epoch'"),
        ("leaky_relu:negative_slope=nan", "the negative_slope of leaky_relu must be a finite number, not nan"),
        ("adalin:granularity=net", "granularity is 'neuron', 'layer' or 'network', not 'net'"),
        ("crelu:match=double", "match is 'units', 'params' or 'half', not 'double'"),
        (
            "adalin:gate=cosin",
            "unknown gate 'cosin' (did you mean 'cosine'?); known: cosine, linear, quadratic, none, or a callable",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(text: str, expected: str) -> None:
    assert message(text) == expected


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("adaline", "unknown method 'adaline' (did you mean 'adalin'?); known: baseline, adalin, "),
        ("shrink_perturb", "unknown method 'shrink_perturb' (did you mean 'shrink-perturb'?); known: "),
        ("adalin-tan", "unknown method 'adalin-tan' (did you mean 'adalin-tanh'?); known: "),
        ("L2", "unknown method 'L2' (did you mean 'l2'?); known: "),
        ("adalin+", "unknown method ''; known: "),
        ("", "unknown method ''; known: "),
        ("adalin:base=tan", "unknown base 'tan' (did you mean 'tanh'?); known: relu, tanh, "),
        ("baseline:base=crelu", "unknown base 'crelu' (did you mean 'relu'?); known: "),
    ],
)
def test_an_unknown_name_is_told_with_what_is_close_and_what_there_is(text: str, start: str) -> None:
    assert message(text).startswith(start)
    assert "\n" not in message(text)


def test_every_known_method_is_told_once() -> None:
    known = message("?").partition("known: ")[2].rsplit(", name that", 1)[0].split(", ")
    known[-1], _, hint = known[-1].partition("; ")
    assert set(known) == {*methods(), *activations()}
    assert len(known) == len(set(known))
    assert hint.startswith("if a plugin brings it")


def test_an_unknown_default_base_is_told_too() -> None:
    assert message("adalin", base="tan").startswith("unknown base 'tan' (did you mean 'tanh'?)")


# methods of one's own


@dataclass(frozen=True)
class Cool(Rule):
    name = "cool"
    summary = "scales all weights at the start of a task"
    factor: float = 0.5
    tasks: int = 3
    always: bool = False
    which: str = "all"

    def start_task(self, weights: Sequence[Tensor], fresh: Any, task: int) -> None:
        for weight in weights:
            weight.mul_(self.factor)


def test_a_registered_rule_has_its_fields_as_options() -> None:
    assert register_method(Cool) is Cool
    method = Method.parse("tanh+cool:factor=0.25,tasks=4,always=true,which=some")
    assert method == Method(Activation("baseline", base="tanh"), (Cool(0.25, 4, True, "some"),))
    assert Method.parse(str(method)) == method
    assert Method.parse("cool:always=False") == Method.parse("cool")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cool:always=maybe", "option always of method 'cool' must be true or false, not 'maybe'"),
        ("cool:tasks=1.5", "option tasks of method 'cool' must be a whole number, not '1.5'"),
        ("cool:factor=x", "option factor of method 'cool' must be a number, not 'x'"),
        ("cool+cool", "method 'cool+cool' has a rule twice"),
    ],
)
def test_the_options_of_a_registered_rule_are_checked(text: str, expected: str) -> None:
    register_method(Cool)
    assert message(text) == expected


def test_a_registered_activation_is_a_method() -> None:
    register_activation("cube", lambda width, dim, **options: Cube(), "x^3")
    method = Method.parse("cube+l2")
    assert method == Method(Activation("cube"), (L2(),))
    assert str(method) == "cube+l2"
    assert isinstance(method.activation.layers()(3), Cube)
    assert message("cube:activation=relu") == "method 'cube' has no option 'activation'; it has: none"


def test_adalin_on_a_base_of_ones_own_may_be_called_that() -> None:
    def build(width: int | None, dim: int | None, **options: Any) -> nn.Module:
        return AdaLin(torch.atan, width, dim=dim, lipschitz=1.0, **options)

    register_activation("adalin-atan", build, "AdaLin on atan")
    layer = Method.parse("adalin-atan").activation.layers()(3)
    assert isinstance(layer, AdaLin)
    assert layer.alpha.numel() == 3
    assert str(Method.parse("adalin-atan")) == "adalin-atan"


def test_activations_of_ones_own_whose_layers_look_the_same_are_not_mixed_up(tmp_path: Path) -> None:
    def build(slope: float, width: int | None, dim: int | None) -> nn.Module:
        return AdaLin(nn.LeakyReLU(slope), width, dim=dim)

    register_benchmark(on_data(get_benchmark("permuted-mnist"), synthetic("mnist"), id="own-v1"))
    for name, slope in (("steep", 0.9), ("flat", 0.1)):
        register_activation(name, partial(build, slope), f"AdaLin on a leaky ReLU with slope {slope}")

    def rows_of(*methods: str) -> list[list[dict[str, Any]]]:
        out = tmp_path / "-".join(methods)
        return [result.rows for result in adalin.run("own", methods, [3], out=out, tasks=1, images=20)]

    steep, flat = rows_of("steep", "flat")
    assert [steep] == rows_of("steep")
    assert [flat] == rows_of("flat")
    assert steep != flat


class Cube(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x**3


def named(name: Any) -> type[Any]:
    return dataclass(frozen=True)(type("Own", (Rule,), {"name": name}))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("l2", "a method"), ("adalin", "a method"), ("baseline", "a method"), ("no-gate", "a method")),
        *(("tanh", "an activation"), ("adalin-tanh", "an activation")),
    ],
)
def test_a_name_that_already_stands_for_a_method_is_refused(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"^{kind} named '{name}' is registered already$"):
        register_method(named(name))
    with pytest.raises(ValueError, match=f"named '{name}' is registered already$"):
        register_activation(name, lambda width, dim: nn.ELU(), "mine")


def test_a_rule_and_an_activation_of_ones_own_cannot_have_the_same_name() -> None:
    register_method(Cool)
    with pytest.raises(ValueError, match=r"^a method named 'cool' is registered already$"):
        register_activation("cool", lambda width, dim: nn.ELU(), "mine")
    register_activation("cube", lambda width, dim: Cube(), "x^3")
    with pytest.raises(ValueError, match=r"^an activation named 'cube' is registered already$"):
        register_method(named("cube"))


@pytest.mark.parametrize("name", ["a+b", "a:b", "a,b", "a=b", "a b", "", "../../up", "a\nb", "=cmd()", "-x", 5, None])
def test_a_name_that_could_not_be_written_everywhere_is_refused(name: Any) -> None:
    expected = "'s name is made of letters, digits, '_', '-' and '.', and begins with none of the last two: not "
    with pytest.raises(ValueError, match=f"^a method{re.escape(expected + repr(name))}$"):
        register_method(named(name))
    with pytest.raises(ValueError, match=f"^an activation{re.escape(expected + repr(name))}$"):
        register_activation(name, lambda width, dim: nn.ELU(), "mine")


@pytest.mark.parametrize("wrong", [5, None, "l2", L2(), nn.ReLU, Activation])
def test_what_is_no_rule_is_refused(wrong: Any) -> None:
    with pytest.raises(
        TypeError,
        match=r"^a method is a subclass of Rule, Optimizer or Norm \(or an activation: register_activation\), not ",
    ):
        register_method(wrong)


def test_a_rule_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a method's name is made of .*: not ''$"):
        register_method(dataclass(frozen=True)(type("Own", (Rule,), {})))


@pytest.mark.parametrize("text", [5, None, ["adalin"]])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(TypeError, match=r"^a method is a text such as 'adalin\+l2', not "):
        Method.parse(text)


def test_a_text_is_parsed_once_until_something_is_registered() -> None:
    _method._parse.cache_clear()
    first = Method.parse("adalin+l2")
    assert Method.parse("adalin+l2") is first
    assert message("cool").startswith("unknown method 'cool'")
    register_method(Cool)
    assert Method.parse("cool") == Method(Activation(), (Cool(),))
    assert Method.parse("adalin+l2") == first
    register_activation("cube", lambda width, dim: Cube(), "x^3")
    assert Method.parse("cube").activation == Activation("cube")


def test_what_a_test_registers_is_unknown_again_afterwards() -> None:
    with forgotten():
        register_method(Cool)
        assert str(Method.parse("cool")) == "cool"
    assert message("cool").startswith("unknown method 'cool'")


def test_an_activation_of_ones_own_has_the_options_it_was_registered_with() -> None:
    def build(width: int | None, dim: int | None, *, slope: float, base: str) -> nn.Module:
        return AdaLin(base, width, dim=dim, init=slope)

    register_activation("mine", build, "an example", options={"slope": 0.5, "base": "relu"})
    method = Method.parse("mine:slope=0.25+l2", base="tanh")
    assert str(method) == "mine:slope=0.25,base=tanh+l2"
    layer = method.activation.layers()(3)
    assert isinstance(layer, AdaLin)
    assert (layer.base.name, layer.alpha.tolist()) == ("tanh", [0.25] * 3)
    assert str(Method.parse("mine")) == "mine"
    assert message("mine:slope=x") == "option slope of method 'mine' must be a number, not 'x'"


def test_two_outputs_per_neuron_of_ones_own_can_be_matched_too() -> None:
    register_activation("pair", lambda width, dim: CReLU(), "two outputs", expansion=2)
    assert Method.parse("pair:match=half").activation.match == "half"
    assert Method.parse("adalin").activation.match is None


@pytest.mark.parametrize(("name", "option"), [("adalin", "match"), ("relu", "base"), ("crelu", "granularity")])
def test_an_activation_refuses_options_that_it_does_not_have(name: str, option: str) -> None:
    with pytest.raises(ValueError, match=f"^the activation '{name}' has no option '{option}'; it has: "):
        Activation(name, **{option: "x"})


def test_a_class_that_is_no_dataclass_is_refused() -> None:
    class Own(Rule):
        name = "own"
        strength: float = 1.0

    with pytest.raises(TypeError, match=r"^Own must be a dataclass: write @dataclass\(frozen=True\) above it$"):
        register_method(Own)


@pytest.mark.parametrize("default", [None, (1, 2)])
def test_an_option_that_cannot_be_written_in_a_text_is_refused(default: object) -> None:
    own = dataclass(frozen=True)(
        type("Own", (Rule,), {"name": "own", "size": default, "__annotations__": {"size": Any}})
    )
    with pytest.raises(TypeError, match=r"^option size of Own needs a default: a text, a number or a bool$"):
        register_method(own)
    assert "own" not in methods()


def test_methods_cannot_be_changed_behind_the_registry() -> None:
    with pytest.raises(TypeError):
        methods()["adalin"] = methods()["l2"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("baseline", "ReLU"),
        ("tanh", "Tanh"),
        ("adalin", "AdaLin (ReLU)"),
        ("adalin-gelu:gate=none", "AdaLin (GELU, gate none)"),
        ("no-gate:base=tanh", "AdaLin without gate (Tanh)"),
        ("crelu:match=params", "CReLU (match params)"),
        ("l2", "L2"),
        ("tanh+l2:strength=0.5+shrink-perturb", "Tanh + L2 (strength 0.5) + Shrink & Perturb"),
        ("adam", "Adam, ReLU"),
        ("sgd:momentum=0.9,nesterov=true+fourier", "SGD (momentum 0.9, nesterov), Deep Fourier"),
    ],
)
def test_a_title_is_what_people_call_a_method(text: str, title: str) -> None:
    assert Method.parse(text).title == title


def test_everything_that_is_built_in_has_a_title_of_its_own() -> None:
    titles = {name: Method.parse(name).title for name in methods()}
    assert not {name for name, title in titles.items() if title == name}
    assert len(set(titles.values())) >= len(titles) - 1, "plain SGD is the baseline's"
