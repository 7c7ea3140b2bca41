"""Random changes to a batch of images (N, C, H, W), each image its own; the generator given is all that is random.

Floats or bytes, as they come: pixels are moved, and no new values are made but zeros.
"""

import math

import torch
from torch import Tensor


def augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip, crop and rotate, in the order and to the extent of Dohare et al. 2024."""
    return rotate(crop(flip(images, generator), generator), generator)


def flip(images: Tensor, generator: torch.Generator, *, probability: float = 0.5) -> Tensor:
    """Left and right change places, with a probability."""
    chosen = torch.rand(len(images), generator=generator, device=generator.device) < probability
    return torch.where(chosen.to(images.device)[:, None, None, None], images.flip(-1), images)


def crop(images: Tensor, generator: torch.Generator, *, padding: int = 4) -> Tensor:
    """A window of the image's size, anywhere in the image padded by its reflection."""
    (height, width), form = images.shape[2:], (2, len(images), 1, 1)
    if padding >= min(height, width):
        raise ValueError(f"images of {height} x {width} pixels have no reflection of {padding} pixels")
    offsets = torch.randint(-padding, padding + 1, form, generator=generator, device=generator.device)
    down, right = offsets.to(images.device)
    rows, columns = _pixels(images)
    return _moved(images, _reflected(rows + down, height), _reflected(columns + right, width))


def rotate(images: Tensor, generator: torch.Generator, *, degrees: float = 15.0) -> Tensor:
    """Turned counter-clockwise about the centre by an angle from [0, degrees): the nearest pixel, or 0 beyond the edge.

    Zero is black in [0, 1], and the mean in standardised images, as in the paper's code.
    """
    turns = torch.rand(len(images), 1, 1, generator=generator, device=generator.device)
    angle = turns.to(images.device) * math.radians(degrees)
    bottom, right = (size - 1 for size in images.shape[2:])
    rows, columns = _pixels(images)
    y, x = rows - bottom / 2, columns - right / 2
    rows = (angle.sin() * x + angle.cos() * y + bottom / 2).round().long()
    columns = (angle.cos() * x - angle.sin() * y + right / 2).round().long()
    beyond = (rows < 0) | (rows > bottom) | (columns < 0) | (columns > right)
    moved = _moved(images, rows.clamp(0, bottom), columns.clamp(0, right))
    return moved.masked_fill_(beyond[:, None], 0)


def _pixels(images: Tensor) -> tuple[Tensor, Tensor]:
    """The rows (H, 1) and columns (1, W) of an image."""
    rows, columns = (torch.arange(size, device=images.device) for size in images.shape[2:])
    return rows[:, None], columns[None, :]


def _reflected(index: Tensor, size: int) -> Tensor:
    last = size - 1
    return last - (last - index.abs()).abs()


def _moved(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Images of the pixels at (rows, columns), which broadcast to (N, H, W); the same for all channels."""
    index = (rows * images.shape[3] + columns).flatten(1)[:, None].expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, index).view(images.shape)
