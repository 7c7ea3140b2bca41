"""Products that oneDNN makes are float32's, and nobody else notices that it made them."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch

from adalin.engine import _products, library_for
from adalin.engine._products import _OneDNN, _onednn_is_faster

HUGE = 10**9


@pytest.fixture
def _decide_anew() -> Iterator[None]:
    _onednn_is_faster.cache_clear()
    yield
    _onednn_is_faster.cache_clear()


@pytest.mark.parametrize(("rows", "inside", "columns"), [(256, 256, 256), (16, 3_072, 112), (1_216, 16, 112)])
def test_large_products_are_as_exact_as_float32_is(rows: int, inside: int, columns: int) -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, rows, inside, generator=generator), torch.randn(2, inside, columns, generator=generator)
    with library_for(HUGE):
        product = torch.bmm(a, b)
    error = (product - torch.bmm(a.double(), b.double())).abs().max() / inside**0.5
    assert error < 1e-5  # bfloat16's would be some 1e-2


def test_small_products_stay_with_mkl() -> None:
    assert isinstance(library_for(_products.LARGE - 1), nullcontext)


@pytest.mark.parametrize("missing", [{"avx512_f": False}, {"amx_tile": True}])
@pytest.mark.usefixtures("_decide_anew")
def test_processors_without_avx512_or_with_amx_stay_with_mkl(
    missing: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = {"avx512_f": True, "amx_tile": False} | missing
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: processor, raising=False)
    assert isinstance(library_for(HUGE), nullcontext)


@pytest.mark.usefixtures("_decide_anew")
def test_products_that_are_rounded_to_bfloat16_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": True}, raising=False)
    monkeypatch.setattr(torch, "bmm", lambda a, b: (a.bfloat16() @ b.bfloat16()).float())
    assert isinstance(library_for(HUGE), nullcontext)


def test_what_the_user_has_set_is_there_again_afterwards() -> None:
    setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before, setting.fp32_precision = setting.fp32_precision, "ieee"
    try:
        with suppress(RuntimeError), _OneDNN():
            assert setting.fp32_precision == "bf16"
            raise RuntimeError
        assert setting.fp32_precision == "ieee"
    finally:
        setting.fp32_precision = before
