"""The trained network of a run, as a module of PyTorch."""

from pathlib import Path
from typing import Any

from torch import nn

from adalin.runs import Result, RunFolder, RunFolderError, kinds, shown_path, wanted_run


def load_model(folder: str | Path, *, data: Any = None) -> nn.Module:
    """The network of a run's last checkpoint, whatever engine has trained it; of SAC the actor.

    Args:
        folder: a run's folder: `Path("runs") / result.run.folder`.
        data: folder of the data sets, as in `run`, which tells the shape of the images.

    Raises RunFolderError, with one line, if there is no run or none of its checkpoints is intact.
    """
    found = RunFolder(Path(folder))
    if not found.exists:
        inside = RunFolder.find(Path(folder))
        hint = f"; there are runs below it, such as {shown_path(inside[0].path)}" if inside else ""
        raise RunFolderError(f"{shown_path(found.path)} is not the folder of a run{hint}")
    run = wanted_run(found)
    checkpoint = found.load(lambda message: None)
    if checkpoint is None or not checkpoint.tensors:
        why = "was imported, as rows without a network" if Result.open(found).rows else "has no checkpoint yet"
        raise RunFolderError(f"{shown_path(found.path)} {why}: train it to have its network")
    return kinds.get(run.kind).network(run, checkpoint.tensors, data)
