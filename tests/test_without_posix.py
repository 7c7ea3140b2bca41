"""Layers, convert and metrics on systems without POSIX, such as Windows; the laboratory says that it needs it."""

import subprocess
import sys

import pytest

HIDE = """
import os, signal, sys
for module, names in ((os, ("sched_getaffinity", "sched_setaffinity", "fork", "getuid", "O_DIRECTORY")),
                      (signal, ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL", "pthread_sigmask", "SIG_BLOCK"))):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
os.environ["ADALIN_ISA"] = "none"
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HIDE + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_converted_network_trains():
    done = run(
        """
import torch
from torch import nn
from adalin import convert, param_groups
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
convert(model)
x = torch.randn(32, 4)
optimizer = torch.optim.SGD(param_groups(model, weight_decay=0.0), lr=0.1)
losses = []
for _ in range(20):
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
assert any(name.endswith("alpha") for name, _ in model.named_parameters())
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_needs_no_posix_is_imported():
    rooms = ("nn", "optim", "methods", "structure", "metrics", "models", "streams", "engine", "native")
    done = run("\n".join(f"import adalin.{room}" for room in rooms))
    assert (done.returncode, done.stderr) == (0, "")


NEEDS_POSIX = (
    "the laboratory needs a POSIX system, such as Linux, macOS or WSL; layers, convert and metrics work everywhere"
)


@pytest.mark.parametrize("program", ["from adalin import run", "import adalin.executors", "import adalin.rl"])
def test_the_laboratory_says_that_it_needs_posix(program):
    done = run(program)
    assert done.stderr.splitlines()[-1] == f"ImportError: {NEEDS_POSIX}"


@pytest.mark.parametrize("command", [["demo"], ["run", "random-label-mnist"], ["show"]])
def test_the_command_line_says_so_in_one_line(command):
    done = run("from adalin.cli import main; main()", *command)
    assert (done.returncode, done.stderr) == (2, f"adalin: {NEEDS_POSIX}\n")


def test_the_version_can_be_asked_for():
    done = run("from adalin.cli import main; main()", "--version")
    assert done.stdout.startswith("adalin 0.")
    assert done.stdout.endswith(", pure Python: ADALIN_ISA=none\n")
