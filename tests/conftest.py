"""Every test starts from the same random state and uses one thread: the suite runs on several processes."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def adalin(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder of its own; gives the exit code and what was printed."""
    from adalin.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADALIN_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run
