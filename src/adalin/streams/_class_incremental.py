import torch
from torch import Tensor

from adalin.streams._class_split import CLASSES_PER_TASK, ClassSplit, places
from adalin.streams._stream import Task


class ClassIncremental(ClassSplit):
    """All classes so far, and five new ones in each task: task t has (t + 1) * `images` images.

    The order of the classes, and the images of each, are those of `ClassSplit`; the images of a task begin with those
    of the task before. It is tested on all test images, those of classes that are still to come too. Images of its
    classes that are not trained on are for validation.
    """

    def task(self, index: int) -> Task:
        data, old = self._dataset, self._order[: index * CLASSES_PER_TASK]
        classes = torch.cat((old, self._new_classes(index)))
        per_class = self._per_class * (index + 1)
        chosen = places(data.train_labels, classes, per_class)

        def validation() -> tuple[Tensor, Tensor]:
            kept = [places(data.train_labels, label[None], [len(data.train_labels)]) for label in classes]
            others = torch.cat([own[count:] for own, count in zip(kept, per_class, strict=True)])
            return self._scale(data.train_images[others]), data.train_labels[others]

        everything = int(torch.isin(data.train_labels, classes).sum())
        return Task(
            data.train_images[chosen],  # as bytes: as floats, the last task takes 614 MB
            data.train_labels[chosen],
            lambda: (data.test_images, data.test_labels),
            self._scale,
            validation if len(chosen) < everything else None,
        )
