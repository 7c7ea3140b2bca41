"""Arguments that make no sense are refused in one line that says what is wrong and what to do."""

from pathlib import Path

import pytest

from adalin.cli import COMMANDS, main
from adalin.cli._parse import parse

COMMAND_NAMES = "demo, run, plan, show, watch, status, list, reproduce, sweep, report, export, import, data"
RUN = ["run", "random-label-mnist"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # commands
        ([], f"a command is missing; known: {COMMAND_NAMES}; `adalin --help` says what they do"),
        (
            ["rnu"],
            f"unknown command 'rnu' (did you mean 'run'?); known: {COMMAND_NAMES}; `adalin --help` says what they do",
        ),
        (["--lr", "1", *RUN], f"unknown command '--lr'; known: {COMMAND_NAMES}; `adalin --help` says what they do"),
        # arguments
        (["run"], "`adalin run` needs BENCHMARK: Name of a benchmark, see `adalin list`; or sac, with --env."),
        (
            ["run", "--lr", "0.1"],
            "`adalin run` needs BENCHMARK: Name of a benchmark, see `adalin list`; or sac, with --env.",
        ),
        (
            ["export", "runs"],
            "`adalin export` needs FILE: File to write: .parquet (rows, configurations and manifests) "
            "or .csv (plain numbers only).",
        ),
        ([*RUN, "extra"], "'extra' is one word too many; `adalin run --help` says what belongs there"),
        (
            ["reproduce", "activations", "extra"],
            "'extra' is one word too many; `adalin reproduce --help` says what belongs there",
        ),
        (["data", "fech"], "ACTION must be one of fetch, verify, where, not 'fech'"),
        (["data", "fetch", "minst"], "NAMES must be one of mnist, cifar10, cifar100, not 'minst'"),
        # options
        (
            [*RUN, "--sedes", "3"],
            "`adalin run` has no option --sedes (did you mean '--seeds'?); `adalin run --help-all` lists them",
        ),
        (
            [*RUN, "--sed=3"],
            "`adalin run` has no option --sed (did you mean '--seeds'?); `adalin run --help-all` lists them",
        ),
        (
            ["plan", "random-label-mnist", "--executor", "slurm"],
            "`adalin plan` has no option --executor; `adalin plan --help-all` lists them",
        ),
        ([*RUN, "-x"], "'-x' is one word too many; `adalin run --help` says what belongs there"),
        ([*RUN, "--lr"], "--lr needs a value: --lr FLOAT"),
        ([*RUN, "--lr", "--tasks", "3"], "--lr needs a value: --lr FLOAT"),
        ([*RUN, "--seeds"], "--seeds needs a value: --seeds INT ..."),
        ([*RUN, "--out", ""], "--out needs a value: --out PATH"),
        ([*RUN, "--out="], "--out needs a value: --out PATH"),
        (["show", "--picture", "x.png", "--metric", ""], "--metric needs a value: --metric NAME"),
        (["import", "x.parquet", "--out", ""], "--out needs a value: --out PATH"),
        ([*RUN, "--compile=1"], "--compile takes no value, and '1' is one"),
        ([*RUN, "--lr", "0.1", "--lr", "0.2"], "--lr is given twice"),
        ([*RUN, "--compile", "--compile"], "--compile is given twice"),
        ([*RUN, "--batch-size", "8", "--batch_size", "9"], "--batch-size is given twice"),
        (
            [*RUN, "--methods", "adalin", "--methods", "tanh"],
            "--methods is given twice; all values come after one: --methods METHOD ...",
        ),
        # values
        ([*RUN, "--lr", "fast"], "--lr must be a number, not 'fast'"),
        ([*RUN, "--tasks", "2.5"], "--tasks must be a whole number, not '2.5'"),
        ([*RUN, "--clip", "None"], "--clip must be a number, not 'None'"),
        ([*RUN, "--retries", "many"], "--retries must be a whole number, not 'many'"),
        ([*RUN, "--seeds", "3", "x"], "--seeds must be whole numbers, not '3', 'x'"),
        (["sweep", "random-label-mnist", "--lr", "slow"], "--lr must be numbers, not 'slow'"),
        ([*RUN, "--executor", "slrum"], "--executor must be one of local, slurm, ray, not 'slrum'"),
        ([*RUN, "--precision", "half"], "--precision must be one of float32, bfloat16, not 'half'"),
        ([*RUN, "--log", "tensorboard", "paper"], "--log must be one of tensorboard, wandb, not 'paper'"),
        # texts
        ([*RUN, "--out", "a\nb"], "--out must not have control characters: 'a\\nb'"),
        ([*RUN, "--sync-to", "a\x1b[2J"], "--sync-to must not have control characters: 'a\\x1b[2J'"),
        (
            [*RUN, "--executor", "slurm", "--partition", "x\ntouch y #"],
            "--partition must not have control characters: 'x\\ntouch y #'",
        ),
        ([*RUN, "--sync-to", "~nobody_x/x"], "there is no user 'nobody_x', whose home ~nobody_x/x is in"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    printed = capsys.readouterr()
    assert (stop.value.code, printed.out, printed.err) == (2, "", f"adalin: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_what_an_option_may_be_is_read_as_it_is_written():
    words = (
        "run random-label-mnist --methods adalin l2:strength=0.1 --seeds=7 --lr 1e-3 --tasks -1 --layer-norm --out ~/x"
    )
    command = parse(COMMANDS, [*words.split(), "--batch_size", "8", "--precision", "bfloat16", "--gpus", "2"])
    assert command.methods == ("adalin", "l2:strength=0.1")
    assert (command.benchmark, command.seeds, command.out) == ("random-label-mnist", (7,), Path.home() / "x")
    assert (command.settings.lr, command.settings.tasks, command.settings.batch_size) == (1e-3, -1, 8)
    assert (command.settings.epochs, command.network.precision, command.network.clip) == (None, "bfloat16", None)
    assert (command.sac.layer_norm, command.sac.gamma, command.cluster.gpus) == (True, None, 2)
    assert command.execution.executor == "local"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_without_options_has_its_defaults(name):
    needed = {
        "run": ["b"],
        "plan": ["b"],
        "sweep": ["b"],
        "export": ["runs", "x.csv"],
        "import": ["x"],
        "data": ["where"],
    }
    command = parse(COMMANDS, [name, *needed.get(name, [])])
    assert type(command) is COMMANDS[name]
    positional = {
        "benchmark": "b",
        "folder": Path("runs"),
        "file": Path("x.csv"),
        "source": Path("x"),
        "action": "where",
    }
    required = {key: value for key, value in positional.items() if key in vars(command) and needed.get(name)}
    assert command == COMMANDS[name](**required)
