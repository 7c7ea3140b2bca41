"""Measuring does not move training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adalin.metrics import NetworkOnData, register_metric
from registries import forget_all, forgotten
from tiny_runs import define, train


def draw(network: NetworkOnData) -> float:
    """A metric that draws from every random state there is and looks at everything."""
    np.random.rand(3)
    network.model(network.inputs[:3])
    return torch.rand(7).sum().item() + torch.randn(5).sum().item() + network.loss


@pytest.mark.parametrize("benchmark", ["random-label-mnist", "permuted-mnist", "class-split-cifar100"])
def test_metrics_that_draw_random_numbers_change_no_weights(benchmark: str, tmp_path: Path) -> None:
    runs = [define(benchmark, method) for method in ("adalin", "shrink-perturb", "scratch")]
    before = train(runs, tmp_path / "before")
    with forgotten():
        register_metric("draw", "draws")(draw)
        with_draws = train(runs, tmp_path / "with draws")
        forget_all("metric")
        without = train(runs, tmp_path / "without")

    def weights(outcomes: dict[Any, dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in one.items() if "row" not in name} for one in outcomes.values()]

    assert weights(before) == weights(with_draws) == weights(without)
    assert len({str(rows) for rows in map(list, (before.values(), with_draws.values(), without.values()))}) == 3
