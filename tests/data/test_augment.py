"""Flips, crops and rotations: each image its own, from a generator, without a new pixel value."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from adalin.data._augment import augment, crop, flip, rotate

CHANGES = [augment, flip, crop, rotate]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.uint8]

Change = Callable[[Tensor, torch.Generator], Tensor]


def seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(count: int, height: int, width: int) -> Tensor:
    """One channel whose every pixel is its own number, from 1; the same in all images."""
    return torch.arange(1.0, height * width + 1).view(1, 1, height, width).repeat(count, 1, 1, 1)


# all of them


@pytest.mark.parametrize("change", CHANGES)
def test_a_generator_in_the_same_state_gives_the_same_and_in_another_not(change: Change) -> None:
    images = torch.rand(8, 3, 12, 12)
    first = change(images, seeded())
    torch.manual_seed(99)
    assert torch.equal(first, change(images, seeded()))
    assert not torch.equal(first, change(images, seeded(6)))
    generator = seeded()
    assert torch.equal(first, change(images, generator))
    assert not torch.equal(first, change(images, generator))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shape_and_dtype_stay_and_the_input_is_left_alone(change: Change, dtype: torch.dtype) -> None:
    images = (torch.rand(6, 3, 12, 10) * 255).to(dtype)
    before, state = images.clone(), torch.get_rng_state()
    result = change(images, seeded())
    assert (result.shape, result.dtype) == (images.shape, dtype)
    result.zero_()
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("change", CHANGES)
def test_bytes_and_floats_are_changed_alike(change: Change) -> None:
    pixels = (torch.rand(6, 3, 12, 12) * 255).to(torch.uint8)
    assert torch.equal(change(pixels, seeded()).float(), change(pixels.float(), seeded()))


@pytest.mark.parametrize("change", CHANGES)
def test_the_memory_format_makes_no_difference(change: Change) -> None:
    images = torch.rand(6, 3, 12, 12)
    turned = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(change(turned, seeded()), change(images, seeded()))


@pytest.mark.parametrize("change", CHANGES)
def test_an_empty_batch_stays_empty(change: Change) -> None:
    assert change(torch.rand(0, 3, 12, 12), seeded()).shape == (0, 3, 12, 12)


@pytest.mark.parametrize(
    "change",
    [
        lambda images: flip(images, seeded(), probability=0.0),
        lambda images: crop(images, seeded(), padding=0),
        lambda images: rotate(images, seeded(), degrees=0.0),
    ],
)
@pytest.mark.parametrize("size", [(12, 12), (9, 14), (1, 1)])
def test_to_no_extent_images_stay_as_they_are(change: Callable[[Tensor], Tensor], size: tuple[int, int]) -> None:
    images = torch.rand(4, 3, *size)
    assert torch.equal(change(images), images)


def test_augmenting_flips_then_crops_then_rotates() -> None:
    images, generator = torch.rand(8, 3, 12, 12), seeded()
    expected = rotate(crop(flip(images, generator), generator), generator)
    assert torch.equal(augment(images, seeded()), expected)


@pytest.mark.parametrize("change", CHANGES)
def test_channels_move_together(change: Change) -> None:
    images = torch.rand(8, 1, 12, 12).expand(-1, 3, -1, -1)
    result = change(images, seeded())
    assert torch.equal(result, result[:, :1].expand_as(result))


# flips


def test_half_of_the_images_are_flipped_and_the_others_left() -> None:
    images = numbered(10_000, 1, 3)
    flipped = flip(images, seeded())[:, 0, 0, 0] == 3
    assert torch.equal(flip(images, seeded())[flipped], images[flipped].flip(-1))
    assert torch.equal(flip(images, seeded())[~flipped], images[~flipped])
    assert abs(flipped.double().mean().item() - 0.5) < 3.3 * 0.005  # one in a thousand


def test_with_probability_one_all_images_are_flipped() -> None:
    images = torch.rand(50, 3, 4, 5)
    assert torch.equal(flip(images, seeded(), probability=1.0), images.flip(-1))


# crops


@pytest.mark.parametrize(("size", "padding"), [((12, 12), 4), ((5, 9), 4), ((3, 2), 1)])
def test_a_crop_is_a_window_of_the_image_padded_by_its_reflection(size: tuple[int, int], padding: int) -> None:
    images = torch.rand(60, 3, *size)
    padded = F.pad(images, (padding,) * 4, mode="reflect")
    for window, whole in zip(crop(images, seeded(), padding=padding), padded, strict=True):
        windows = whole.unfold(1, size[0], 1).unfold(2, size[1], 1)  # channels, down, right, height, width
        assert (windows.movedim(0, 2) == window).flatten(2).all(2).any()


def test_crops_are_uniform_over_all_offsets() -> None:
    images = numbered(8_100, 9, 9)
    centres = crop(images, seeded())[:, 0, 4, 4].long() - 1  # of 9 x 9 pixels, each of them with the same chance
    counts = centres.bincount(minlength=81).double()
    assert ((counts - 100) ** 2 / 100).sum() < 124.8  # 80 degrees of freedom, one in a thousand


@pytest.mark.parametrize("size", [(4, 32), (32, 4)])
def test_images_too_small_for_a_reflection_are_refused_in_one_line(size: tuple[int, int]) -> None:
    told = rf"^images of {size[0]} x {size[1]} pixels have no reflection of 4 pixels$"
    with pytest.raises(ValueError, match=told):
        crop(torch.zeros(2, 3, *size), seeded())


# rotations


def rotated(images: Tensor, radians: Tensor) -> Tensor:
    """By torch's own sampler. Its coordinates run from -1 to 1 along both sides, however long they are."""
    height, width = images.shape[2:]
    cos, sin, zero = radians.cos(), radians.sin(), torch.zeros_like(radians)
    rows = [torch.stack((cos, -sin * height / width, zero), 1), torch.stack((sin * width / height, cos, zero), 1)]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", padding_mode="zeros", align_corners=False)


