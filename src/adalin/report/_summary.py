"""Methods compared over seeds: mean and standard deviation per task."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from adalin.training import Result


@dataclass(frozen=True)
class Summary:
    """One method on one benchmark, over its seeds."""

    method: str
    results: Sequence[Result]

    @property
    def tasks(self) -> int:
        """Finished by every seed."""
        return min(len(result.rows) for result in self.results)

    def values(self, metric: str, task: int) -> list[float]:
        """Of each seed; None of them where the metric does not apply."""
        found = [result.rows[task].get(metric) for result in self.results]
        return [value for value in found if isinstance(value, int | float)]

    def curve(self, metric: str = "online_accuracy") -> list[tuple[float, float]]:
        """(mean, standard deviation) over seeds, task by task."""
        return [spread(self.values(metric, task)) for task in range(self.tasks)]

    def total(self, metric: str = "online_accuracy") -> tuple[float, float] | None:
        """(mean, standard deviation) over seeds of the mean over tasks."""
        totals = []
        for index in range(len(self.results)):
            rows = self.results[index].rows[: self.tasks]
            values = [row[metric] for row in rows if isinstance(row.get(metric), int | float)]
            if values:
                totals.append(mean(values))
        return spread(totals) if totals else None


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for one value)."""
    return mean(values), stdev(values) if len(values) > 1 else 0.0


def summarise(results: Sequence[Result]) -> list[Summary]:
    """One summary per setting, in the order in which they appear; a method with several is named with what differs."""
    settings: dict[str, list[Result]] = {}
    for result in results:
        settings.setdefault(result.run.folder.parent.name, []).append(result)
    configs = [members[0].run.config() for members in settings.values()]
    names = []
    for config in configs:
        others = [other for other in configs if other["method"] == config["method"]]
        differing = [name for name in config if name != "seed" and any(other[name] != config[name] for other in others)]
        names.append(" ".join((config["method"], *(f"{name}={config[name]}" for name in differing))))
    return [Summary(name, members) for name, members in zip(names, settings.values(), strict=True)]
