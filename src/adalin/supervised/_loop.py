"""The training loop of one stack: task after task, epoch after epoch, to the end or to a signal.

All randomness comes from names (see `_seeds`), so a position is three numbers, and a run can stop after any step. A
checkpoint is written at a task's end, or inside a task when the last one is a while ago.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from adalin._hardware import Hardware
from adalin.engine import MLPStack, ModuleStack, NetworkSpec, Stack, presets
from adalin.metrics import Probe, measure
from adalin.runs import (
    Checkpoint,
    Ended,
    Position,
    Problem,
    Progress,
    Row,
    RunFolder,
    RunFolderError,
    Session,
    resume,
)
from adalin.streams import Stream, Task
from adalin.supervised._build import StreamRun, Streams, images_in, make_network, order_of, steps_in

PROBE_IMAGES = 1_200
"""Images of the training data that metrics are computed on, evenly spaced: all of them in the random-label benchmarks.
With all 10,000 of Permuted MNIST measuring would take longer than training."""

MAX_STACK = 12
"""Largest number of runs that are trained together."""
CACHE_BYTES = 4_500_000
"""Size of the weights of runs that are trained together, as much as a processor's cache holds."""

CHUNK_SECONDS = 2.0
"""A signal is answered, and a checkpoint made, between pieces of an epoch that take about this long."""
FIRST_CHUNK = 10
"""Steps of the first piece, before it is known how long they take."""


@dataclass(eq=False)
class TrainingRun:
    """A run while it is being trained."""

    run: StreamRun
    folder: RunFolder
    stream: Stream
    spec: NetworkSpec
    task: int = 0
    step: int = 0
    accuracy_sum: float = 0.0
    """Sum over the batches of the current task so far."""
    tensors: dict[str, Tensor] | None = None
    """State to resume from."""

    @property
    def finished(self) -> bool:
        """Whether all tasks are over."""
        return self.task >= self.run.tasks

    def position(self, state: str) -> Position:
        """Where it is now."""
        return Position(self.task, self.step, state, more={"accuracy_sum": self.accuracy_sum})


def train_runs(runs: Sequence[tuple[StreamRun, RunFolder]], streams: Streams, session: Session) -> None:
    """Train runs to their end; those that fit together in stacks. Whoever calls holds the folders' locks."""
    members = []
    for run, folder in runs:
        try:
            member = _resume(run, folder, streams, session)
        except (ValueError, RunFolderError) as error:  # the others can go on
            session.emit(Problem(run, str(error)))
            continue
        if member is not None:
            members.append(member)
    for stack in _stacks(members):
        if not session.stop():
            TrainingLoop(stack, session).run()


def is_stacked(run: StreamRun, streams: Streams) -> bool:
    """Whether a run is trained in a stack of MLPs, on the CPU."""
    return _is_mlp(_make_spec(run, streams.stream(run)))


def _stacks(members: Sequence[TrainingRun]) -> list[list[TrainingRun]]:
    shapes: dict[tuple[Any, ...], list[TrainingRun]] = {}
    for member in members:
        shapes.setdefault(_shape(member), []).append(member)
    stacks = []
    for alike in shapes.values():
        alike.sort(key=lambda member: (member.spec.recipe, member.run.seed))
        size = _best_size(alike[0])
        stacks += [alike[start : start + size] for start in range(0, len(alike), size)]
    return stacks


def _resume(run: StreamRun, folder: RunFolder, streams: Streams, session: Session) -> TrainingRun | None:
    """A run at its last checkpoint, or at its start; None if there is nothing left to do."""
    checkpoint = resume(run, folder, session)
    if checkpoint is None:
        return None
    stream = streams.stream(run)
    spec = _make_spec(run, stream)
    if _is_mlp(spec) and stream.same_inputs and all(rule.scales_only for rule in spec.rules):
        spec = replace(spec, gram=streams.gram(stream))
    position = Position.read(checkpoint.position)
    accuracy_sum = float(position.more.get("accuracy_sum", 0.0))
    tensors = checkpoint.tensors or None
    return TrainingRun(run, folder, stream, spec, position.task, position.step, accuracy_sum, tensors)


