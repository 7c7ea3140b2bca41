"""The training loop of one stack: task after task, epoch after epoch, to the end or to a signal.

All randomness comes from names (see `_seeds`), so a position is three numbers, and a run can stop after any step. A
checkpoint is written at a task's end, or inside a task when the last one is a while ago.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from adalin._seeds import generator
from adalin.data import Dataset
from adalin.metrics import Probe, measure
from adalin.streams import Stream, Task
from adalin.training._any_run import Report
from adalin.training._gram import Gram
from adalin.training._hardware import Hardware
from adalin.training._mlp_stack import MLPStack
from adalin.training._module_stack import ModuleStack
from adalin.training._preset import get_preset
from adalin.training._resume import resume
from adalin.training._run import Run
from adalin.training._run_folder import Checkpoint, RunFolder, RunFolderError
from adalin.training._stack import Stack, Trainee

PROBE_IMAGES = 1_200
"""Metrics of the training data are computed on this many images, evenly spaced: all of them in the random-label
benchmarks. With all 10,000 of Permuted MNIST measuring would take longer than training."""

MAX_STACK, CACHE_BYTES = 12, 4_500_000

CHUNK_SECONDS = 2.0
"""A signal is answered, and a checkpoint made, between pieces of an epoch that take about this long."""
FIRST_CHUNK = 10
"""Steps, before it is known how long they take."""


@dataclass(eq=False)
class Student:
    """A run while it is being trained."""

    run: Run
    folder: RunFolder
    stream: Stream
    trainee: Trainee
    task: int = 0
    step: int = 0
    accuracy_sum: float = 0.0
    """Over the batches of the current task so far."""
    tensors: dict[str, Tensor] | None = None
    """What to resume from."""

    @property
    def finished(self) -> bool:
        return self.task >= self.run.tasks

    def position(self, state: str) -> dict[str, Any]:
        return {"task": self.task, "step": self.step, "accuracy_sum": self.accuracy_sum, "state": state}


def train_runs(
    runs: Sequence[tuple[Run, RunFolder]],
    data: "Dataset | Streams | None",
    *,
    report: Report = lambda event, run, details: None,
    stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 60.0,
    hardware: Hardware | None = None,
) -> None:
    """Train runs to their end; those that fit together in stacks. Whoever calls holds the folders' locks.

    Given `Streams`, the data set is released once they are made, if nobody else holds it.
    """
    streams = data if isinstance(data, Streams) else Streams(data)
    students = []
    for run, folder in runs:
        try:
            students.append(_resume(run, folder, streams, report))
        except (ValueError, RunFolderError) as error:  # the others can go on
            report("error", run, {"message": str(error)})
    streams.release_dataset()
    stacks: dict[tuple[Any, ...], list[Student]] = {}
    for student in students:
        if student is not None:
            stacks.setdefault(_shape(student), []).append(student)
    for members in stacks.values():
        members.sort(key=lambda student: (student.trainee.recipe, student.run.seed))
        for start in range(0, len(members), size := _best_size(members[0])):
            if not stop():
                part = members[start : start + size]
                _Loop(part, report, stop, checkpoint_seconds, hardware or Hardware()).go()


class Streams:
    """The streams of runs and the Gram matrices of their inputs; runs that differ in their method only share them."""

    def __init__(self, dataset: Dataset | None) -> None:
        self._dataset = dataset
        self._streams: dict[tuple[Any, ...], Stream] = {}
        self._grams: dict[int, Gram | None] = {}

    def stream(self, run: Run) -> Stream:
        key = (run.benchmark, run.seed, run.images, run.inputs)
        if key not in self._streams:
            self._streams[key] = run.make_stream(self._dataset)
        return self._streams[key]

    def release_dataset(self) -> None:
        """Streams keep of it what they need."""
        self._dataset = None

    def gram(self, stream: Stream) -> Gram | None:
        if id(stream) not in self._grams:
            first = stream.task(0)
            self._grams[id(stream)] = Gram.of(first.floats(first.inputs).flatten(1))
        return self._grams[id(stream)]


def _resume(run: Run, folder: RunFolder, streams: Streams, report: Report) -> Student | None:
    """A run at its last checkpoint, or at its start; None if there is nothing left to do."""
    checkpoint, goes_on = resume(run, folder, report)
    if not goes_on:
        return None
    stream = streams.stream(run)
    trainee = _make_trainee(run, stream)
    if _is_mlp(trainee) and stream.same_inputs and all(rule.scales_only for rule in trainee.rules):
        trainee = replace(trainee, gram=streams.gram(stream))
    position = {name: value for name, value in checkpoint.position.items() if name != "state"}
    return Student(run, folder, stream, trainee, **position, tensors=checkpoint.tensors or None)


def _make_trainee(run: Run, stream: Stream) -> Trainee:
    return Trainee(
        run.make_model(stream, "init", 0),
        run.seed,
        run.lr,
        run.parsed_method.rules,
        init=run.init,
        method=run.method,
        clip=run.clip,
        preset=get_preset(run.preset),
        precision=run.precision,
    )


def is_stacked(run: Run, streams: Streams) -> bool:
    """Whether a run is trained in a stack of MLPs, on the CPU."""
    return _is_mlp(_make_trainee(run, streams.stream(run)))


def _shape(student: Student) -> tuple[Any, ...]:
    """Runs for which this is equal can be stacked."""
    run, gram = student.run, student.trainee.gram
    weights = tuple(weight.shape for weight in student.trainee.model.parameters() if weight.dim() > 1)
    stackable = _is_mlp(student.trainee)
    schedule = (run.benchmark, run.images, run.batch_size, run.epochs, run.steps, run.tasks)
    return (stackable, weights, gram and gram.inputs.shape, schedule, student.task, student.step)


def _is_mlp(trainee: Trainee) -> bool:
    return trainee.is_plain and MLPStack.fits(trainee.model)


def _best_size(student: Student) -> int:
    """How many runs to train at once: their weights should stay in the processor's cache."""
    if not _is_mlp(student.trainee):
        return 1  # they share nothing but memory
    gram, first = student.trainee.gram, max(student.trainee.model.parameters(), key=lambda weight: weight.numel())
    rows = first.numel() // len(first) if gram is None else len(gram.inputs)
    return max(1, min(MAX_STACK, CACHE_BYTES // (4 * rows * len(first))))


def _checked(data: Task, run: Run, task: int, classes: int) -> Task:
    for what, count in (("inputs", len(data.inputs)), ("labels", len(data.labels))):
        if count != (images := run.images_in(task)):
            raise ValueError(f"task {task} of {run.benchmark} has {count} {what}, not the {images} images of the run")
    least, most = data.labels.min().item(), data.labels.max().item()
    if data.labels.dtype != torch.int64 or least < 0 or most >= classes:
        raise ValueError(
            f"task {task} of {run.benchmark} has labels of {data.labels.dtype} from {least} to {most}, "
            f"not of torch.int64 from 0 to {classes - 1}"
        )
    return data


class _Loop:
    def __init__(
        self,
        students: list[Student],
        report: Report,
        stop: Callable[[], bool],
        checkpoint_seconds: float,
        hardware: Hardware,
    ) -> None:
        self._students, self._report, self._stop, self._hardware = students, report, stop, hardware
        self._checkpoint_seconds, self._saved = checkpoint_seconds, time.monotonic()
        self._charged = self._saved
        self._chunk = FIRST_CHUNK
        self._stack = _make_stack(students, hardware)

    def go(self) -> None:
        while self._students:
            self._train_task(self._students[0].task)
            if any(student.step for student in self._students):  # stopped inside the task
                self._save("stopped")
                return
            done = self._students and self._students[0].finished
            stopped = self._stop()  # asked once: a signal may come at any moment
            if done or stopped or self._due():
                self._save("done" if done else "stopped" if stopped else "running")
            if done or stopped:
                return

    def _train_task(self, task: int) -> None:
        run, resumed = self._students[0].run, self._students[0].step > 0
        streams = {id(student.stream): student.stream for student in self._students}
        tasks = {key: _checked(stream.task(task), run, task, stream.classes) for key, stream in streams.items()}
        data = [tasks[id(student.stream)] for student in self._students]
        if not resumed:
            for index, student in enumerate(self._students):
                if any(rule.restarts(task) for rule in student.trainee.rules):
                    self._stack.load(index, student.run.make_model(student.stream, "init", task))
        self._stack.start_task(task, data, resumed=resumed)
        while (step := self._students[0].step) < run.steps_in(task):
            if step > 0 and not resumed:
                if self._stop():
                    return
                if self._due():
                    self._save("running")
            resumed = False
            data = self._train_chunk(task, data)
            if not self._students:
                return
        self._stack.end_task()
        for index, (student, own) in enumerate(zip(self._students, data, strict=True)):
            self._finish_task(index, student, own)

    def _train_chunk(self, task: int, data: list[Task]) -> list[Task]:
        """Train for an epoch, or what is left of it, or a while; returns the data of the runs that are still there."""
        run, first, images = self._students[0].run, self._students[0].step, len(data[0].inputs)
        per_epoch = -(-images // run.batch_size)
        epoch, done = divmod(first, per_epoch)
        steps = min(per_epoch - done, run.steps_in(task) - first, self._chunk)
        seeds = [student.run.seed for student in self._students]
        order = torch.stack(
            [torch.randperm(images, generator=generator(seed, "order", task, epoch)) for seed in seeds]
        )[:, done * run.batch_size : (done + steps) * run.batch_size]
        before = [self._stack.state(index) for index in range(len(self._students))]
        start = time.monotonic()
        result = self._stack.train(order, run.batch_size, first)
        self._chunk = max(1, int(steps * CHUNK_SECONDS / max(time.monotonic() - start, 1e-6)))
        diverged = result.isnan().any(1).tolist()
        for student, own in zip(self._students, result, strict=True):
            student.step += steps
            # One by one, so that the sum does not depend on where a run was stopped.
            for accuracy in own.tolist():
                student.accuracy_sum += accuracy
        self._report("steps", run, {"steps": steps * len(self._students)})
        if not any(diverged):
            return data
        self._charge()
        for index, student in enumerate(self._students):
            if diverged[index]:
                student.accuracy_sum = 0.0
                student.step = first + int(result[index].isnan().int().argmax())
                self._record_divergence(student, before[index], data[index], order[index], first)
        return self._keep([not bad for bad in diverged], task, data)

    def _record_divergence(
        self, student: Student, before: dict[str, Tensor], data: Task, order: Tensor, first: int
    ) -> None:
        """Go back to before the chunk and train up to the step whose outputs are not finite, which is not made."""
        alone = _make_stack([student], self._hardware)
        alone.restore(0, before)
        alone.start_task(student.task, [data], resumed=True)
        images = (student.step - first) * student.run.batch_size
        if images:
            alone.train(order[None, :images], student.run.batch_size, first)
        student.folder.save(Checkpoint(alone.state(0), student.position("diverged")))
        self._report("diverged", student.run, student.position("diverged"))

    def _keep(self, staying: list[bool], task: int, data: list[Task]) -> list[Task]:
        """Go on with some of the runs only."""
        for index, student in enumerate(self._students):
            student.tensors = self._stack.state(index)
        self._students = [student for student, stays in zip(self._students, staying, strict=True) if stays]
        data = [own for own, stays in zip(data, staying, strict=True) if stays]
        if self._students:
            self._stack = _make_stack(self._students, self._hardware)
            self._stack.start_task(task, data, resumed=True)
        return data

    def _finish_task(self, index: int, student: Student, data: Task) -> None:
        chosen = torch.linspace(0, len(data.inputs) - 1, min(PROBE_IMAGES, len(data.inputs))).long()
        model = self._stack.model(index)
        device = next(model.parameters()).device
        probe = Probe(
            model,
            data.floats(data.inputs[chosen]).to(device),
            data.labels[chosen].to(device),
            test=None if data.test is None else data.test(),
            online_accuracy=student.accuracy_sum / student.run.steps_in(student.task),
        )
        row = {"task": student.task, **measure(probe)}
        student.folder.append_row(row)
        student.task, student.step, student.accuracy_sum = student.task + 1, 0, 0.0
        self._report("row", student.run, row)

    def _due(self) -> bool:
        return time.monotonic() - self._saved > self._checkpoint_seconds

    def _save(self, state: str) -> None:
        self._charge()
        for index, student in enumerate(self._students):
            student.folder.save(Checkpoint(self._stack.state(index), student.position(state)))
            if state != "running":
                self._report(state, student.run, student.position(state))
        self._saved = time.monotonic()

    def _charge(self) -> None:
        """Share the time since the last call among the runs."""
        before, self._charged = self._charged, time.monotonic()
        for student in self._students:
            student.folder.add_cost((self._charged - before) / len(self._students))


def _make_stack(students: Sequence[Student], hardware: Hardware) -> Stack:
    trainees = [student.trainee for student in students]
    stack = MLPStack(trainees) if _is_mlp(trainees[0]) else ModuleStack(trainees, hardware)
    for index, student in enumerate(students):
        if student.tensors is not None:
            stack.restore(index, student.tensors)
    return stack
