"""What the tasks of each stream are."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from adalin.data import Dataset
from adalin.streams import Stream, Task, benchmarks, get_benchmark
from synthetic_data import synthetic

BENCHMARKS = list(benchmarks())


def make(benchmark: str, *, seed: int = 3, images: int = 15, scaling: str = "unit", data: Dataset | None = None):
    entry = get_benchmark(benchmark)
    return entry.stream(data or synthetic(entry.dataset or ""), seed=seed, images=images, scaling=scaling)


def tensors(task: Task) -> list[Tensor]:
    return [task.inputs, task.labels, *(() if task.test is None else task.test())]


def same(one: Task, other: Task) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors(one), tensors(other), strict=True))


def bytes_of(inputs: Tensor) -> Tensor:
    """Pixels as they were before they were scaled to [0, 1]."""
    return (inputs.flatten(1) * 255).round().long()


def true_labels(stream: Stream, data: Dataset) -> Tensor:
    """The class of each image of a stream that leaves images as they are."""
    labels = {
        tuple(image.flatten().tolist()): int(label)
        for image, label in zip(data.train_images, data.train_labels, strict=True)
    }
    return torch.tensor([labels[tuple(pixels.tolist())] for pixels in bytes_of(stream.task(0).inputs)])


# every stream


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_same_index_gives_the_same_task_whatever_was_asked_before(benchmark: str) -> None:
    stream = make(benchmark)
    first = stream.task(2)
    torch.manual_seed(99)
    stream.task(0)
    assert same(first, stream.task(2))
    assert same(first, make(benchmark).task(2))


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_other_tasks_and_other_seeds_give_other_data(benchmark: str) -> None:
    stream = make(benchmark)
    tasks = [stream.task(index) for index in range(4)] + [make(benchmark, seed=4).task(0)]
    for index, task in enumerate(tasks):
        assert not any(same(task, other) for other in tasks[:index])


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_tasks_leave_the_global_random_state_alone(benchmark: str) -> None:
    before = torch.get_rng_state()
    tensors(make(benchmark).task(1))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_task_has_as_many_images_as_were_asked_for_in_the_form_that_the_stream_tells(benchmark: str) -> None:
    for images in (3, 12, 20):
        stream = make(benchmark, images=images)
        task = stream.task(1)
        count = images * 2 if get_benchmark(benchmark).grows else images
        assert task.inputs.shape == (count, *stream.shape)
        assert task.floats(task.inputs).dtype == torch.float32
        assert task.labels.shape == (count,)
        assert task.labels.dtype == torch.int64
        assert 0 <= int(task.labels.min()) <= int(task.labels.max()) < stream.classes


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_stream_that_says_so_has_the_same_inputs_in_every_task_and_no_other_has(benchmark: str) -> None:
    stream = make(benchmark)
    assert torch.equal(stream.task(0).inputs, stream.task(1).inputs) == stream.same_inputs


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_no_image_comes_twice_in_a_task(benchmark: str) -> None:
    inputs = make(benchmark, images=20).task(1).inputs
    assert len(inputs.flatten(1).unique(dim=0)) == len(inputs)


# scaling


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_unit_inputs_are_the_bytes_over_255(benchmark: str) -> None:
    data = synthetic(get_benchmark(benchmark).dataset or "")
    ends = torch.tensor([0, 255, 51], dtype=torch.uint8)
    task = make(
        benchmark,
        data=replace(data, train_images=ends.repeat(data.train_images.numel() // 3).view_as(data.train_images)),
    ).task(0)
    assert task.floats(task.inputs).unique().tolist() == [0.0, torch.tensor(51 / 255).item(), 1.0]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_test_inputs_are_scaled_as_training_inputs_are(benchmark: str) -> None:
    for scaling in ("unit", "kumar2023"):
        data = synthetic(get_benchmark(benchmark).dataset or "")
        grey = replace(
            data, train_images=torch.full_like(data.train_images, 77), test_images=torch.full_like(data.test_images, 77)
        )
        task = make(benchmark, data=grey, scaling=scaling).task(0)
        if task.test is not None:
            assert torch.equal(task.floats(task.test()[0])[0], task.floats(task.inputs)[0])


@pytest.mark.parametrize(
    ("benchmark", "mean", "deviation"),
    [
        ("random-label-mnist", [0.5], [0.5]),
        ("random-label-cifar10", [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
        ("class-split-cifar100", [0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
    ],
)
def test_kumars_inputs_are_standardised_per_channel(benchmark: str, mean: list[float], deviation: list[float]) -> None:
    unit, kumar = (make(benchmark, scaling=scaling).task(1).inputs for scaling in ("unit", "kumar2023"))
    expected = [(unit[:, c] - mean[c]) / deviation[c] for c in range(len(mean))]
    torch.testing.assert_close(kumar, torch.stack(expected, 1))


# permuted pixels


def test_permuted_test_images_have_the_permutation_of_the_training_images() -> None:
    data = synthetic("mnist")
    data = replace(data, test_images=data.train_images, test_labels=data.train_labels)
    stream = make("permuted-mnist", images=len(data.train_images), data=data)
    for index in (0, 3):
        task = stream.task(index)
        train, test = (
            sorted(zip(bytes_of(task.floats(inputs)).tolist(), labels.tolist(), strict=True))
            for inputs, labels in ((task.inputs, task.labels), task.test())
        )
        assert train == test


def test_every_task_permutes_all_images_in_one_way_the_first_task_too() -> None:
    data = synthetic("mnist")
    stream = make("permuted-mnist", data=data)
    plain = data.test_images.flatten(1).long()
    for index in (0, 1):
        permuted = stream.task(index).test()[0].flatten(1).long()
        sources = [(plain == permuted[:, [pixel]]).all(0).nonzero().flatten().tolist() for pixel in range(36)]
        assert all(sources)  # each pixel of all images comes from one place
        assert not torch.equal(permuted, plain)
        assert torch.equal(permuted.sort(1).values, plain.sort(1).values)


def test_permuted_tasks_share_one_subset_of_images_with_its_true_labels() -> None:
    data = synthetic("mnist")
    known = {
        tuple(image.flatten().sort().values.tolist()): int(label)
        for image, label in zip(data.train_images, data.train_labels, strict=True)
    }
    assert len(known) == len(data.train_images)
    stream = make("permuted-mnist")
    keys = [[tuple(pixels.tolist()) for pixels in bytes_of(stream.task(i).inputs).sort(1).values] for i in (0, 1)]
    assert keys[0] == keys[1]
    assert [known[key] for key in keys[0]] == stream.task(0).labels.tolist() == stream.task(1).labels.tolist()


# random labels


def test_random_labels_are_uniform_and_independent_of_the_true_ones() -> None:
    data = synthetic("mnist")
    stream = make("random-label-mnist", images=40, data=data)
    drawn = torch.cat([stream.task(index).labels for index in range(500)])
    true = true_labels(stream, data).repeat(500)
    table = torch.zeros(10, 10, dtype=torch.float64)
    table.index_put_((true, drawn), torch.ones((), dtype=torch.float64), accumulate=True)
    assert chi_square(table.sum(0), torch.full((10,), 2000.0)) < 27.9  # 9 degrees of freedom, one in a thousand
    assert chi_square(table, torch.full((10, 10), 200.0)) < 149  # 99 degrees of freedom


def test_random_labels_are_not_a_permutation_of_the_true_ones() -> None:
    stream = make("random-label-mnist", images=40)
    assert any(stream.task(index).labels.bincount(minlength=10).tolist() != [4] * 10 for index in range(3))


def test_an_image_keeps_its_random_label_by_chance_only() -> None:
    stream = make("random-label-mnist", images=40)
    kept = [(stream.task(i).labels == stream.task(i + 1).labels).double().mean().item() for i in range(100)]
    assert sum(kept) / 100 == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("benchmark", ["random-label-mnist", "random-label-cifar10"])
def test_random_labels_have_no_test_set(benchmark: str) -> None:
    assert make(benchmark).task(0).test is None


def chi_square(seen: Tensor, expected: Tensor) -> float:
    return ((seen - expected) ** 2 / expected).sum().item()


# shuffled labels


def test_shuffled_labels_rename_the_classes_of_training_and_test_images_alike() -> None:
    data = synthetic("cifar10")
    stream = make("shuffled-label-cifar10", images=20, data=data)
    true, maps = true_labels(stream, data), []
    for index in range(5):
        task = stream.task(index)
        renamed = dict(zip(true.tolist(), task.labels.tolist(), strict=True))
        assert sorted(renamed) == sorted(renamed.values()) == list(range(10))
        assert [renamed[label] for label in true.tolist()] == task.labels.tolist()
        inputs, labels = task.test()
        assert [renamed[label] for label in data.test_labels.tolist()] == labels.tolist()
        assert torch.equal(inputs, data.test_images)
        maps.append(tuple(renamed[label] for label in range(10)))
    assert len({*maps, tuple(range(10))}) == 6  # the first task renames too


@pytest.mark.parametrize(("images", "counts"), [(20, [2] * 10), (23, [3] * 3 + [2] * 7)])
def test_the_subset_of_shuffled_labels_is_balanced(images: int, counts: list[int]) -> None:
    data = synthetic("cifar10")
    assert true_labels(make("shuffled-label-cifar10", images=images, data=data), data).bincount().tolist() == counts


# class split


def test_twenty_tasks_have_a_hundred_classes_five_each() -> None:
    stream = make("class-split-cifar100")
    classes = [stream.task(index).labels.unique().tolist() for index in range(20)]
    assert all(len(own) == 5 for own in classes)
    assert sorted(label for own in classes for label in own) == list(range(100))
    assert stream.classes == 100


def test_a_class_split_task_tests_on_all_test_images_of_its_classes_and_no_others() -> None:
    data = synthetic("cifar100")
    for index in (0, 19):
        task = make("class-split-cifar100", data=data).task(index)
        inputs, labels = task.test()
        expected = data.test_labels[torch.isin(data.test_labels, task.labels)]
        assert sorted(labels.tolist()) == sorted(expected.tolist())
        assert len(inputs) == 10


@pytest.mark.parametrize(("images", "counts"), [(20, [4] * 5), (13, [2, 2, 3, 3, 3]), (3, [1, 1, 1])])
def test_class_split_divides_images_evenly_among_the_classes(images: int, counts: list[int]) -> None:
    labels = make("class-split-cifar100", images=images).task(7).labels
    assert sorted(labels.unique(return_counts=True)[1].tolist()) == counts


def test_a_class_split_label_is_the_class_of_its_image() -> None:
    data = synthetic("cifar100")
    stream = make("class-split-cifar100", data=data)
    assert torch.equal(true_labels(stream, data), stream.task(0).labels)


@pytest.mark.parametrize("index", [20, 100, -1])
def test_a_task_beyond_the_last_class_is_refused_in_one_line(index: int) -> None:
    with pytest.raises(ValueError, match=rf"^there are classes for 20 tasks only, not for task {index}$"):
        make("class-split-cifar100").task(index)


def test_more_images_than_the_classes_have_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^images=21, but 5 classes of a synthetic cifar100 have 20 for training$"):
        make("class-split-cifar100", images=21)


def test_floats_scales_pixels_and_leaves_what_is_scaled_already() -> None:
    pixels = torch.tensor([[0, 255]], dtype=torch.uint8)
    task = Task(pixels, torch.zeros(1, dtype=torch.int64), scale=lambda images: images / 255)
    assert task.floats(pixels).tolist() == [[0.0, 1.0]]
    assert task.floats(torch.tensor([[2.0]])).tolist() == [[2.0]]
