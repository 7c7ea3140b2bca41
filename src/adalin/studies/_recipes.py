"""One recipe per figure and table of the paper, and a few that it lacks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from adalin._registry import Registry
from adalin.data import DIGITS_SHA256
from adalin.executors import define
from adalin.report import summarise
from adalin.runs import Result, Run, kind_of
from adalin.streams import get_benchmark
from adalin.studies._drawings import Panel, curves, derivative, heat_maps, mechanism, overhead
from adalin.studies._foretell import draw_foretelling
from adalin.studies._monitor import (
    HELD_OUT_BENCHMARKS,
    HELD_OUT_METHODS,
    VALIDATED_BENCHMARKS,
    VALIDATED_METHODS,
)
from adalin.studies._paper import (
    MAIN_BENCHMARKS,
    MAIN_METHODS,
    RANDOM_LABELS,
    REPORT_SEEDS,
    SWEEP_SEEDS,
    TESTED,
    hyper_parameters,
)
from adalin.studies._replay_ratio import SACPart, sac_parts

_NARROW: dict[str, Any] = {"model": "resnet18-narrow", "batch_size": 50, "lr": 1e-2, "steps": 300}
"""What two cores can do of the ResNet-18: an eighth of its channels, fewer and smaller steps, a larger step size."""

BUDGETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "quick": {
        "permuted-mnist": {"tasks": 20},
        "random-label-mnist": {"tasks": 10},
        "random-label-cifar10": {"tasks": 10, "epochs": 100},
        "shuffled-label-cifar10": {"tasks": 10, "epochs": 5},
        "class-split-cifar100": {"epochs": 4},
        "class-incremental-cifar100": _NARROW | {"steps": 20, "images": 500, "tasks": 10},
    },
    "short": {
        "permuted-mnist": {"tasks": 100},
        "random-label-mnist": {"tasks": 50},
        "random-label-cifar10": {"tasks": 50},
        "shuffled-label-cifar10": {"tasks": 50},
        "class-incremental-cifar100": _NARROW,
    },
    "paper": {},
}
"""What is not the paper's. "short" has its task definition and fewer tasks, but for the ResNet-18; "quick" shows a
figure's shape."""


@dataclass(frozen=True)
class StreamPart:
    """Methods on a benchmark: the runs of one panel."""

    benchmark: str
    """Name of the benchmark."""
    methods: tuple[str, ...]
    """Methods that are compared."""
    title: str = ""
    """Title of the panel; by default the benchmark's name."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that are not the benchmark's."""

    @property
    def dataset(self) -> str | None:
        """The name of the data set that it needs."""
        return get_benchmark(self.benchmark).dataset

    def runs(self, budget: str, seeds: Sequence[int], data: str | Path | None) -> list[Run[Any]]:
        """All runs of a budget, with the paper's hyper-parameters, which are not the same for all methods."""
        groups: dict[tuple[Any, ...], list[str]] = {}
        for method in self.methods:
            groups.setdefault(tuple(self._settings_of(method, budget).items()), []).append(method)
        runs = []
        for settings, methods in groups.items():
            runs += define(self.benchmark, methods, seeds, data=data, **dict(settings)).runs
        return runs

    def examples(self, budget: str) -> list[Run[Any]]:
        """One run of each method, as if there were no data."""
        kind = kind_of(self.benchmark)
        return [
            kind.example(self.benchmark, method, REPORT_SEEDS[0], **self._settings_of(method, budget))
            for method in self.methods
        ]

    def _settings_of(self, method: str, budget: str) -> dict[str, Any]:
        own = hyper_parameters(self.benchmark, method)
        return {**BUDGETS[budget].get(self.benchmark, {}), **own, **self.settings}


