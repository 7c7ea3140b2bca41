"""Class-incremental tasks: all classes so far, in the order of the class-split stream of the same seed."""

import weakref

import pytest
import torch

from adalin.streams._class_incremental import ClassIncremental
from adalin.streams._class_split import ClassSplit
from synthetic_data import synthetic


def make(kind: type[ClassSplit] = ClassIncremental, *, seed: int = 3, images: int = 15, scaling: str = "unit"):
    return kind(synthetic("cifar100"), seed=seed, images=images, scaling=scaling)


@pytest.mark.parametrize("images", [3, 13, 15])
def test_a_task_has_the_images_of_all_class_split_tasks_so_far(images: int) -> None:
    stream, split = make(images=images), make(ClassSplit, images=images)
    tasks = [split.task(index) for index in range(20)]
    for index in (0, 1, 7, 19):
        task = stream.task(index)
        assert len(task.labels) == (index + 1) * images
        assert torch.equal(task.floats(task.inputs), torch.cat([each.inputs for each in tasks[: index + 1]]))
        assert torch.equal(task.labels, torch.cat([each.labels for each in tasks[: index + 1]]))
    assert len(stream.task(19).labels.unique()) == min(images, 5) * 20


def test_inputs_and_labels_have_the_form_that_the_stream_tells() -> None:
    stream = make()
    task = stream.task(2)
    assert not stream.same_inputs
    assert stream.classes == 100
    assert task.inputs.shape == (45, *stream.shape)
    assert (task.inputs.dtype, task.labels.dtype) == (torch.uint8, torch.int64)
    assert len(task.inputs.flatten(1).unique(dim=0)) == 45


def test_the_same_index_gives_the_same_task_whatever_was_asked_before() -> None:
    stream, before = make(), torch.get_rng_state()
    first = stream.task(2)
    stream.task(5)
    for again in (stream.task(2), make().task(2)):
        assert torch.equal(first.inputs, again.inputs)
        assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.labels, make(seed=4).task(2).labels)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("index", [0, 4, 19])
@pytest.mark.parametrize("scaling", ["unit", "kumar2023"])
def test_every_task_is_tested_on_all_test_images_of_all_classes(index: int, scaling: str) -> None:
    data, stream = synthetic("cifar100"), make(scaling=scaling)
    inputs, labels = stream.task(index).test()
    assert torch.equal(labels, data.test_labels)
    assert torch.equal(inputs, data.test_images)
    assert torch.equal(stream.task(index).floats(inputs), stream._scale(data.test_images))
    assert len(labels.unique()) == 100


def test_nothing_but_the_bytes_of_the_data_set_stays_when_a_task_is_over() -> None:
    stream = make()
    task = stream.task(19)
    made = [weakref.ref(tensor) for tensor in (task.inputs, task.labels)]
    assert all(each() is not None for each in made)
    del task
    assert all(each() is None for each in made)


@pytest.mark.parametrize("index", [20, 100, -1])
def test_a_task_beyond_the_last_class_is_refused_in_one_line(index: int) -> None:
    with pytest.raises(ValueError, match=rf"^there are classes for 20 tasks only, not for task {index}$"):
        make().task(index)


def test_more_images_than_five_classes_have_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^images=21, but 5 classes of a synthetic cifar100 have 20 for training$"):
        make(images=21)
