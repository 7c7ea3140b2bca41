"""What `adalin demo` tells: a network stops learning, the monitor finds out, it is treated, and learns again."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from torch import Tensor, nn

from adalin.data import BUNDLED, load
from adalin.monitor import Diagnosis, Monitor
from adalin.report import BLUE, VERMILION, Values, mean_and_deviation
from adalin.surgery import Conversion, convert

WIDTH, BATCH, RATE = 100, 16, 0.05
"""Units of each of the two hidden layers, images of a batch, learning rate of SGD."""
CLASSES = 10


@dataclass
class Course:
    """One network over tasks: a plain loop of training, and a monitor beside it."""

    network: nn.Sequential
    """Network that learns."""
    seed: int
    """Seed of its weights, images and labels."""
    monitor: Monitor = field(init=False)
    """Monitor of the network."""
    accuracies: list[float] = field(default_factory=list)
    """Online accuracy of each task: mean batch accuracy before the update."""
    dead: list[float] = field(default_factory=list)
    """Share of hidden units that are dead at each task's end."""

    def __post_init__(self) -> None:
        self.monitor = Monitor(self.network)
        self._optimizer = torch.optim.SGD(self.network.parameters(), lr=RATE)

    def learn(self, inputs: Tensor, epochs: int) -> None:
        """Learn a task: new random labels for the same inputs."""
        random = torch.Generator().manual_seed(1_000 * self.seed + len(self.accuracies))
        labels = torch.randint(CLASSES, (len(inputs),), generator=random)
        right = 0
        for _ in range(epochs):
            for batch in torch.randperm(len(inputs), generator=random).split(BATCH):
                outputs = self.network(inputs[batch])
                right += int((outputs.argmax(1) == labels[batch]).sum())
                self._optimizer.zero_grad()
                F.cross_entropy(outputs, labels[batch]).backward()
                self._optimizer.step()
        self.accuracies.append(right / (epochs * len(inputs)))
        layers = self.monitor.look().layers.values()
        self.dead.append(sum(layer["dead"] for layer in layers) / len(layers))


@dataclass(frozen=True, eq=False)
class Story:
    """What became of networks that were left alone and of the same ones after they had been treated."""

    treated_after: int
    """Number of tasks before the treatment."""
    alone: Sequence[Course]
    """Networks that were left alone, one for each seed."""
    treated: Sequence[Course]
    """The same networks, treated; their courses begin with those of the others."""
    before: Sequence[Diagnosis]
    """Verdicts on the networks when they were treated."""
    after: Sequence[Diagnosis]
    """Verdicts on the treated networks at the end."""


def tell_story(
    seeds: Sequence[int], *, tasks: int, images: int, epochs: int, tell: Callable[[str], None] = lambda line: None
) -> Story:
    """Train a network for each seed on random labels of the bundled digits, and treat it after two thirds of the tasks.

    `tell` hears what happens: all of the first network, the verdicts of the others.
    """
    if min(tasks, images, epochs, len(seeds)) < 1:
        raise ValueError("a demo needs at least one task, epoch, image and seed")
    digits = load("mnist", BUNDLED).train_images
    if images > len(digits):
        raise ValueError(f"there are {len(digits):,} bundled digits, not {images:,}")
    turn = max(1, 2 * tasks // 3)
    alone, treated, before, after = [], [], [], []
    for number, seed in enumerate(seeds):
        inputs, course = _begin(seed, digits, images)
        _learn(course, inputs, turn, epochs, tell)
        before.append(course.monitor.verdict())
        tell(f"\nThe monitor's verdict after task {turn}: {before[-1] if number == 0 else before[-1].sentence}\n")
        other = Course(copy.deepcopy(course.network), seed)
        conversion = _treat(other)
        if number == 0:
            tell(f"Treated, with adalin.convert(network):\n{conversion}\n")
        other.accuracies, other.dead = list(course.accuracies), list(course.dead)
        _learn(other, inputs, tasks - turn, epochs, tell, "treated")
        _learn(course, inputs, tasks - turn, epochs, tell, "left alone")
        after.append(other.monitor.verdict())
        tell(f"\nThe verdict on the treated network: {after[-1].sentence}\n")
        alone.append(course)
        treated.append(other)
    return Story(turn, alone, treated, before, after)


def _begin(seed: int, digits: Tensor, images: int) -> tuple[Tensor, Course]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        chosen = torch.randperm(len(digits))[:images]
        inputs = digits[chosen].flatten(1).float() / 255
        layers = (nn.Linear(inputs.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        return inputs, Course(nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES)), seed)


def _treat(course: Course) -> Conversion:
    """Convert the network; its new parameters get a new optimiser, and the monitor sees the new activations."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(course.seed)
        conversion = convert(course.network)
    course.monitor.close()
    course.__post_init__()
    return conversion


def _learn(course: Course, inputs: Tensor, tasks: int, epochs: int, tell: Callable[[str], None], who: str = "") -> None:
    for _ in range(tasks):
        course.learn(inputs, epochs)
        note = f", {who}" if who else ""
        numbers = f"accuracy {course.accuracies[-1]:.2f}, dead units {course.dead[-1]:.0%}"
        tell(f"seed {course.seed}, task {len(course.accuracies):2}: {numbers}{note}")


def draw_story(story: Story) -> Figure:
    """Accuracies above, dead units below, of networks that were left alone and of those that were treated."""
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    courses = ((story.alone, VERMILION, "ReLU, left alone", 0), (story.treated, BLUE, "treated with AdaLin", 1))
    for members, colour, label, is_treated in courses:
        begins = story.treated_after * is_treated
        _band(above, np.array([course.accuracies for course in members]), begins, colour, label)
        _band(below, np.array([course.dead for course in members]), begins, colour, label)
    for axes in (above, below):
        axes.axvline(story.treated_after + 0.5, color="#555555", linestyle=":", linewidth=1.2)
        axes.set_ylim(0, 1)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    lost = sum(diagnosis.state == "lost" for diagnosis in story.before)
    found = f'verdict "lost" for {lost} of {len(story.before)}: treated'
    above.text(story.treated_after + 0.42, 1.02, found, ha="right", fontsize="small", color="#555555")
    above.set_title("A network stops learning, is found out, treated, and learns again", loc="left", y=1.08)
    above.set_ylabel("online accuracy")
    above.axhline(1 / CLASSES, color="#999999", linewidth=0.8)
    above.text(1, 1 / CLASSES + 0.02, "chance", fontsize="small", color="#777777")
    above.legend(frameon=False, loc="center right")
    below.set_ylabel("dead units")
    below.yaxis.set_major_formatter(PercentFormatter(1))
    below.set_xlabel("task: new random labels for the same digits")
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _band(axes: Axes, values: Values, begins: int, colour: str, label: str) -> None:
    """The mean over seeds and one standard deviation, from a task on."""
    mean, deviation = mean_and_deviation(values)
    tasks = np.arange(1, len(mean) + 1)[begins:]
    low, high = (mean - deviation)[begins:], (mean + deviation)[begins:]
    axes.plot(tasks, mean[begins:], color=colour, marker="o", markersize=4, label=label, zorder=3)
    axes.fill_between(tasks, low, high, color=colour, alpha=0.15, linewidth=0, zorder=1)