@dataclass(frozen=True)
class Recipe:
    """What to run for a figure, and how to draw it."""

    name: str
    """Name for `adalin reproduce`."""
    title: str
    """Heading of the figure."""
    draw: Callable[[Sequence[Panel]], Figure]
    """Function that makes the figure of its panels."""
    parts: tuple[StreamPart | SACPart, ...] = ()
    """Runs of each panel; none for a figure that needs no runs."""
    claims: tuple[str, ...] = ()
    """Claims that its runs are for, by number: "C8" is C8a and C8b."""
    monitored: bool = False
    """Whether it is about what the monitor says of its runs."""

    def runs(
        self, budget: str, *, seeds: Sequence[int] = REPORT_SEEDS, data: str | Path | None = None
    ) -> list[list[Run[Any]]]:
        """The runs of each part; parts may share some."""
        chosen_on = sorted(set(seeds) & set(SWEEP_SEEDS))
        if chosen_on:
            raise ValueError(f"seeds {chosen_on} are for choosing hyper-parameters; report on others")
        return [list(part.runs(budget, seeds, data)) for part in self.parts]

    def figure(self, runs: Sequence[Sequence[Run[Any]]], results: Sequence[Result]) -> Figure:
        """Drawn from what has come of those runs so far."""
        found = {result.run.folder: result for result in results}
        panels = []
        for part, wanted in zip(self.parts, runs, strict=True):
            if not wanted:  # which a budget may do without
                continue
            folders = [run.folder for run in wanted]
            summaries = summarise([found[folder] for folder in folders if folder in found], choosing=SWEEP_SEEDS)
            note = " (bundled digits)" if wanted[0].config.get("data") == DIGITS_SHA256 else ""
            panels.append(Panel((part.title or wanted[0].description.title) + note, summaries))
        return self.draw(panels)


def recipes() -> Mapping[str, Recipe]:
    """Every recipe by name."""
    return _RECIPES.listing()


def get_recipe(name: str) -> Recipe:
    """A recipe by its name."""
    return _RECIPES.get(name)


def _everywhere(*methods: str) -> tuple[StreamPart, ...]:
    return tuple(StreamPart(benchmark, methods) for benchmark in MAIN_BENCHMARKS)


_MAIN = _everywhere(*MAIN_METHODS)
_LEAKY = ("leaky_relu", *(f"leaky_relu:negative_slope={slope}" for slope in (0.6, 0.8, 0.9)))
_MATCHES = ("", ":match=params", ":match=half")
_ABLATIONS = (
    *("tanh", "adalin-tanh", "gelu", "adalin-gelu", "interpolation"),
    *("adalin:granularity=layer", "adalin:granularity=network"),
    *("adalin:gate=none", "adalin-gelu:gate=none", "adalin-tanh:gate=linear", "adalin-tanh:gate=quadratic"),
)

