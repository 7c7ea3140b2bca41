"""What a monitor sees, how it comes and goes, and what it says to odd input."""

import contextlib
import copy
import gc
import io
import json
import pickle
import subprocess
import sys
import time
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch.optim.optimizer as optimizers
from torch import nn

import adalin
from adalin.monitor import _watched


def build(activation=nn.ReLU):
    return nn.Sequential(nn.Linear(20, 50), activation(), nn.Linear(50, 50), activation(), nn.Linear(50, 5))


def train(model, steps, optimizer=None, call=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = F.cross_entropy((call or model)(torch.randn(32, 20)), torch.randint(5, (32,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return optimizer


def hooks_of(model, optimizer):
    modules = [len(m._forward_pre_hooks) + len(m._forward_hooks) + len(m._backward_hooks) for m in model.modules()]
    steps = len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
    return sum(modules) + steps + len(optimizers._global_optimizer_pre_hooks)


def test_hooks_are_gone_after_close_del_and_an_exception_in_the_loop():
    for steps in (0, 1, 2, 20):  # within a window and between two
        model = build()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        monitor = adalin.Monitor(model, every=10)
        train(model, steps, optimizer)
        assert hooks_of(model, optimizer) > 0
        monitor.close()
        assert hooks_of(model, optimizer) == 0

        monitor = adalin.Monitor(model, every=10)
        train(model, steps, optimizer)
        del monitor
        gc.collect()
        assert hooks_of(model, optimizer) == 0

        with contextlib.suppress(KeyboardInterrupt), adalin.Monitor(model, every=10):
            train(model, steps, optimizer)
            raise KeyboardInterrupt
        assert hooks_of(model, optimizer) == 0
        assert "__reduce_ex__" not in vars(model)


@pytest.mark.parametrize("steps", [0, 5])
def test_copies_and_pickles_carry_no_hook(steps):
    model = build()
    monitor = adalin.Monitor(model, every=100, gradients=1)
    train(model, steps)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
        assert all(not m._forward_pre_hooks and not m._forward_hooks for m in other.modules())
        assert "__reduce_ex__" not in vars(other)
        before = len(monitor.looks)
        train(other, 3)
        assert len(monitor.looks) == before
        assert all(torch.equal(a, b) is not None for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert b"adalin" not in pickle.dumps(model)


def test_hooks_of_others_are_left_alone_and_copied():
    model, calls = build(), []
    handle = model.register_forward_pre_hook(lambda module, args: calls.append(1) or None)
    monitor = adalin.Monitor(model, every=5)
    train(model, 12)
    assert len(copy.deepcopy(model)._forward_pre_hooks) == 1
    assert len(calls) >= 12
    handle.remove()
    calls.clear()
    train(model, 3)
    assert calls == []
    monitor.close()


def test_a_look_that_raises_switches_the_monitor_off_with_one_warning(monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("a broken look")

    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    monitor = adalin.Monitor(model, every=4)
    train(model, 5, optimizer)
    monkeypatch.setattr(_watched, "healths", broken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(model, 20, optimizer)
    assert [str(w.message) for w in caught] == [
        "the monitor of Sequential is switched off, training goes on: ZeroDivisionError: a broken look"
    ]
    assert hooks_of(model, optimizer) == 0
    assert len(monitor.looks) == 2
    monkeypatch.undo()
    assert "not watched any more" in str(monitor.verdict().sentence)


def test_a_failure_at_the_first_step_stops_no_training_even_where_warnings_are_errors(monkeypatch, capsys):
    monkeypatch.setattr(_watched, "sketch_of", lambda model: 1 / 0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    adalin_monitor = adalin.Monitor(model)
    train(model, 5, optimizer)  # pytest makes warnings errors
    assert "switched off" in capsys.readouterr().err
    assert hooks_of(model, optimizer) == 0
    assert adalin_monitor.looks == ()


def test_the_optimiser_that_moves_the_network_is_found_among_others():
    model, other = build(), build()
    monitor = adalin.Monitor(model, every=5)
    train(other, 7)
    assert monitor.steps == 0
    train(model, 7)
    assert monitor.steps == 7
    assert [look.step for look in monitor.looks] == [0, 5]


def test_the_budget_is_kept_where_steps_take_a_while():
    model = build()
    monitor = adalin.Monitor(model, budget=0.1, samples=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    began = time.perf_counter()
    while time.perf_counter() - began < 2.0:
        train(model, 1, optimizer)
        time.sleep(0.0005)
    steps = [look.step for look in monitor.looks]
    assert len(steps) > 2
    assert sum(look.seconds for look in monitor.looks) < 0.13 * (time.perf_counter() - began)
    assert 0 < monitor.share < 0.13


def test_looks_see_functional_untraceable_and_shared_activations():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(20, 30), nn.Linear(30, 30), nn.Linear(30, 5)
            self.weight = nn.Parameter(torch.randn(30, 30) * 0.1)
            self.act = nn.Tanh()

        def forward(self, x):
            x = F.gelu(self.a(x))
            if x.sum() > -1e9:  # a decision by value
                x = self.act(self.b(x))
            x = self.act(x @ self.weight)
            return {"out": (self.c(x), None)}

    model = Odd()
    monitor = adalin.Monitor(model, every=5)
    train(model, 6, call=lambda x: model(x)["out"][0])
    (look,) = monitor.looks[1:]
    assert look.bases == {"a": "gelu", "b": "tanh", "weight": "tanh"}
    assert all(layer["units"] == 30 for layer in look.layers.values())
    assert {"dead", "dormant", "quiet", "saturated", "linear", "duplicate", "rank", "gradient_dormant"} <= set(
        look.layers["a"]
    )


def test_units_of_images_are_channels_and_lazy_and_own_activations_are_seen():
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 3), adalin.AdaLin("tanh", 6), nn.Conv2d(6, 4, 3), nn.PReLU(4), nn.Flatten()),
        *(nn.Linear(64, 10), adalin.CReLU(), nn.Linear(20, 2)),
    )
    monitor = adalin.Monitor(model, every=1)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(8, 1, 8, 8)).sum().backward()
        optimizer.step()
    look = monitor.looks[-1]
    assert {name: layer["units"] for name, layer in look.layers.items()} == {"0": 6, "2": 4, "5": 20}
    assert "saturated" in look.layers["0"]
    assert "saturated" in look.layers["2"]


def test_what_units_do_is_counted_right():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    with torch.no_grad():
        model[0].weight.normal_(generator=torch.Generator().manual_seed(0))
        model[0].bias.zero_()
        model[0].bias[0] = -100.0  # dead
        model[0].bias[1] = -100.0
        model[0].bias[2] = 100.0  # always linear
        model[0].weight[4] = 2 * model[0].weight[3]  # a duplicate
    diagnosis_inputs = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    look = adalin.monitor.look_at(model, [adalin.monitor.call_of(diagnosis_inputs)])
    layer = look.layers["0"]
    assert layer["dead"] == layer["saturated"] == layer["dormant"] == pytest.approx(2 / 8)
    assert layer["linear"] == layer["duplicate"] == pytest.approx(1 / 8)
    assert layer["gradient_dormant"] == pytest.approx(2 / 8)


def test_saturation_is_seen_for_any_activation():
    for activation in (nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.Softsign, lambda: adalin.AdaLin("tanh", 8, init=0.0)):
        model = nn.Sequential(nn.Linear(4, 8), activation(), nn.Linear(8, 1))
        with torch.no_grad():
            model[0].bias[:4] = -60.0
        look = adalin.monitor.look_at(model, [adalin.monitor.call_of(torch.randn(50, 4))])
        assert look.layers["0"]["saturated"] == pytest.approx(0.5)


def test_a_network_without_activations_and_one_that_never_steps_are_said_in_one_line():
    model = nn.Linear(20, 5)
    monitor = adalin.Monitor(model, every=5)
    with pytest.warns(UserWarning, match="no hidden activation was seen") as caught:
        train(model, 12)
    assert len(caught) == 1
    assert monitor.looks[-1].weights["weight"]["norm"] > 0
    assert monitor.verdict().state in ("able", "unclear")  # the probe needs no units

    monitor = adalin.Monitor(build())
    with pytest.warns(UserWarning, match="no call with gradients"):
        verdict = monitor.verdict()
    assert verdict.state == "no probe"


def test_inputs_can_be_given_for_networks_whose_own_cannot_be_seen():
    model = build()
    monitor = adalin.Monitor(model, every=5, inputs=torch.randn(64, 20))
    train(model, 6, call=torch.jit.trace(model, torch.randn(2, 20)))
    assert [list(look.layers) for look in monitor.looks] == [["0", "2"]] * 2


def test_regression_on_two_inputs_with_a_dict_of_outputs_works():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 1)

        def forward(self, x, *, context):
            return {"mean": self.b(F.relu(self.a(torch.cat([x, context], 1))))[:, 0], "kind": "text"}

    model = Two()
    monitor = adalin.Monitor(model, every=5, fresh=Two)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(8):
        optimizer.zero_grad()
        model(torch.randn(16, 4), context=torch.randn(16, 2))["mean"].square().mean().backward()
        optimizer.step()
    result = monitor.probe(steps=20)
    assert result.origin == "built by fresh()"
    assert adalin.examine(model, {"x": torch.randn(32, 4), "context": torch.randn(32, 2)}, fresh=Two).state != "lost"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: adalin.Monitor("model"), "must be an nn.Module"),
        (lambda: adalin.Monitor({}), "no network to watch"),
        (lambda: adalin.Monitor({"actor": 3}), "'actor' is an nn.Module"),
        (lambda: adalin.Monitor(nn.ReLU()), "no parameter that is trained"),
        (lambda: adalin.Monitor(build(), every=0), "every must be"),
        (lambda: adalin.Monitor(build(), budget=2.0), "budget is a share"),
        (lambda: adalin.Monitor(build(), log="looks.txt"), r"\.csv or \.jsonl"),
        (lambda: adalin.Monitor(build(), log="nowhere/looks.csv"), "there is no folder"),
        (lambda: adalin.Monitor(build(), log=3), "log is a path"),
        (lambda: adalin.probe(build(), "text"), "inputs hold no tensor"),
        (lambda: adalin.probe(build(), torch.zeros(0, 20)), "inputs are empty"),
        (lambda: adalin.probe(build(), torch.randn(8, 20), draws=0), "at least 1 draw"),
        (lambda: adalin.probe(build(), torch.randn(8, 20), fresh=lambda: nn.Linear(2, 2)), "other parameters"),
        (lambda: adalin.examine(build(), torch.randn(8, 20), labels=torch.zeros(3).long()), "one per input"),
        (lambda: adalin.examine([1], torch.randn(8, 20)), "must be an nn.Module"),
    ],
)
def test_wrong_input_is_said_in_one_line(call, message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_looks_and_probes_go_to_files_trackers_and_functions(tmp_path):
    class Tracker:
        def __init__(self):
            self.rows = []

        def log(self, row):
            self.rows.append(row)

    class Writer:
        def __init__(self):
            self.names = set()

        def add_scalar(self, name, value, step):
            self.names.add(name)

    tracker, writer, rows = Tracker(), Writer(), []
    model = build()
    log = [tmp_path / "looks.csv", tmp_path / "looks.jsonl", tracker, writer, rows.append]
    monitor = adalin.Monitor({"net": model}, every=5, log=log)
    train(model, 12)
    monitor.probe(steps=10)
    lines = [json.loads(line) for line in (tmp_path / "looks.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["look"] * 3 + ["probe"]
    assert lines[1]["layers"]["0"]["units"] == 50
    table = (tmp_path / "looks.csv").read_text().splitlines()
    assert table[0] == "network,step,kind,of,name,value"
    assert any(line.startswith("net,10,layer,2,dead,") for line in table)
    assert len(rows) == len(tracker.rows) == 4
    assert 8 <= len(writer.names) <= 12
    assert "monitor/net/probe" in writer.names


def test_a_real_tensorboard_writer_gets_the_scalars(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    model = build()
    with SummaryWriter(str(tmp_path)) as writer:
        adalin_monitor = adalin.Monitor(model, every=5, log=writer)
        train(model, 6)
    assert len(adalin_monitor.looks) == 2
    assert list(tmp_path.iterdir())


def test_live_looks_are_printed(capsys):
    model = build()
    monitor = adalin.Monitor(model, every=5, live=True)
    train(model, 6)
    printed = capsys.readouterr().out
    assert "step 5" in printed
    assert "effective rank" in printed
    assert len(monitor.table()) == 4


def test_the_monitor_needs_no_library_but_torch():
    program = (
        "import sys\n"
        "import torch\n"
        "for name in ('numpy', 'matplotlib', 'rich', 'pandas', 'plotly', 'scipy', 'tyro'): sys.modules[name] = None\n"
        "import adalin\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))\n"
        "monitor = adalin.Monitor(model, every=2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(4):\n"
        "    optimizer.zero_grad(); model(torch.randn(8, 4)).sum().backward(); optimizer.step()\n"
        "print(monitor); print(monitor.verdict())\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "effective rank" in done.stdout