@pytest.mark.parametrize("size", [(32, 32), (11, 11), (9, 16)])
@pytest.mark.parametrize("degrees", [15.0, 180.0])
def test_a_rotation_is_that_of_torchs_sampler(size: tuple[int, int], degrees: float) -> None:
    images = numbered(40, *size)
    radians = torch.rand(40, generator=seeded()) * math.radians(degrees)
    ours, theirs = rotate(images, seeded(), degrees=degrees), rotated(images, radians)
    # Where a source is half way between two pixels, rounding errors decide.
    assert (ours != theirs).double().mean() < 1e-3


@pytest.mark.parametrize("size", [(6, 6), (7, 7)])
def test_rotations_are_counter_clockwise(size: tuple[int, int]) -> None:
    images = numbered(1, *size)
    share = torch.rand(1, generator=seeded()).item()
    for quarters in (1, 2, 3):
        turned = rotate(images, seeded(), degrees=90 * quarters / share)
        assert torch.equal(turned, images.rot90(quarters, (2, 3)))


def test_what_comes_from_beyond_the_edge_is_zero() -> None:
    result = rotate(torch.ones(200, 3, 32, 32), seeded())
    assert set(result.unique().tolist()) == {0.0, 1.0}
    assert result[:, :, 12:20, 12:20].all()
    assert not result[:, :, 0, 0].all()


def test_angles_are_from_zero_to_fifteen_degrees() -> None:
    # Each row has its number: the one that is seen at the middle of the right edge tells the sine of the angle.
    images = numbered(300, 61, 1).expand(-1, -1, -1, 201)
    degrees = ((rotate(images, seeded())[:, 0, 30, 200] - 31) / 100).asin().rad2deg()
    assert 0 <= degrees.min() < 0.5
    assert 14.5 < degrees.max() < 15.3  # a row is 0.6 degrees
    assert abs(degrees.mean() - 7.5) < 3.3 * 0.25  # one in a thousand
