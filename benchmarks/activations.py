"""AdaLin against its base and against `nn.PReLU(n)`: CPU time of forward + backward, and what backward keeps."""

import os
import time
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from adalin import AdaLin, bases, native
from benchmarks._measure import Ratio, Result, at_most, side_by_side

# Shape, axis of the neurons, memory format.
LAYOUTS = (
    ((256, 2048), 1, torch.contiguous_format),
    ((255, 2047), 1, torch.contiguous_format),
    ((64, 128, 16, 16), 1, torch.contiguous_format),
    ((64, 128, 16, 16), 1, torch.channels_last),
    ((63, 127, 15, 15), 1, torch.contiguous_format),
    ((8, 128, 768), -1, torch.contiguous_format),
)
BASES = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
EAGER = {"relu": 1.3, "tanh": 1.0, "gelu": 1.4 if native.isa() == "v4" else 2.0}
PRELU = 1.0
COMPILED = {"relu": 2.0, "tanh": 2.0, "gelu": 2.0}


def measure() -> Iterator[Result]:
    load = ", ".join(f"{minutes:.1f}" for minutes in os.getloadavg())
    print(f"{native.describe()}; load {load}")
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for shape, axis, layout in LAYOUTS:
                yield from _eager(shape, axis, layout, threads)
        torch.set_num_threads(1)
        yield from _compiled((256, 2048))
    finally:
        torch.set_num_threads(before)
    yield from _memory()


def _eager(shape: tuple[int, ...], axis: int, layout: torch.memory_format, threads: int) -> Iterator[Result]:
    x, grad = (tensor.contiguous(memory_format=layout) for tensor in _numbers(shape))
    last = ", channels last" if layout == torch.channels_last else ""
    where = f"{shape}{last}, {threads} thread{'s' if threads > 1 else ''}"
    subjects = {"prelu": _forward_backward(nn.PReLU(shape[1]), x, grad)}
    for base, module in BASES.items():
        subjects[base] = _forward_backward(module(), x, grad)
        subjects[f"AdaLin({base})"] = _forward_backward(AdaLin(base, shape[axis], dim=axis), x, grad)
    for base, bar in EAGER.items():
        ratios = _cpu_time({name: subjects[name] for name in (base, f"AdaLin({base})")}, base)
        yield from _both(bar, f"AdaLin({base}) eager {where}", ratios[f"AdaLin({base})"], f"x {base}")
    ratios = _cpu_time({name: subjects[name] for name in ("prelu", "AdaLin(relu)")}, "prelu")
    yield from _both(PRELU, f"AdaLin(relu) eager {where}", ratios["AdaLin(relu)"], "x nn.PReLU")


def _compiled(shape: tuple[int, ...]) -> Iterator[Result]:
    x, grad = _numbers(shape)
    for base, bar in COMPILED.items():
        torch._dynamo.reset()
        plain = torch.compile(BASES[base](), fullgraph=True)
        layer = torch.compile(AdaLin(base, shape[1]), fullgraph=True)
        subjects = {"base": _forward_backward(plain, x, grad), "layer": _forward_backward(layer, x, grad)}
        ratio = _cpu_time(subjects, "base")["layer"]
        yield from _both(bar, f"AdaLin({base}) compiled {shape}", ratio, f"x compiled {base}")


def _cpu_time(subjects: Mapping[str, Callable[[], object]], reference: str) -> dict[str, Ratio]:
    return side_by_side(subjects, reference, calls=5, clock=time.process_time)


def _both(bar: float, name: str, ratio: Ratio, unit: str) -> Iterator[Result]:
    yield at_most(bar, f"{name}, fastest call", ratio.fastest, unit)
    yield at_most(bar, f"{name}, median call", ratio.median, unit)


def _numbers(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def _forward_backward(layer: Callable[[Tensor], Tensor], x: Tensor, grad: Tensor) -> Callable[[], object]:
    def run() -> None:
        layer(x.detach().requires_grad_()).backward(grad)

    return run


def _memory() -> Iterator[Result]:
    most = max(saved_inputs(AdaLin(base, 64)) for base in bases())
    yield at_most(1, "tensors of the input's size kept for backward, any base", most, "tensors")


def saved_inputs(layer: Callable[[Tensor], Tensor]) -> int:
    """How many tensors at least as large as the input the layer keeps for its backward pass."""
    x = torch.randn(32, 64, requires_grad=True)
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    return len({tensor.data_ptr() for tensor in saved if tensor.numel() >= x.numel()})
