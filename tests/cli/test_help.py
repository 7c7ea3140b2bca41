"""Help: short enough to be read, complete where that is asked for, the same form everywhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from adalin.cli import COMMANDS
from adalin.cli._options import all_options, field_docs, group_titles, read_options
from adalin.settings import SACSettings, SupervisedSettings
from noun_phrases import is_noun_phrase


@pytest.fixture
def read_help(adalin, monkeypatch):
    """The help of a command, at 120 columns."""

    def read(*arguments):
        monkeypatch.setenv("COLUMNS", "120")
        code, out, err = adalin(*arguments)
        assert (code, err) == (0, "")
        return out

    return read


def has_line(text, beginning):
    """Whether a line in a box begins with a text."""
    return re.search(rf"^(│ )?\s*{re.escape(beginning)} ", text, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_on_a_page(read_help, name):
    lines = read_help(name, "--help").splitlines()
    assert 8 <= len(lines) <= 60
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", COMMANDS)
def test_the_whole_help_has_every_option_and_the_short_one_names_the_groups_that_it_leaves_out(read_help, name):
    short, complete = read_help(name, "--help"), read_help(name, "--help-all")
    titles = group_titles(COMMANDS[name])
    for option in all_options(COMMANDS[name]):
        invocation = option.value if option.is_positional else f"{option.flag} {option.value}".strip()
        assert has_line(complete, invocation)
    for option in read_options(COMMANDS[name]):
        if option.group is None and not option.is_group and not option.is_positional:
            assert has_line(short, option.flag)
    for title in titles:
        assert f"{title} options" in complete
        assert f"{title} options" not in short
    last = f"More, with `adalin {name} --help-all`: {', '.join(titles)}."
    assert short.splitlines()[-1] == last if titles else short == complete


@pytest.mark.parametrize("name", COMMANDS)
def test_values_and_defaults_have_one_form(read_help, name):
    complete = read_help(name, "--help-all")
    assert "None" not in complete
    assert "STR" not in complete
    assert "(default: )" not in complete
    assert "(default: False)" not in complete
    assert "--no-" not in complete


def test_what_stands_for_a_value_says_its_type(read_help):
    complete = read_help("run", "--help-all")
    for line in (
        "--methods METHOD ...",
        "--seeds INT ...",
        "--lr FLOAT",
        "--out PATH",
        "--executor {local,slurm,ray}",
        "--log {tensorboard,wandb} ...",
        "--precision {float32,bfloat16}",
        "--partition NAME",
    ):
        assert has_line(complete, line)
    assert "Folder of the runs. (default: runs)" in complete
    assert re.search(r"--gamma FLOAT +Discount of future rewards. \(default: 0.99\)", complete)
    assert re.search(r"Batch size: images per step. In sac: batch size: transitions per update.", complete)


def test_common_options_come_first_and_rare_ones_on_request(read_help):
    short = read_help("run", "--help")
    common = ("methods", "seeds", "tasks", "epochs", "steps", "images", "lr", "batch-size", "out", "data", "workers")
    assert [name for name in common if not has_line(short, f"--{name}")] == []
    rare = ("clip", "precision", "gamma", "buffer-size", "executor", "retries", "partition", "ray-address")
    assert [name for name in rare if f"--{name} " in short] == []
    assert group_titles(COMMANDS["run"]) == ["network and protocol", "sac", "execution", "cluster"]


@pytest.mark.parametrize("settings", [SupervisedSettings, SACSettings])
def test_every_setting_that_can_be_chosen_is_an_option(settings):
    flags = {option.flag for option in all_options(COMMANDS["run"])}
    assert {f"--{name.replace('_', '-')}" for name in settings.options()} <= flags


def described_fields():
    for command in COMMANDS.values():
        yield from ((f"{command.__name__}.{option.field.name}", option.help) for option in all_options(command))
    for settings in (SupervisedSettings, SACSettings):
        yield from ((f"{settings.__name__}.{name}", doc) for name, doc in field_docs(settings).items())


DESCRIBED = dict(described_fields())


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_text_of_a_field_is_a_noun_phrase_that_stands_alone(name):
    text = re.sub(r" \(default: .*\)$", "", DESCRIBED[name])
    assert is_noun_phrase(text)
    assert not text.startswith("Whether ")


@pytest.mark.parametrize("columns", ["0", "1", "39", "-5", "wide", ""])
def test_any_width_is_good_for_help_and_for_tables(adalin, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    for arguments in (["run", "--help"], ["--help"], ["list"]):
        code, out, err = adalin(*arguments)
        assert (code, err) == (0, "")
        assert len(out.splitlines()) > 8
        assert max(map(len, out.splitlines())) >= 40
        assert os.environ["COLUMNS"] == columns


def run(*arguments, **options):
    source = str(Path(__file__).parents[2] / "src")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": source} | options.pop("environment", {})
    command = [sys.executable, "-m", "adalin", *arguments]
    return subprocess.run(command, capture_output=True, env=environment, timeout=120, **options)


def test_help_in_a_pipe_is_as_wide_as_a_page():
    lines = run("run", "--help").stdout.decode().splitlines()
    assert len(lines) <= 60
    assert 100 < max(map(len, lines)) <= 120


@pytest.mark.parametrize("arguments", [["run", "--help"], ["list"], ["rnu"]])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_output_that_lacks_characters_is_no_error(arguments, encoding):
    done = run(*arguments, environment={"PYTHONIOENCODING": encoding, "COLUMNS": "120"})
    assert done.returncode == (2 if arguments == ["rnu"] else 0)
    assert b"Traceback" not in done.stderr
    (done.stdout + done.stderr).decode(encoding)


@pytest.mark.parametrize("arguments", [["run", "--help"], ["list"], ["--version"], ["rnu"]])
@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2), (0, 1, 2)])
def test_closed_streams_are_no_error(arguments, closed):
    def close():
        for number in closed:
            os.close(number)

    done = run(*arguments, preexec_fn=close)
    assert done.returncode == (2 if arguments == ["rnu"] else 0)
    assert b"Traceback" not in done.stderr


def test_the_module_is_the_command():
    assert run("--version").stdout == run("--version", executable=sys.executable).stdout
    assert run("--version").stdout.startswith(b"adalin 0.")
    assert b"usage: adalin " in run("--help").stdout