def _make_spec(run: StreamRun, stream: Stream) -> NetworkSpec:
    settings = run.settings
    return NetworkSpec(
        make_network(run, stream, "init", 0),
        run.seed,
        settings.lr,
        run.parsed_method.rules,
        init=settings.init,
        method=run.method,
        clip=settings.clip,
        preset=presets.get(settings.preset),
        precision=settings.precision,
    )


def _shape(member: TrainingRun) -> tuple[Any, ...]:
    """Runs for which this is equal can be stacked."""
    run, gram = member.run, member.spec.gram
    weights = tuple(weight.shape for weight in member.spec.model.parameters() if weight.dim() > 1)
    stackable = _is_mlp(member.spec)
    settings = run.settings
    schedule = (run.benchmark, settings.images, settings.batch_size, settings.epochs, settings.steps, settings.tasks)
    return (stackable, weights, gram and gram.inputs.shape, schedule, member.task, member.step)


def _is_mlp(spec: NetworkSpec) -> bool:
    return spec.is_plain and MLPStack.fits(spec.model)


def _best_size(member: TrainingRun) -> int:
    """How many runs to train at once: their weights should stay in the processor's cache."""
    if not _is_mlp(member.spec):
        return 1  # they share nothing but memory
    gram, first = member.spec.gram, max(member.spec.model.parameters(), key=lambda weight: weight.numel())
    rows = first.numel() // len(first) if gram is None else len(gram.inputs)
    return max(1, min(MAX_STACK, CACHE_BYTES // (4 * rows * len(first))))


def _checked(data: Task, run: StreamRun, task: int, classes: int) -> Task:
    for what, count in (("inputs", len(data.inputs)), ("labels", len(data.labels))):
        if count != (images := images_in(run, task)):
            raise ValueError(f"task {task} of {run.benchmark} has {count} {what}, not the {images} images of the run")
    least, most = data.labels.min().item(), data.labels.max().item()
    if data.labels.dtype != torch.int64 or least < 0 or most >= classes:
        raise ValueError(
            f"task {task} of {run.benchmark} has labels of {data.labels.dtype} from {least} to {most}, "
            f"not of torch.int64 from 0 to {classes - 1}"
        )
    return data


class TrainingLoop:
    """Trains one stack of runs."""

    def __init__(self, members: list[TrainingRun], session: Session) -> None:
        self._members, self._session = members, session
        self._saved = self._charged = time.monotonic()
        self._chunk = FIRST_CHUNK
        self._stack = _make_stack(members, session.hardware)

    def run(self) -> None:
        """Train to the end, or until the session asks to stop."""
        while self._members:
            self._train_task(self._members[0].task)
            if any(member.step for member in self._members):  # stopped inside the task
                self._save("stopped")
                return
            done = self._members and self._members[0].finished
            stopped = self._session.stop()  # asked once: a signal may come at any moment
            if done or stopped or self._due():
                self._save("done" if done else "stopped" if stopped else "running")
            if done or stopped:
                return

    def _train_task(self, task: int) -> None:
        run, resumed = self._members[0].run, self._members[0].step > 0
        streams = {id(member.stream): member.stream for member in self._members}
        tasks = {key: _checked(stream.task(task), run, task, stream.classes) for key, stream in streams.items()}
        data = [tasks[id(member.stream)] for member in self._members]
        if not resumed:
            for index, member in enumerate(self._members):
                if any(rule.restarts(task) for rule in member.spec.rules):
                    self._stack.load(index, make_network(member.run, member.stream, "init", task))
        self._stack.start_task(task, data, resumed=resumed)
        while (step := self._members[0].step) < steps_in(run, task):
            if step > 0 and not resumed:
                if self._session.stop():
                    return
                if self._due():
                    self._save("running")
            resumed = False
            data = self._train_chunk(task, data)
            if not self._members:
                return
        self._stack.end_task()
        for index, (member, own) in enumerate(zip(self._members, data, strict=True)):
            self._finish_task(index, member, own)

    def _train_chunk(self, task: int, data: list[Task]) -> list[Task]:
        """Train for an epoch, or what is left of it, or a while; returns the data of the runs that are still there."""
        run, first = self._members[0].run, self._members[0].step
        images, batch_size = len(data[0].inputs), run.settings.batch_size
        per_epoch = -(-images // batch_size)
        epoch, done = divmod(first, per_epoch)
        steps = min(per_epoch - done, steps_in(run, task) - first, self._chunk)
        whole = torch.stack([order_of(member.run, images, task, epoch) for member in self._members])
        order = whole[:, done * batch_size : (done + steps) * batch_size]
        before = [self._stack.state(index) for index in range(len(self._members))]
        start = time.monotonic()
        result = self._stack.train(order, batch_size, first)
        self._chunk = max(1, int(steps * CHUNK_SECONDS / max(time.monotonic() - start, 1e-6)))
        diverged = result.isnan().any(1).tolist()
        for member, own in zip(self._members, result, strict=True):
            member.step += steps
            # One by one, so that the sum does not depend on where a run was stopped.
            for accuracy in own.tolist():
                member.accuracy_sum += accuracy
        self._session.emit(Progress(run, steps * len(self._members)))
        if not any(diverged):
            return data
        self._charge()
        for index, member in enumerate(self._members):
            if diverged[index]:
                member.accuracy_sum = 0.0
                member.step = first + int(result[index].isnan().int().argmax())
                self._record_divergence(member, before[index], data[index], order[index], first)
        return self._keep([not bad for bad in diverged], task, data)

    def _record_divergence(
        self, member: TrainingRun, before: dict[str, Tensor], data: Task, order: Tensor, first: int
    ) -> None:
        """Go back to before the chunk and train up to the step whose outputs are not finite, which is not made."""
        alone = _make_stack([member], self._session.hardware)
        alone.restore(0, before)
        alone.start_task(member.task, [data], resumed=True)
        batch_size = member.run.settings.batch_size
        images = (member.step - first) * batch_size
        if images:
            alone.train(order[None, :images], batch_size, first)
        position = member.position("diverged")
        member.folder.save(Checkpoint(alone.state(0), position.as_dict()))
        self._session.emit(Ended(member.run, position))

    def _keep(self, staying: list[bool], task: int, data: list[Task]) -> list[Task]:
        """Go on with some of the runs only."""
        for index, member in enumerate(self._members):
            member.tensors = self._stack.state(index)
        self._members = [member for member, stays in zip(self._members, staying, strict=True) if stays]
        data = [own for own, stays in zip(data, staying, strict=True) if stays]
        if self._members:
            self._stack = _make_stack(self._members, self._session.hardware)
            self._stack.start_task(task, data, resumed=True)
        return data

    def _finish_task(self, index: int, member: TrainingRun, data: Task) -> None:
        chosen = torch.linspace(0, len(data.inputs) - 1, min(PROBE_IMAGES, len(data.inputs))).long()
        model = self._stack.model(index)
        device = next(model.parameters()).device
        probe = Probe(
            model,
            data.floats(data.inputs[chosen]).to(device),
            data.labels[chosen].to(device),
            test=None if data.test is None else data.test(),
            online_accuracy=member.accuracy_sum / steps_in(member.run, member.task),
        )
        row = {"task": member.task, **measure(probe)}
        member.folder.append_row(row)
        member.task, member.step, member.accuracy_sum = member.task + 1, 0, 0.0
        self._session.emit(Row(member.run, row))

    def _due(self) -> bool:
        return time.monotonic() - self._saved > self._session.checkpoint_seconds

    def _save(self, state: str) -> None:
        self._charge()
        for index, member in enumerate(self._members):
            position = member.position(state)
            member.folder.save(Checkpoint(self._stack.state(index), position.as_dict()))
            if state != "running":
                self._session.emit(Ended(member.run, position))
        self._saved = time.monotonic()

    def _charge(self) -> None:
        """Share the time since the last call among the runs."""
        before, self._charged = self._charged, time.monotonic()
        for member in self._members:
            member.folder.add_cost((self._charged - before) / len(self._members))


def _make_stack(members: Sequence[TrainingRun], hardware: Hardware) -> Stack:
    specs = [member.spec for member in members]
    stack = MLPStack(specs) if _is_mlp(specs[0]) else ModuleStack(specs, hardware)
    for index, member in enumerate(members):
        if member.tensors is not None:
            stack.restore(index, member.tensors)
    return stack
