"""The probe and the verdict, on networks of which it is known whether they can learn."""

import copy

import pytest
import torch
from torch import nn

import adalin
from adalin.monitor import ProbeResult, Twins
from adalin.monitor._verdict import diagnose


def build():
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))


def inputs():
    return torch.randn(128, 20, generator=torch.Generator().manual_seed(0))


def examine(model, **options):
    return adalin.examine(model, inputs(), fresh=build, **options)


def test_a_fresh_network_is_able():
    torch.manual_seed(0)
    verdict = examine(build())
    assert verdict.state == "able"
    assert 0.85 < verdict.probe.ratio < 1.2
    assert verdict.remedies == ()
    assert "can learn now" in verdict.sentence


def dead(model):
    model[0].bias -= 10


def tiny(model):
    for parameter in model.parameters():
        parameter *= 0.1


def linear(model):
    model[0].bias += 100
    model[2].weight.mul_(0.01)


@pytest.mark.parametrize("harm", [dead, tiny])
def test_a_network_that_cannot_learn_has_lost_plasticity(harm):
    torch.manual_seed(0)
    model = build()
    with torch.no_grad():
        harm(model)
    verdict = examine(model)
    assert verdict.probe.interval[1] < 0.8
    assert verdict.state == ("lost" if verdict.signs else "unclear")
    if harm is dead:
        assert "layer 0: 100% of units are dead" in verdict.sentence
        assert 'adalin.convert(model, only="1")' in [remedy.code for remedy in verdict.remedies]


def test_the_calls_that_a_verdict_names_run():
    model = build()
    with torch.no_grad():
        dead(model)
    codes = [remedy.code for remedy in examine(model).remedies if remedy.code]
    assert any("convert" in code for code in codes)
    for code in codes:
        own = copy.deepcopy(model)
        optimizer = torch.optim.Adam(own.parameters())
        done = eval(code, {"adalin": adalin, "model": own, "optimizer": optimizer})
        if "convert" in code:
            assert len(done.sites) == 1
        own(inputs()).square().mean().backward()
        optimizer.step()


def test_many_dead_units_in_a_wide_network_are_no_verdict():
    torch.manual_seed(0)
    model = build()
    with torch.no_grad():
        model[0].bias[:16] -= 10
    verdict = examine(model)
    assert verdict.state != "lost"
    assert any("dead" in sign.text for sign in verdict.signs)


def test_weights_that_are_not_finite_have_lost_it():
    model = build()
    with torch.no_grad():
        model[0].weight[0, 0] = float("nan")
    verdict = examine(model)
    assert verdict.state == "lost"
    assert "NaN" in verdict.sentence


def test_inputs_without_any_difference_are_unclear():
    verdict = adalin.examine(build(), torch.zeros(64, 20), fresh=build)
    assert verdict.state in ("unclear", "able")


def test_the_probe_is_right_for_wide_outputs_and_single_ones():
    for outputs in (1, 3000):
        torch.manual_seed(0)
        layers = nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, outputs)
        result = adalin.probe(nn.Sequential(*layers), inputs())
        assert result.origin == "its modules' reset_parameters"
        assert 0.6 < result.ratio < 1.6
        assert result.interval[0] < result.ratio < result.interval[1]


def test_a_probe_gives_the_same_numbers_again_and_moves_no_random_state():
    model = build()
    before = torch.get_rng_state()
    first, second = (adalin.probe(model, inputs(), fresh=build, steps=20) for _ in range(2))
    assert (first.aged, first.fresh) == (second.aged, second.fresh)
    assert torch.equal(before, torch.get_rng_state())
    assert model.training


def test_twins_of_structured_modules_need_a_builder():
    class Position(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.arange(20.0))
            self.layer = nn.Linear(20, 2)

        def forward(self, x):
            return self.layer(x + self.table)

    with pytest.raises(ValueError, match="give fresh="):
        adalin.probe(Position(), inputs())
    assert adalin.probe(Position(), inputs(), fresh=Position, steps=10).origin == "built by fresh()"
    verdict = adalin.examine(Position(), inputs())
    assert verdict.state == "no probe"
    assert "give fresh=" in verdict.sentence


def test_permuted_first_weights_have_the_same_distribution_and_other_places():
    model = build()
    twin = Twins(model, first=adalin.monitor.State.of(model)).draw(torch.Generator().manual_seed(0))
    assert torch.equal(twin[0].weight.flatten().sort()[0], model[0].weight.flatten().sort()[0])
    assert not torch.equal(twin[0].weight, model[0].weight)


def result(ratio, spread):
    fresh = [0.5, 0.5, 0.5]
    return ProbeResult([0.5 * ratio * factor for factor in (1 - spread, 1, 1 + spread)], fresh, 200, 1.0, "tests")


@pytest.mark.parametrize(
    ("probe", "state"),
    [(None, "no probe"), (result(1.0, 0.01), "able"), (result(0.8, 0.1), "unclear"), (result(0.3, 0.01), "unclear")],
)
def test_without_a_sign_that_agrees_nothing_is_lost(probe, state):
    assert diagnose(None, None, probe).state == state


def test_the_interval_is_students():
    logs = torch.tensor([0.9, 1.0, 1.1]).log().double()
    half = 4.303 * logs.std() / 3**0.5
    low, high = result(1.0, 0.1).interval
    assert (low, high) == pytest.approx(
        (float((logs.mean() - half).exp()), float((logs.mean() + half).exp())), rel=1e-6
    )


def test_conditions_of_batch_norm_and_dropout_do_not_disturb_the_probe():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 5))
    before = [value.clone() for value in model.state_dict().values()]
    assert 0.7 < adalin.probe(model, inputs()).ratio < 1.4
    assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))