_ALL = (
    Recipe("mechanism", "How AdaLin lets a saturated neuron learn (figure 2)", mechanism),
    Recipe("derivative", "Derivative of AdaLin on Tanh under several alphas (figure 3)", derivative),
    Recipe(
        "activations",
        "Activations on random-label MNIST, without and with AdaLin (figure 1)",
        curves,
        (
            StreamPart("random-label-mnist", ("baseline", "tanh", "gelu", "crelu", "prelu"), "without AdaLin"),
            StreamPart("random-label-mnist", ("adalin", "adalin-tanh", "adalin-gelu"), "with AdaLin"),
        ),
        ("C1", "C2"),
    ),
    Recipe(
        "main-figure",
        "Online accuracy on five benchmarks (figure 4)",
        curves,
        _MAIN,
        ("C3", "C4", "C5", "C6", "C7", "C8", "C20", "C21"),
    ),
    Recipe(
        "test-accuracy",
        "Test accuracy (figure 5)",
        partial(curves, metric="test_accuracy"),
        tuple(StreamPart(benchmark, MAIN_METHODS) for benchmark in TESTED),
        ("C9",),
    ),
    Recipe(
        "class-incremental",
        "Class-incremental CIFAR-100 with ResNet-18, test accuracy on all classes (figure 6)",
        partial(curves, metric="test_accuracy"),
        (StreamPart("class-incremental-cifar100", ("baseline", "adalin", "crelu", "fourier")),),
        ("C10",),
    ),
    Recipe(
        "replay-ratio",
        "SAC on MuJoCo with replay ratios 1, 2 and 4, ReLU and AdaLin (figure 7)",
        curves,
        sac_parts(),
        ("C11",),
    ),
    Recipe(
        "other-activations",
        "ReLU, Tanh and GELU without and with AdaLin (figure 8)",
        curves,
        _everywhere("baseline", "adalin", "tanh", "adalin-tanh", "gelu", "adalin-gelu"),
        ("C22",),
    ),
    Recipe(
        "heat-maps",
        "Alpha and saturation of every neuron over tasks (appendix, interpretation of alpha)",
        heat_maps,
        tuple(StreamPart(benchmark, ("adalin",)) for benchmark in RANDOM_LABELS),
        ("C18",),
    ),
    Recipe(
        "granularity",
        "One alpha per neuron, layer or network (appendix, granularity)",
        curves,
        _everywhere("adalin", "adalin:granularity=layer", "adalin:granularity=network"),
        ("C12",),
    ),
    Recipe(
        "gate",
        "With and without the gate, on ReLU and GELU (appendix, gate)",
        curves,
        _everywhere("adalin", "adalin:gate=none", "adalin-gelu", "adalin-gelu:gate=none"),
        ("C13",),
    ),
    Recipe(
        "gate-forms",
        "Cosine, linear and quadratic gates on Tanh; on ReLU they are the same (appendix, gate forms)",
        curves,
        _everywhere("adalin-tanh", "adalin-tanh:gate=linear", "adalin-tanh:gate=quadratic"),
        ("C14",),
    ),
    Recipe(
        "interpolation",
        "Learnable interpolation between linear and ReLU (appendix, interpolation)",
        curves,
        _everywhere("baseline", "adalin", "interpolation"),
        ("C15",),
    ),
    Recipe(
        "monitor",
        "Is the monitor right? Its verdicts, and every number, against the next task (not in the paper)",
        curves,
        tuple(
            StreamPart(benchmark, (*VALIDATED_METHODS, *HELD_OUT_METHODS))
            for benchmark in (*VALIDATED_BENCHMARKS, *HELD_OUT_BENCHMARKS)
        ),
        monitored=True,
    ),
    Recipe("overhead", "Parameters that AdaLin adds (appendix, table)", overhead, claims=("C19",)),
    Recipe("sign-entropy", "Sign entropy (appendix)", partial(curves, metric="sign_entropy"), _MAIN, ("C16", "C23")),
    Recipe("weight-norm", "Weight norm (appendix)", partial(curves, metric="weight_norm"), _MAIN, ("C17",)),
    Recipe("srank", "Rank of the features (appendix)", partial(curves, metric="srank"), _MAIN, ("C17",)),
    Recipe(
        "weight-srank",
        "Rank of the weight matrices, summed over them (appendix)",
        partial(curves, metric="weight_srank"),
        _MAIN,
        ("C17",),
    ),
    Recipe(
        "input-scaling",
        "Random-label MNIST with inputs in [0, 1] and scaled as by Kumar et al. 2023 (not in the paper)",
        curves,
        (
            StreamPart("random-label-mnist", ("baseline", "adalin"), "inputs in [0, 1]"),
            StreamPart("random-label-mnist", ("baseline", "adalin"), "inputs in [-1, 1]", {"inputs": "kumar2023"}),
        ),
    ),
    Recipe(
        "leaky-slope",
        "A leaky ReLU with a large slope, which the paper lacks (Lillo and Cheney 2026)",
        curves,
        _everywhere("baseline", "adalin", *_LEAKY),
    ),
    Recipe(
        "prelu",
        "PReLU, which is AdaLin on ReLU with alphas from 0.25, on all five benchmarks (the paper has one)",
        curves,
        _everywhere("baseline", "adalin", "prelu"),
    ),
    Recipe(
        "matched-width",
        "CReLU and Deep Fourier with as many units, parameters or features as the others (not in the paper)",
        curves,
        _everywhere("adalin", *(f"{name}{match}" for name in ("crelu", "fourier") for match in _MATCHES)),
    ),
    Recipe(
        "frozen-alpha",
        "AdaLin with alphas that stay: at U(0, 1), 0.7 and -0.2; is learning them needed? (not in the paper)",
        curves,
        _everywhere("adalin", "adalin:learned=False", "leaky_relu", "leaky_relu:negative_slope=-0.2"),
    ),
    Recipe(
        "alpha-init",
        "First values of alpha on random labels (not in the paper)",
        curves,
        tuple(
            StreamPart(benchmark, ("adalin", *(f"adalin:init={value}" for value in (-0.2, 0.0, 0.25, 1.0))))
            for benchmark in RANDOM_LABELS
        ),
    ),
    Recipe(
        "foretell",
        "What foretells that a network will learn less, beside today's accuracy (not in the paper)",
        draw_foretelling,
        _everywhere(*MAIN_METHODS, *_ABLATIONS),
    ),
)
_RECIPES = Registry("recipe", {recipe.name: recipe for recipe in _ALL}, plugins=False)
