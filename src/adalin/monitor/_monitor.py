"""Monitor(model): watches networks while any loop trains them, and says whether they can still learn."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from adalin.monitor._figure import save_figure
from adalin.monitor._inputs import call_of, kept
from adalin.monitor._journal import Journal, Mark, Value
from adalin.monitor._loggers import listeners_of
from adalin.monitor._look import Look
from adalin.monitor._page import page_of
from adalin.monitor._picture import pictured
from adalin.monitor._probe import ProbeResult
from adalin.monitor._table import layer_rows, layer_table
from adalin.monitor._verdict import STATES, Diagnosis, diagnose
from adalin.monitor._watched import Cadence, Watched


class Monitor:
    """Watches a network while any loop trains it, and says whether its weights can still learn.

    The loop stays as it is, and so do its numbers: training with and without a monitor is the same to the bit. The
    optimiser is found by itself: the first one that steps one of the network's parameters. The first look is at the
    first step; the following ones come as often as the budget allows.

    Args:
        model: a network, or several by name: `{"actor": actor, "critic": critic}`. A compiled network is given as
            `torch.compile` returned it.
        optimizer: the optimiser, if it is not to be found by itself.
        every: steps between looks; by default as many as keep to the budget.
        budget: largest share of the training time that looks may take.
        samples: inputs of a look.
        gradients: steps whose gradients are compared for a look.
        probe: steps between probes, which are not part of the budget; by default only `verdict` probes.
        fresh: builds a new network, for the probe; by default the first weights are permuted if the monitor saw the
            first step, else the modules' `reset_parameters` are used. For several networks a mapping.
        inputs: inputs for all looks and probes, as the network takes them, where those of training cannot be seen.
        log: where looks and probes go: a file that ends in .csv or .jsonl, TensorBoard's `SummaryWriter`, a run of
            Weights & Biases, a function that gets a dict; or several of these.
        live: print each look.

    Examples:
        >>> import torch
        >>> from adalin import Monitor
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        >>> monitor = Monitor(model)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> for _ in range(20):
        ...     loss = model(torch.randn(16, 8)).square().mean()
        ...     optimizer.zero_grad()
        ...     loss.backward()
        ...     optimizer.step()
        >>> monitor.verdict().state in ("able", "unclear")
        True
        >>> monitor.close()
    """

    def __init__(
        self,
        model: nn.Module | Mapping[str, nn.Module],
        optimizer: Optimizer | None = None,
        *,
        every: int | None = None,
        budget: float = 0.02,
        samples: int = 256,
        gradients: int = 4,
        probe: int | None = None,
        fresh: Callable[[], nn.Module] | Mapping[str, Callable[[], nn.Module]] | None = None,
        inputs: Any = None,
        log: Any = None,
        live: bool = False,
    ) -> None:
        models = dict(model) if isinstance(model, Mapping) else {"": model}
        _check(models, every, budget, samples, gradients, probe)
        self._journal = Journal(listeners=listeners_of(log, live))
        plan = Cadence(every=every, budget=budget / len(models), samples=samples, gradients=gradients, probe=probe)
        self._watched: dict[str, Watched] = {}
        for name, network in models.items():
            own = fresh.get(name) if isinstance(fresh, Mapping) else fresh
            given = inputs.get(name) if isinstance(model, Mapping) and isinstance(inputs, Mapping) else inputs
            call = None if given is None else kept(call_of(given), samples)
            self._watched[name] = Watched(name, network, optimizer, plan, call, own, self._journal)

    @property
    def looks(self) -> Sequence[Look]:
        """All looks so far, of all networks."""
        return tuple(self._journal.looks)

    @property
    def share(self) -> float:
        """Share of the time since the first step that looks have taken."""
        return sum(watched.share for watched in self._watched.values())

    @property
    def steps(self) -> int:
        """Optimiser steps so far; of several networks, the most."""
        return max(watched.steps for watched in self._watched.values())

    def look(self) -> Look:
        """Look now; of several networks, returns the last one's."""
        return [watched.look() for watched in self._watched.values()][-1]

    def mark(self, text: str) -> None:
        """Note that something happens now, such as a new task, for the picture."""
        self._journal.marks.append(Mark(self.steps, text))

    def note(self, **values: float) -> None:
        """Note numbers of the training's own, such as its loss, for the last row of the picture."""
        for name, value in values.items():
            self._journal.values.append(Value(self.steps, name, float(value)))

    def probe(self, network: str | None = None, **options: Any) -> ProbeResult:
        """Probe a network now: `draws`, `steps`, `optimizer` and `seed` as in `adalin.probe`.

        Raises ValueError where there is nothing to probe: no inputs were seen, or no fresh weights are known.
        """
        return self._only(network).probe(**options)

    def verdict(self, network: str | None = None, *, probe: bool = True) -> Diagnosis:
        """Can these weights still learn? Probes, unless the last probe was at this step.

        With `probe=False` the last probe counts, however old; without any, the state is "no probe".
        """
        if network is None and len(self._watched) > 1:
            each = {name: self.verdict(name, probe=probe) for name in self._watched}
            worst = min(each.values(), key=lambda diagnosis: STATES.index(diagnosis.state))
            return Diagnosis(worst.state, worst.sentence, worst.evidence, worst.remedies, worst.network, networks=each)
        watched = self._only(network)
        reason = watched.complaint
        notes = self._journal.of(watched.name)
        is_known = bool(notes.probes) and notes.probes[-1].step == watched.steps
        if probe and not is_known and not watched.off:
            if not notes.looks or notes.looks[-1].step != watched.steps:
                watched.look()
            try:
                watched.probe()
            except (ValueError, RuntimeError) as error:
                reason = str(error)
            notes = self._journal.of(watched.name)
        return diagnose(
            notes.looks[-1] if notes.looks else None,
            notes.looks[0] if watched.saw_the_start and notes.looks else None,
            notes.probes[-1].result if notes.probes else None,
            network=watched.name,
            subject=watched.label,
            why_no_probe=reason,
        )

    def report(self, path: str | Path = "monitor.html", *, probe: bool = True, title: str | None = None) -> Path:
        """Write the verdict and the pictures of all networks to one file; returns its path.

        A page (.html) needs nothing but a browser; a figure (.png, .pdf, .svg) needs matplotlib. `probe` as in
        `verdict`; `title` is the heading of a figure.
        """
        path = Path(path)
        if path.suffix not in (".html", ".png", ".pdf", ".svg"):
            raise ValueError(f"the report's name must end in .html, .png, .pdf or .svg: {path.name}")
        if not path.parent.is_dir():
            raise ValueError(f"there is no folder {path.parent} for {path.name}")
        networks = [
            pictured(
                "" if title and len(self._watched) == 1 else watched.label,
                self.verdict(name, probe=probe),
                self._journal.of(name),
            )
            for name, watched in self._watched.items()
        ]
        if path.suffix == ".html":
            path.write_text(page_of(networks), "utf-8")
        else:
            save_figure(networks, path, title=title or "Can these weights still learn?")
        return path

    def table(self) -> list[dict[str, Any]]:
        """One row per network, look and layer, for a data frame."""
        return [row for look in self._journal.looks for row in layer_rows(look)]

    def close(self) -> None:
        """Take all hooks away. What was seen stays."""
        for watched in self._watched.values():
            watched.close()

    def __str__(self) -> str:
        tables = []
        for name in self._watched:
            looks = self._journal.of(name).looks
            if looks:
                tables.append(layer_table(looks[-1], looks[0]))
            else:
                tables.append(f"{self._watched[name].label}: no look yet")
        return "\n\n".join(tables)

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _only(self, network: str | None) -> Watched:
        if network is None and len(self._watched) == 1:
            return next(iter(self._watched.values()))
        if network not in self._watched:
            raise ValueError(f"which network? Choose one of {', '.join(self._watched)}")
        return self._watched[network]


def _check(
    models: Mapping[str, nn.Module],
    every: int | None,
    budget: float,
    samples: int,
    gradients: int,
    probe: int | None,
) -> None:
    if not models:
        raise ValueError("there is no network to watch: the mapping is empty")
    for name, model in models.items():
        if not isinstance(model, nn.Module):
            what = f"{name!r} is" if name else "model must be"
            raise TypeError(f"{what} an nn.Module or a mapping of them, not {type(model).__name__}")
        if not any(p.requires_grad for p in model.parameters()):
            raise ValueError(f"{name or type(model).__name__} has no parameter that is trained")
    for option, value in (("every", every), ("samples", samples), ("gradients", gradients), ("probe", probe)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{option} must be a whole number of at least 1, not {value!r}")
    if not 0 < budget < 1:
        raise ValueError(f"budget is a share of the training time, between 0 and 1, not {budget!r}")
