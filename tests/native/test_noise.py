"""Fresh weights: the same bits from every kernel and from numpy, evenly spread, and never twice."""

import pytest
import torch

from adalin import native
from adalin.native import FreshNumbers, Region, aligned_zeros
from adalin.native._library import ISAS


@pytest.mark.skipif(native.isa() is None, reason="no native kernels here")
def test_kernels_draw_the_same_bits_as_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    regions, key = [Region(0, 7, 21, 0.3), Region(224, 1, 16, 0.1), Region(240, 3, 40, 1e-3)], 2**63 - 5
    flats = {}
    for name in ("none", *ISAS[ISAS.index(native.isa() or "") :]):
        kernels = None if name == "none" else native.load(name)
        monkeypatch.setattr("adalin.native._noise.library", lambda kernels=kernels: kernels)
        flats[name] = aligned_zeros(384, torch.float32)
        FreshNumbers(flats[name], regions).draw(key, 123)
    assert all(torch.equal(flats["none"], flat) for flat in flats.values())
    assert flats["none"][:224].view(7, 32)[:, 21:].eq(0).all()
    assert flats["none"].abs().max() <= 0.3


def test_no_number_of_one_step_comes_again_in_another() -> None:
    """Words of a task are one sequence, of which each step takes its own part."""
    flat = aligned_zeros(1_600, torch.float64)
    numbers = FreshNumbers(flat, [Region(0, 100, 16, 2.0**15)])
    seen = []
    for step in range(50):
        numbers.draw(12345, step)
        seen.append(flat.view(-1, 4).clone())
    words = torch.cat(seen)
    assert len(words.unique(dim=0)) == len(words)


def test_numbers_are_spread_evenly_over_their_16_bits() -> None:
    """Chi-square over 256 cells of the high bits and of the low ones, of numbers and of sums of neighbours."""
    flat = aligned_zeros(65_536, torch.float64)
    numbers = FreshNumbers(flat, [Region(0, 4_096, 16, 2.0**15)])
    drawn = []
    for step in range(16):
        numbers.draw(7, step)
        drawn.append(flat.long() + 32_768)  # odd numbers from 1 to 65535
    values = torch.stack(drawn)
    assert values.remainder(2).eq(1).all()
    halves = values // 2  # 15 bits
    steps_apart = (halves[1:] + halves[:-1]) % 2**15
    columns = (halves[:, 1:] + halves[:, :-1]) % 2**15
    for own in (halves, steps_apart, columns):
        for cells in (own // 128, own % 256):
            counts = torch.bincount(cells.flatten(), minlength=256).double()
            expected = counts.mean()
            statistic = ((counts - expected) ** 2 / expected).sum().item()
            assert 160 < statistic < 360  # 255 degrees of freedom: 4.2 and 4.6 standard deviations
