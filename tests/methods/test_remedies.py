"""Methods against their authors' operations, written out on tensors small enough to see."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import adalin
from adalin._seeds import generator
from adalin.methods import (
    FIRE,
    UPGD,
    FullReset,
    HareTortoise,
    HeadReset,
    Method,
    OptimizerReset,
    Parseval,
    Rule,
    Wasserstein,
    WeightClip,
)
from adalin.nn import IntervalDropout, SmoothLeaky

LR = 0.1


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2)).double()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int = 0) -> dict[str, Tensor]:
    """One step; gives the loss's own gradients."""
    x = torch.rand(6, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    grads = {name: own.grad.clone() for name, own in model.named_parameters() if own.grad is not None}
    optimizer.step()
    return grads


def after(rule: Rule, steps: int = 1, kind: Any = torch.optim.SGD) -> tuple[nn.Module, Any, Any]:
    model = network()
    optimizer = kind(model.parameters(), lr=LR)
    remedies = adalin.attach(model, optimizer, rule, example=torch.rand(2, 3, dtype=torch.float64))
    for number in range(steps):
        step(model, optimizer, number)
    return model, optimizer, remedies


def moved_by_loss(term: Callable[[nn.Module, dict[str, Tensor]], Tensor], steps: int = 3) -> nn.Module:
    """A network after steps with a term in the loss, whose gradient autograd takes."""
    model = network()
    first = {name: own.detach().clone() for name, own in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for number in range(steps):
        x = torch.rand(6, 3, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        optimizer.zero_grad()
        (model(x).square().mean() + term(model, first)).backward()
        optimizer.step()
    return model


def check_equal(model: nn.Module, expected: nn.Module) -> None:
    for (name, own), wanted in zip(model.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(own, wanted, rtol=0, atol=1e-12, msg=lambda text, n=name: f"{n}: {text}")


def linears(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: own for name, own in model.named_parameters() if name[0] in "03"}


def test_wasserstein_pulls_sorted_numbers_to_sorted_first_numbers() -> None:
    def term(model: nn.Module, first: dict[str, Tensor]) -> Tensor:
        terms = [
            (own.flatten().sort().values - first[name].flatten().sort().values).square().sum() / own.numel()
            for name, own in linears(model).items()
        ]
        return 0.5 * torch.stack(terms).sum()

    check_equal(after(Wasserstein(strength=0.5), 3)[0], moved_by_loss(term))


def test_parseval_pulls_the_rows_of_hidden_layers_to_orthogonal_ones() -> None:
    def term(model: nn.Module, first: dict[str, Tensor]) -> Tensor:
        weight = model[0].weight  # type: ignore[index]
        away = weight @ weight.T - 2.0 * torch.eye(4, dtype=torch.float64)
        return 1e-4 * (64 / 4) ** 2 * torch.linalg.matrix_norm(away) ** 2

    check_equal(after(Parseval(strength=1e-4), 3)[0], moved_by_loss(term))


@pytest.mark.parametrize("last", [True, False])
def test_weight_clipping_keeps_numbers_between_bounds_of_their_layer(last: bool) -> None:
    model, _, _ = after(WeightClip(zeta=0.2, last=last), 1)
    expected = moved_by_loss(lambda model, first: torch.zeros(()), 1)
    with torch.no_grad():
        for layer, inputs in ((expected[0], 3), (expected[3], 4))[: 2 if last else 1]:  # type: ignore[index]
            for own in layer.parameters():
                own.clamp_(-0.2 / math.sqrt(inputs), 0.2 / math.sqrt(inputs))
    check_equal(model, expected)


def test_upgd_moves_useful_parameters_less_and_adds_noise() -> None:
    beta, sigma, decay, seed = 0.9, 0.3, 0.1, 0
    model, expected = network(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    adalin.attach(model, optimizer, UPGD(beta=beta, sigma=sigma, decay_rate=decay), seed=seed)
    utilities = {name: torch.zeros_like(own) for name, own in expected.named_parameters()}
    for number in range(4):
        grads = step(model, optimizer, number)
        with torch.no_grad():
            for name, own in expected.named_parameters():
                utilities[name] = beta * utilities[name] + (1 - beta) * (-grads[name] * own)
            largest = max(utility.max().item() for utility in utilities.values())
            draws = generator(seed, "rule", "upgd", 0, number)
            for name, own in expected.named_parameters():
                noise = torch.empty(own.shape, dtype=own.dtype).normal_(0, sigma, generator=draws)
                share = torch.sigmoid(utilities[name] / (1 - beta ** (number + 1)) / largest)
                own.copy_((1 - LR * decay) * own - LR * (grads[name] + noise) * (1 - share))
        check_equal(model, expected)


def test_hare_and_tortoise_go_back_to_a_slow_average() -> None:
    model, expected = network(), network()
    optimizer, own = (torch.optim.Adam(net.parameters(), lr=LR) for net in (model, expected))
    adalin.attach(model, optimizer, HareTortoise(every=3, decay_rate=0.8))
    slow = [value.detach().clone() for value in expected.parameters()]
    for number in range(7):
        step(model, optimizer, number)
        step(expected, own, number)
        with torch.no_grad():
            slow = [0.8 * mean + 0.2 * value for mean, value in zip(slow, expected.parameters(), strict=True)]
            if number % 3 == 2:
                for value, mean in zip(expected.parameters(), slow, strict=True):
                    value.copy_(mean)
        check_equal(model, expected)


@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (4, 4)])
def test_fire_gives_the_orthogonal_factor_of_the_weights(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    weight = torch.randn(shape, dtype=torch.float64)
    left, _, right = torch.linalg.svd(weight, full_matrices=False)
    torch.testing.assert_close(FIRE(iterations=60).orthogonal(weight), left @ right, rtol=0, atol=1e-9)
    x = weight.T if shape[1] > shape[0] else weight
    x = x / x.norm()
    for _ in range(10):
        x = 1.5 * x - 0.5 * x @ x.T @ x
    torch.testing.assert_close(FIRE().orthogonal(weight), x.T if shape[1] > shape[0] else x, rtol=0, atol=1e-12)
    assert not FIRE().orthogonal(torch.zeros(shape)).any()


def test_fire_scales_each_place_of_a_kernel_at_the_start_of_a_task() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)).double()
    before = {name: own.detach().clone() for name, own in model.named_parameters()}
    remedies = adalin.attach(model, torch.optim.SGD(model.parameters(), lr=LR), FIRE())
    check_equal(model, model)
    remedies.new_task()
    for row in range(2):
        for column in range(2):
            expected = FIRE().orthogonal(before["0.weight"][:, :, row, column]) * math.sqrt(3 / 2) / 4
            torch.testing.assert_close(model[0].weight[:, :, row, column], expected, rtol=0, atol=1e-12)
    expected = FIRE().orthogonal(before["3.weight"]) * math.sqrt(2 / 12)
    torch.testing.assert_close(model[3].weight, expected, rtol=0, atol=1e-12)
    assert torch.equal(model[0].bias, before["0.bias"])


def test_an_optimiser_that_is_reset_begins_like_a_new_one() -> None:
    model, optimizer, _ = after(OptimizerReset(every=3), 3, torch.optim.Adam)
    again = torch.optim.Adam(model.parameters(), lr=LR)
    for state in optimizer.state.values():
        assert not any(value.any() for value in state.values())
    expected = network()
    expected.load_state_dict(model.state_dict())
    again = torch.optim.Adam(expected.parameters(), lr=LR)
    step(model, optimizer, 8)
    step(expected, again, 8)
    check_equal(model, expected)


def test_a_head_reset_makes_the_last_layer_new_and_nothing_else() -> None:
    model, optimizer, _ = after(HeadReset(every=2), 2, torch.optim.Adam)
    plain = network()
    own = torch.optim.Adam(plain.parameters(), lr=LR)
    for number in range(2):
        step(plain, own, number)
    for name, value in model.named_parameters():
        assert torch.equal(value, plain.get_parameter(name)) == (not name.startswith("3.")), name
        assert bool(optimizer.state[value]["exp_avg"].any()) == (not name.startswith("3.")), name
    assert model[3].weight.abs().max() <= 0.5  # type: ignore[union-attr, index]


def test_a_full_reset_makes_everything_new() -> None:
    model, optimizer, _ = after(FullReset(every=2), 2, torch.optim.Adam)
    first = network()
    for name, value in model.named_parameters():
        if name in ("1.weight", "1.bias"):
            assert torch.equal(value, first.get_parameter(name))
        else:
            assert not torch.equal(value, first.get_parameter(name))
            assert value.abs().max() <= (3**-0.5 if name[0] == "0" else 0.5)
    assert not any(value.any() for state in optimizer.state.values() for value in state.values())
    assert torch.equal(*(after(FullReset(every=2), 2)[0][0].weight for _ in range(2)))  # type: ignore[index]


@pytest.mark.parametrize("rule", [OptimizerReset(), HeadReset(), FullReset()])
def test_timed_resets_without_a_time_act_at_tasks(rule: Rule) -> None:
    model, optimizer, remedies = after(rule, 3, torch.optim.Adam)
    assert all(state["exp_avg"].any() for state in optimizer.state.values())
    remedies.new_task()
    assert not any(optimizer.state[model[3].weight]["exp_avg"].flatten())  # type: ignore[index]


def test_a_smooth_leaky_relu_is_its_formula() -> None:
    x = torch.linspace(-4, 4, 9, dtype=torch.float64)
    expected = [0.1 * v + 0.9 * v / (1 + math.exp(-5 * v / 3)) for v in x.tolist()]
    assert SmoothLeaky()(x).tolist() == pytest.approx(expected)


def test_interval_dropout_passes_one_side_at_random_and_its_mean_in_evaluation() -> None:
    torch.manual_seed(0)
    layer, x = IntervalDropout(0.7), torch.tensor([-2.0, 0.0, 3.0]).repeat(20_000, 1)
    y = layer(x)
    assert set(y[:, 0].tolist()) == {-2.0, 0.0}
    assert set(y[:, 2].tolist()) == {3.0, 0.0}
    assert y.mean(0).tolist() == pytest.approx(layer.eval()(x[0]).tolist(), abs=0.03)
    assert layer(x[0]).tolist() == pytest.approx([-0.6, 0.0, 2.1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("adam+upgd", "method 'adam+upgd': upgd is an optimiser of its own, with plain SGD only"),
        ("weight-clip+fire", "method 'weight-clip+fire': weight-clip and fire both set sizes of weights: take one"),
        ("parseval+weight-clip", "parseval and weight-clip exclude each other"),
        ("reset:every=-1", "option every of reset must be a whole number >= 0, not -1"),
        ("head-reset+reset", "both set the last layer"),
        ("redo+reset", "redo and reset both set units"),
        ("upgd:beta=1", "option beta of upgd must be a number from 0 to below 1, not 1.0"),
        ("smooth-leaky:width=0", "the width of a smooth leaky ReLU must be a number > 0"),
        ("aid:p=2", "the p of aid must be a number from 0 to 1"),
        ("layernorm+rmsnorm", "has more than one norm"),
    ],
)
def test_methods_that_make_no_sense_are_refused_when_they_are_read(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Method.parse(text)


def test_upgd_is_refused_with_another_optimiser() -> None:
    model = network()
    with pytest.raises(ValueError, match="upgd is an optimiser of its own: give it SGD without momentum and decay"):
        adalin.attach(model, torch.optim.Adam(model.parameters()), UPGD())
