"""AdaLin against `nn.PReLU(n)`: time of forward + backward on one thread, and what is kept for the backward pass."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from adalin import AdaLin, bases
from benchmarks._measure import Result, at_most, side_by_side

SHAPES = ((256, 2048), (64, 128, 16, 16))
EAGER = {"relu": 1.0, "tanh": 1.2, "gelu": 1.2}
COMPILED = {"relu": 0.4, "tanh": 1.2, "gelu": 1.2}


def measure() -> Iterator[Result]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for shape in SHAPES:
            yield from _speed(shape)
    finally:
        torch.set_num_threads(threads)
    yield from _memory()


def _speed(shape: tuple[int, ...]) -> Iterator[Result]:
    width = shape[1]
    generator = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(shape, generator=generator) for _ in range(2))
    subjects = {"prelu": _forward_backward(nn.PReLU(width), x, grad)}
    for base in EAGER:
        subjects[f"eager {base}"] = _forward_backward(AdaLin(base, width), x, grad)
    for base in COMPILED:
        torch._dynamo.reset()
        compiled = torch.compile(AdaLin(base, width), fullgraph=True)
        subjects[f"compiled {base}"] = _forward_backward(compiled, x, grad)
    ratios = side_by_side(subjects, "prelu")
    for kind, bars in (("eager", EAGER), ("compiled", COMPILED)):
        for base, bar in bars.items():
            name, ratio = f"AdaLin({base}) {kind} {shape}", ratios[f"{kind} {base}"]
            yield at_most(bar, f"{name}, fastest call", ratio.fastest, "x nn.PReLU")
            yield at_most(bar, f"{name}, median call", ratio.median, "x nn.PReLU")


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
