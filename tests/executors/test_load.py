"""The network of a run comes back as a module, from whatever engine has trained it."""

from pathlib import Path

import pytest
import torch

import adalin
from adalin.metrics import NetworkOnData, measure
from adalin.runs import Result, RunFolder, RunFolderError
from adalin.streams import get_benchmark
from tiny_runs import data_of, define, loaded, train

METHODS = [
    *("baseline", "adalin", "adalin:learned=False", "adalin:granularity=network"),
    *("crelu:match=half", "adam+fourier", "adalin-tanh+l2"),
]


def load(run, out):
    with loaded(data_of(run.description.benchmark)):
        return adalin.load_model(out / run.folder)


@pytest.mark.parametrize("method", METHODS)
def test_a_loaded_network_has_the_metrics_that_its_last_row_says(method, tmp_path):
    run = define("random-label-mnist", method)
    train([run], tmp_path)
    model = load(run, tmp_path)
    assert isinstance(model, torch.nn.Module)
    row = Result.open(RunFolder(tmp_path / run.folder)).rows[-1]
    images = torch.rand(20, 1, 28, 28)
    data = NetworkOnData(model, images, torch.zeros(20, dtype=torch.int64), online_accuracy=0.0)
    assert measure(data, ["weight_norm"])["weight_norm"] == pytest.approx(row["weight_norm"], rel=1e-6)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_a_loaded_network_answers_as_the_one_that_was_trained(engine, tmp_path, monkeypatch):
    if engine == "torch":
        monkeypatch.setattr("adalin.native.library", lambda: None)
    run = define("class-split-cifar100", "adalin")
    train([run], tmp_path)
    row = Result.open(RunFolder(tmp_path / run.folder)).rows[-1]
    model = load(run, tmp_path)
    settings = run.settings
    stream = get_benchmark(run.benchmark).stream(
        data_of("class-split-cifar100"), seed=run.seed, images=settings.images, scaling=settings.inputs
    )
    task = stream.task(1)
    with torch.no_grad():
        right = (model(task.floats(task.inputs)).argmax(1) == task.labels).double().mean().item()
    assert right == pytest.approx(row["train_accuracy"])


def test_batch_norms_come_with_their_statistics(tmp_path):
    run = define("class-incremental-cifar100", "adalin")
    train([run], tmp_path)
    saved = RunFolder(tmp_path / run.folder).load(lambda message: None).tensors
    found = dict(load(run, tmp_path).named_buffers())
    assert found
    for name, value in found.items():
        torch.testing.assert_close(value, saved[f"network.{name}"])


def test_what_is_no_run_or_has_no_network_is_one_line(tmp_path):
    run = define("random-label-mnist", "baseline")
    train([run], tmp_path)
    with pytest.raises(RunFolderError, match="is not the folder of a run; there are runs below it, such as "):
        adalin.load_model(tmp_path)
    with pytest.raises(RunFolderError, match=r"nowhere is not the folder of a run$"):
        adalin.load_model(Path(tmp_path, "nowhere"))
    for file in (tmp_path / run.folder).glob("checkpoint-*"):
        file.unlink()
    with pytest.raises(RunFolderError, match=r"train it to have its network$"):
        load(run, tmp_path)
