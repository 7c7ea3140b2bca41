"""Which places of which tensors belong to one unit: atoms that are found to be the same, one by one."""

import torch
from torch import Tensor

NONE = -1
"""Label of a number that belongs to no unit."""


class Atoms:
    """One atom for each index along an axis of a parameter; those that the model combines number by number are one."""

    def __init__(self) -> None:
        self.axes: dict[tuple[str, int], Tensor] = {}
        """Atoms along an axis of a parameter or buffer."""
        self.count = 0
        self.fixed: list[tuple[Tensor, str]] = []
        """Atoms that cannot change places, and why."""
        self.grouped: list[tuple[Tensor, int]] = []
        """Atoms that change places within groups only, and the number of groups."""
        self._pairs: list[Tensor] = []

    def new(self, count: int) -> Tensor:
        """As many atoms that are not yet the same as any others."""
        self.count += count
        return torch.arange(self.count - count, self.count)

    def along(self, name: str, axis: int, size: int) -> Tensor:
        """The atoms along an axis of a parameter."""
        if (name, axis) not in self.axes:
            self.axes[name, axis] = self.new(size)
        return self.axes[name, axis]

    def join(self, one: Tensor, other: Tensor) -> None:
        """What stands in the same place of two label tensors belongs to the same unit."""
        one, other = torch.broadcast_tensors(one, other)
        kept = [k for k in range(one.dim()) if one.stride(k) or other.stride(k)]
        index = tuple(slice(None) if k in kept else 0 for k in range(one.dim()))
        pairs = torch.stack([one[index].reshape(-1), other[index].reshape(-1)])
        pairs = pairs[:, (pairs[0] != pairs[1]) & (pairs[0] >= 0) & (pairs[1] >= 0)]
        if pairs.numel():
            self._pairs.append(torch.unique(pairs, dim=1) if len(kept) > 1 else pairs)

    def fix(self, atoms: Tensor, reason: str) -> None:
        """Say that these cannot change places."""
        self.fixed.append((atoms, reason))

    def group(self, atoms: Tensor, groups: int) -> None:
        """Say that these may change places only within groups of neighbours."""
        if groups > 1:
            self.grouped.append((atoms, groups))

    def roots(self) -> Tensor:
        """For each atom the smallest of those that are the same."""
        root = torch.arange(self.count)
        if not self._pairs:
            return root
        one, other = torch.cat(self._pairs, dim=1)
        while True:
            least = torch.minimum(root[one], root[other])
            new = root.scatter_reduce(0, root[one], least, "amin").scatter_reduce(0, root[other], least, "amin")
            new = new[new]
            if torch.equal(new, root):
                return root
            root = new


def labels_along(atoms: Tensor, axis: int, shape: torch.Size) -> Tensor:
    """Labels of a tensor whose units lie along one axis."""
    return atoms.view([-1 if k == axis % len(shape) else 1 for k in range(len(shape))]).expand(shape)


def varying(labels: Tensor) -> tuple[int, ...]:
    """Axes along which labels are not all the same."""
    axes = [k for k in range(labels.dim()) if labels.stride(k) and labels.shape[k] > 1]
    return tuple(k for k in axes if not torch.equal(labels, labels.narrow(k, 0, 1).expand_as(labels)))


def compact(labels: Tensor) -> Tensor:
    """The same labels as a view that is expanded along the axes where they do not vary."""
    axes = varying(labels)
    index = tuple(slice(None) if k in axes else slice(0, 1) for k in range(labels.dim()))
    return labels[index].clone().expand(labels.shape)


def along(labels: Tensor, axis: int) -> Tensor | None:
    """Labels along one axis, if they are the same along all others."""
    axis %= labels.dim()
    if any(k != axis for k in varying(labels)):
        return None
    return labels[tuple(slice(None) if k == axis else 0 for k in range(labels.dim()))]


def distinct(labels: Tensor) -> Tensor:
    """The atoms among labels."""
    index = tuple(slice(None) if labels.stride(k) else 0 for k in range(labels.dim()))
    return torch.unique(labels[index])
