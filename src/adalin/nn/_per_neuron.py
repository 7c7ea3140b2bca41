"""What layers with one learnable number per neuron share: the axis, the width, and how these are inferred."""

import math
import operator
from collections.abc import Callable
from typing import Any, SupportsIndex

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter

Init = float | Callable[[Tensor], Any]

MOST_NEURONS = 2**31 - 1
"""A width beyond this is a mistake, which would end in an error about memory."""


def check_init(init: object) -> None:
    """Raises ValueError unless alphas can begin so."""
    if not (init is None or callable(init) or (isinstance(init, int | float) and math.isfinite(init))):
        raise ValueError(f"init must be a finite number or a callable that fills a tensor, not {init!r}")


class PerNeuron(LazyModuleMixin, nn.Module):
    """A module with a parameter `alpha`, one value per entry of axis `dim`, or a single one.

    Without `num_parameters` the width is inferred at the first forward, as in PyTorch's lazy modules, and so is the
    axis if `dim` is left out too: the last of three axes (transformers), otherwise 1.
    """

    alpha: nn.Parameter

    def __init__(
        self,
        num_parameters: int | None,
        *,
        dim: int | None,
        init: Init | None,
        alpha: nn.Parameter | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        lazy = num_parameters is None and alpha is None
        if lazy:
            super().__init__()  # installs the hooks that infer the width
        else:
            nn.Module.__init__(self)
            dim = 1 if dim is None else dim
        check_init(init)
        if not (dim is None or isinstance(dim, SupportsIndex)):
            raise ValueError(f"dim must be the number of an axis, not {dim!r}")
        self.dim = dim
        self.init = init
        # Drawn now, so that a copy made before the first forward (a target network) gets the same alphas.
        self._seed = int(torch.randint(2**63 - 1, (), device="cpu")) if lazy else 0
        if alpha is not None:
            if not isinstance(alpha, nn.Parameter):
                raise ValueError(f"alpha must be an nn.Parameter, or it would not be trained, not {alpha!r}")
            if num_parameters not in (None, alpha.numel()):
                raise ValueError(f"num_parameters={num_parameters} disagrees with the {alpha.numel()} values of alpha")
            self.alpha = alpha
        elif lazy:
            self.alpha = UninitializedParameter(device=device, dtype=dtype)  # type: ignore[call-arg, assignment]
        else:
            count = operator.index(num_parameters) if isinstance(num_parameters, SupportsIndex) else 0
            if not 1 <= count <= MOST_NEURONS:
                limit = f" up to {MOST_NEURONS:,}" if count > MOST_NEURONS else ""
                raise ValueError(f"num_parameters must be a positive integer{limit}, not {num_parameters!r}")
            self.alpha = nn.Parameter(torch.empty(count, device=device, dtype=dtype))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give alpha a first value again."""
        if not self.has_uninitialized_params():
            self._fill(self.alpha)

    def initialize_parameters(self, input: Tensor) -> None:
        """Infer the axis and the width from the first input."""
        self._check_input(input)
        if self.dim is None:
            self.dim = -1 if input.dim() == 3 else 1
        if self.has_uninitialized_params():
            values = torch.empty(input.shape[self._axis(input)], dtype=self.alpha.dtype, device="cpu")
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(self._seed)
                self._fill(values)
            self.alpha.materialize(values.shape)  # type: ignore[attr-defined]
            with torch.no_grad():
                self.alpha.copy_(values)

    def alpha_like(self, x: Tensor) -> Tensor:
        """alpha with one axis for each of x's, so that it broadcasts along the neurons."""
        self._check_input(x)
        # Size.numel is an int even while torch.jit traces, which makes a tensor of every other size.
        alpha = self.alpha
        shape, count = [1] * x.dim(), alpha.shape.numel()
        if count != 1:
            axis = self._axis(x)
            width = x.shape[axis:][:1].numel()
            if width != count:
                raise ValueError(
                    f"{type(self).__name__} has {count} alphas, but axis {axis} of its input of shape {tuple(x.shape)} "
                    f"has {width}: set dim to the axis of the neurons, or num_parameters to their number"
                )
            shape[axis] = count
        return alpha.view(shape)

    def extra_repr(self) -> str:
        count = "?" if self.has_uninitialized_params() else self.alpha.numel()
        return f"num_parameters={count}, dim={self.dim}"

    def _check_input(self, x: object) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"the input of {type(self).__name__} must be a tensor, not {type(x).__name__}")

    def _axis(self, x: Tensor) -> int:
        if x.dim() == 1:  # one sample without its batch axis
            return 0
        assert self.dim is not None
        if not -x.dim() <= self.dim < x.dim():
            raise ValueError(
                f"{type(self).__name__}(dim={self.dim}) got an input of shape {tuple(x.shape)}, which has no such axis"
            )
        return self.dim

    def _fill(self, values: Tensor) -> None:
        with torch.no_grad():
            if self.init is None:
                values.uniform_(0, 1)
            elif callable(self.init):
                filled = self.init(values)
                if isinstance(filled, Tensor) and filled is not values:
                    values.copy_(filled)
            else:
                values.fill_(self.init)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.has_uninitialized_params():
            destination[prefix + "alpha"].seed = self._seed

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        self._seed = getattr(state_dict.get(prefix + "alpha"), "seed", self._seed)
        super()._load_from_state_dict(state_dict, prefix, *args)
