"""The loop of a run: task after task, epoch after epoch, to the end or to a signal.

All randomness comes from names (see `_seeds`), so a position is three numbers, and a run can stop after any step. A
checkpoint is written at a task's end, or inside a task when the last one is a while ago.
"""

import itertools
import time
from functools import partial

import torch
from torch import Tensor

from adalin.engine import Learner, Learning, NativeNet, Steps, make_net, presets
from adalin.metrics import NetworkOnData, measure
from adalin.monitor import examine_task
from adalin.runs import Checkpoint, Ended, Position, Progress, Row, RunFolder, Session, resume
from adalin.streams import Task
from adalin.supervised._build import StreamRun, Streams, make_network, optimizer_of, order_of, steps_in, task_of

METRIC_IMAGES = 1_200
"""Images of the training data that metrics are computed on, evenly spaced: all of them in the random-label benchmarks.
With all 10,000 of Permuted MNIST measuring would take longer than training."""
METRIC_CHUNK = 400
"""Images that pass at once: so few stay in the cache, and so many are worth the calls."""


def train_run(run: StreamRun, folder: RunFolder, streams: Streams, session: Session) -> None:
    """Train a run to its end, or until the session asks to stop. Whoever calls holds the folder's lock."""
    checkpoint = resume(run, folder, session)
    if checkpoint is not None:
        TrainingLoop(run, folder, checkpoint, streams, session).train()


class TrainingLoop:
    """Trains one run from where its checkpoint is."""

    def __init__(
        self, run: StreamRun, folder: RunFolder, checkpoint: Checkpoint, streams: Streams, session: Session
    ) -> None:
        self._run, self._folder, self._session = run, folder, session
        self._saved = self._charged = time.monotonic()
        self._stream = streams.stream(run)
        self._learner = _make_learner(run, streams, session)
        if checkpoint.tensors:
            self._learner.restore(checkpoint.tensors)
        position = Position.read(checkpoint.position)
        self._task, self._step = position.task, position.step
        self._accuracy_sum = float(position.more.get("accuracy_sum", 0.0))
        """Sum over the batches of the current task so far."""

    def train(self) -> None:
        """Train to the end, or until the session asks to stop."""
        while self._task < self._run.tasks:
            data = task_of(self._run, self._stream, self._task)
            if not self._train_task(data):
                return
            self._finish_task(data)
            done = self._task == self._run.tasks
            stopped = self._session.stop()  # asked once: a signal may come at any moment
            if done or stopped or self._due():
                self._save("done" if done else "stopped" if stopped else "running")
            if stopped:
                return

    def _train_task(self, data: Task) -> bool:
        """Make the steps of a task that are left; returns whether it got to their end."""
        run, task, batch_size = self._run, self._task, self._run.settings.batch_size
        steps, images = steps_in(run, task), len(data.inputs)
        per_epoch = -(-images // batch_size)
        self._learner.start_task(task, data, steps, resumed=self._step > 0)
        is_first = True
        while self._step < steps:
            epoch, done = divmod(self._step, per_epoch)
            order = order_of(run, images, task, epoch)
            end = min(per_epoch, done + steps - self._step)
            while done < end:
                if not is_first and self._step > 0 and self._has_to_stop():
                    return False
                is_first = False
                made = self._learner.train(order[done * batch_size : end * batch_size], self._step)
                self._note(made, order[done * batch_size :], batch_size)
                done += len(made)
                if made.diverged:
                    self._accuracy_sum = 0.0
                    self._save("diverged")
                    return False
        return True

    def _has_to_stop(self) -> bool:
        """Save if it is time to; returns whether the session asks to stop."""
        if self._session.stop():
            self._save("stopped")
            return True
        if self._due():
            self._save("running")
        return False

    def _note(self, made: Steps, rows: Tensor, batch_size: int) -> None:
        # One by one, so that the sum does not depend on where a run was stopped.
        if len(made):
            *full, last = made.correct.tolist()
            for correct in full:
                self._accuracy_sum += correct / batch_size
            self._accuracy_sum += last / min(batch_size, len(rows) - len(full) * batch_size)
            self._step += len(made)
            self._session.emit(Progress(self._run, len(made)))

    def _finish_task(self, data: Task) -> None:
        self._learner.end_task(self._step)
        net, images = self._learner.net, len(data.inputs)
        inputs, labels = data.inputs, data.labels
        if images > METRIC_IMAGES:
            chosen = torch.linspace(0, images - 1, METRIC_IMAGES).long()
            inputs, labels = inputs.index_select(0, chosen), labels.index_select(0, chosen)
        device = next(net.model.parameters()).device
        network = NetworkOnData(
            net.model,
            data.floats(inputs).to(device),
            labels.to(device),
            test=None if data.test is None else data.test(),
            online_accuracy=self._accuracy_sum / steps_in(self._run, self._task),
            scale=data.floats,
            predict=net.predict if isinstance(net, NativeNet) else None,
            passes=(net.forward_with_hooks, net.gradients_from)
            if isinstance(net, NativeNet) and net.can_call_hooks
            else None,
            chunk=METRIC_CHUNK,
        )
        row = {"task": self._task, **measure(network)}
        self._folder.append_row(row)
        if self._session.monitor:
            self._note_monitor(data.floats(inputs), labels)
        self._task, self._step, self._accuracy_sum = self._task + 1, 0, 0.0
        self._session.emit(Row(self._run, row))

    def _note_monitor(self, inputs: Tensor, labels: Tensor) -> None:
        """Looks and a probe of the network as it is now; training does not notice."""
        drawn = itertools.count()
        seen = examine_task(
            self._learner.net.model,
            inputs,
            labels,
            fresh=lambda: make_network(self._run, self._stream, "monitor", next(drawn)),
        )
        self._folder.append_monitor({"task": self._task, **seen})

    def _due(self) -> bool:
        return time.monotonic() - self._saved > self._session.checkpoint_seconds

    def _save(self, state: str) -> None:
        now = time.monotonic()
        self._folder.add_cost(now - self._charged)
        self._charged = now
        position = Position(self._task, self._step, state, more={"accuracy_sum": self._accuracy_sum})
        self._folder.save(Checkpoint(self._learner.state(), position.as_dict()))
        if state != "running":
            self._session.emit(Ended(self._run, position))
        self._saved = time.monotonic()


def _make_learner(run: StreamRun, streams: Streams, session: Session) -> Learner:
    settings, stream = run.settings, streams.stream(run)
    preset = presets.get(settings.preset)
    net = make_net(
        make_network(run, stream, "init", 0),
        hardware=session.hardware,
        seed=run.seed,
        preset=preset,
        precision=settings.precision,
        rules=run.parsed_method.rules,
    )
    learning = Learning(
        lr=settings.lr,
        batch_size=settings.batch_size,
        rules=run.parsed_method.rules,
        clip=settings.clip,
        preset=preset,
        seed=run.seed,
        init=settings.init,
    )
    return Learner(
        net,
        optimizer_of(run),
        learning,
        new_model=partial(make_network, run, stream, "init"),
        gram=partial(streams.gram, run),
    )
