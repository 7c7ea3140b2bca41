"""Every test starts from the same random state and uses one thread: the suite runs on several processes."""

from collections.abc import Iterator

import hypothesis
import pytest
import torch

from command_lines import vary

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("adalin", deadline=None)
hypothesis.settings.load_profile("adalin")


@pytest.fixture(autouse=True)
def _one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def forget() -> Iterator[None]:
    """What the test registers is forgotten."""
    from registries import forgotten

    with forgotten():
        yield


@pytest.fixture
def adalin(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder of its own; gives the exit code and what was printed. An option that comes again
    replaces the one before."""
    from adalin.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADALIN_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(vary(*arguments))
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run
