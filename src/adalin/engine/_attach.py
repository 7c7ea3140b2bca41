"""Rules in somebody else's training loop."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from adalin.engine._attached_net import AttachedNet
from adalin.engine._fresh import FreshWeights
from adalin.methods import ActingRules, Norm, Rule, Rules, check_together, overrides, replaceable
from adalin.structure import Units, find_units

_attached: "WeakKeyDictionary[torch.optim.Optimizer, list[Attached]]" = WeakKeyDictionary()
"""What acts on optimisers' steps."""


def attach(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rules: Rule | Rules,
    *,
    example: Any = None,
    targets: Sequence[nn.Module] = (),
    seed: int = 0,
) -> "Attached":
    """Let rules act on a model in your own training loop, which stays as it is.

    They act in the hooks of `optimizer.step()`: those that change gradients before it, all others after it. What hidden
    units give is that of the last forward pass with gradients before the step. Units are found by one run of the model,
    on the first batch unless there is an example.

    Args:
        model: any model; wrapped in DistributedDataParallel, all processes replace the same units.
        optimizer: its optimiser, of torch.optim's form. Parameters that it does not have count as frozen.
        rules: what acts: `ReDo(every=1000) + L2Init(1e-3)`.
        example: a batch, as the model takes it (a tuple for several arguments, a dict for keywords); with it, a model
            without replaceable units is refused now, not at the first batch.
        targets: copies that follow the model slowly; its new units become theirs.
        seed: seed of what rules draw.

    Examples:
        >>> import torch, adalin
        >>> from torch import nn
        >>> from adalin.methods import L2Init, ReDo
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> optimizer = torch.optim.Adam(model.parameters())
        >>> remedies = adalin.attach(model, optimizer, ReDo(every=10) + L2Init(1e-3))
        >>> for _ in range(20):
        ...     optimizer.zero_grad()
        ...     model(torch.randn(16, 4)).square().mean().backward()
        ...     optimizer.step()
        >>> remedies.steps
        20
    """
    return Attached(model, optimizer, _rules_of(rules), example=example, targets=targets, seed=seed)


class Attached:
    """Rules that act on a model while somebody trains it, as `attach` gives them."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        rules: Sequence[Rule],
        *,
        example: Any = None,
        targets: Sequence[nn.Module] = (),
        seed: int = 0,
    ) -> None:
        inner, optimizer = _inner_model(model), _inner_optimizer(optimizer)
        _check(inner, optimizer, rules, targets)
        self.rules = tuple(rules)
        """Rules that act, in their order."""
        self.steps = 0
        """Steps made since they were attached."""
        self.task = self.step = 0
        """Number of the task, and of the step in it."""
        gathered = isinstance(model, nn.parallel.DistributedDataParallel)
        self._net, self._optimizer = AttachedNet(inner, optimizer, targets, gathered=gathered), optimizer
        self._seed, self._is_new = seed, True
        self._fresh = FreshWeights(self._net, seed) if any("fresh" in rule.needs for rule in rules) else None
        draw = None if self._fresh is None else self._fresh.draw
        # Rules that need no units begin now: what they remember are the weights as they are.
        self._waiting = [rule for rule in rules if "units" in rule.needs]
        self._acting = ActingRules(rules, self._net, seed, draw, waiting=self._waiting)
        self._pending: dict[str, Tensor] = {}
        self._removals: list[Any] = []
        if self._waiting and example is not None:
            arguments, keywords = _arguments(example)
            self._take(find_units(inner, *arguments, **keywords))
        elif self._waiting:
            self._removals.append(inner.register_forward_pre_hook(FirstRun(self), with_kwargs=True))
        self._removals.append(optimizer.register_step_pre_hook(self._before))
        self._removals.append(optimizer.register_step_post_hook(self._after))
        _attached.setdefault(optimizer, []).append(self)

    def new_task(self) -> None:
        """Say that a task ends and another one begins, for rules that act then."""
        self._call("end_task")
        self.task, self.step = self.task + 1, 0
        for rule in self.rules:
            if rule.restarts(self.task):
                self._restart()
        self._call("start_task")

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs to go on from here to the bit, beside the model and the optimiser."""
        memory = {**self._pending, **self._memory()}
        return {
            "rules": [repr(rule) for rule in self.rules],
            "position": [self.steps, self.task, self.step],
            "memory": {name: value.detach().to("cpu", copy=True) for name, value in memory.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave; raises ValueError if it is of other rules or of another model."""
        rules = [repr(rule) for rule in self.rules]
        if not {"rules", "position", "memory"} <= state.keys():
            raise ValueError("this is no state of attached rules: take what state_dict() gave")
        if list(state["rules"]) != rules:
            raise ValueError(f"this state is of {' + '.join(state['rules'])}, and {' + '.join(rules)} are attached")
        self._pending = dict(state["memory"])
        self._restore()
        self.steps, self.task, self.step = state["position"]

    def shares(self, parameters: Iterable[Tensor]) -> bool:
        """Whether one of these is a parameter of its model."""
        own = {id(parameter) for parameter in self._net.model.parameters()}
        return any(id(parameter) in own for parameter in parameters)

    def remove(self) -> None:
        """Leave the model and the optimiser as they were found."""
        for removal in self._removals:
            removal.remove()
        self._removals.clear()
        self._net.remove()
        if self in _attached.get(self._optimizer, []):
            _attached[self._optimizer].remove(self)

    def __enter__(self) -> "Attached":
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __deepcopy__(self, memo: object) -> "Attached":
        raise TypeError("attached rules belong to one model and one optimiser: attach rules to the copies")

    def __reduce__(self) -> Any:
        raise TypeError("attached rules are saved by state_dict()")

    # ---- In a step ---------------------------------------------------------------------------------------------------

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        own, *given = args
        closure = kwargs.get("closure") or (given[0] if given else None)
        if closure is None:
            self._act_before()
            return None

        def computed() -> Any:
            loss = closure()
            self._act_before()
            return loss

        return (own, computed, *given[1:]), {name: value for name, value in kwargs.items() if name != "closure"}

    def _act_before(self) -> None:
        if self._waiting:
            raise RuntimeError(
                "the model has not run since the rules were attached: call it in the loop, or give attach an example="
            )
        if getattr(self._optimizer, "grad_scale", None) is not None:
            raise RuntimeError(
                "gradients are still scaled: call scaler.unscale_(optimizer) before scaler.step(optimizer)"
            )
        if self._is_new and "outputs" in self._acting.needs:
            self._net.outputs  # noqa: B018, which says now, not at step 1,000, that the model cannot be seen
        self._is_new = False
        if not _is_skipped(self._optimizer):
            self._call("before_step", self._acting.acting(self.steps))

    def _after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if _is_skipped(optimizer):
            return
        acting = self._acting.acting(self.steps)
        self.steps += 1
        self._call("after_step", acting)
        self.step += 1
        self._net.forget()

    def _call(self, hook: str, rules: Sequence[Rule] | None = None) -> None:
        lr = float(self._optimizer.param_groups[0]["lr"])
        self._acting.call(hook, self.task, self.step, self.steps, lr, rules)

    # ---- What rules work with ----------------------------------------------------------------------------------------

    def _take(self, layers: Sequence[Units]) -> None:
        """Know the units of the model from now on."""
        self._net.take_layers(layers)
        replaceable(self._net)
        if "outputs" in self._acting.needs:
            self._net.watch()
        self._acting.init(self._waiting)
        self._waiting = []
        self._restore()

    def _restore(self) -> None:
        """Write what is pending into the memories that there are, if all of it fits."""
        pending, memory = self._pending, self._memory()
        self._pending = {}
        if pending and not self._waiting and pending.keys() != memory.keys():
            odd = ", ".join(sorted(pending.keys() ^ memory.keys()))
            raise ValueError(f"this state is of another model: {odd} is not in both")
        known = {name: value for name, value in memory.items() if name in pending}
        for name, value in known.items():
            if pending[name].shape != value.shape:
                shapes = f"{tuple(pending[name].shape)} in this state, and {tuple(value.shape)} here"
                raise ValueError(f"{name} is {shapes}")
        for name, value in known.items():
            value.copy_(pending[name])
        self._pending = pending if self._waiting else {}

    def _memory(self) -> dict[str, Tensor]:
        return self._acting.named()

    @torch.no_grad()
    def _restart(self) -> None:
        """A new network, which inherits nothing."""
        assert self._fresh is not None, "rules that start anew need new networks"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed + self.task)
            for module in self._net.model.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()  # type: ignore[operator]
        self._optimizer.state.clear()
        self._acting.init()


class FirstRun:
    """A hook that finds the units of a model in its first forward pass. A copy of it finds nothing."""

    def __init__(self, attached: Attached | None = None) -> None:
        self._attached = attached

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._attached is not None:
            attached, self._attached = self._attached, None  # the run below comes here too
            try:
                attached._take(find_units(module, *args, **kwargs))
            except ValueError:
                self._attached = attached
                raise
            attached._net.see_now()

    def __deepcopy__(self, memo: object) -> "FirstRun":
        return FirstRun()

    def __reduce__(self) -> Any:
        return FirstRun, ()


def _rules_of(rules: object) -> tuple[Rule, ...]:
    if isinstance(rules, Rules):
        return rules.rules
    if isinstance(rules, Rule):
        return (rules,)
    if isinstance(rules, Norm):
        raise TypeError(f"{rules.name} is part of a network: build the model with it, before the optimiser")
    raise TypeError(f"attach takes rules such as ReDo() + L2Init(1e-3), not {rules!r}")


def _inner_model(model: object) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise TypeError(f"attach takes an nn.Module, not {model!r}")
    if isinstance(model, nn.DataParallel):
        raise ValueError("DataParallel copies the model in every step: take DistributedDataParallel")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return _inner_model(model.module)
    inner = getattr(model, "_orig_mod", model)
    return inner if inner is model else _inner_model(inner)


def _inner_optimizer(optimizer: object) -> torch.optim.Optimizer:
    inner = getattr(optimizer, "optimizer", None)
    if isinstance(inner, torch.optim.Optimizer):  # as Lightning and Accelerate wrap it
        return _inner_optimizer(inner)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"attach takes an optimiser of torch.optim's form, not {optimizer!r}")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("LBFGS makes many steps in one: attach to another optimiser")
    return optimizer


def _check(
    model: nn.Module, optimizer: torch.optim.Optimizer, rules: Sequence[Rule], targets: Sequence[nn.Module]
) -> None:
    own = dict(model.named_parameters())
    moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if not moved & {id(parameter) for parameter in own.values()}:
        raise ValueError("the optimiser has no parameter of this model: make it from model.parameters()")
    if any(type(parameter).__name__ == "DTensor" for parameter in own.values()):
        raise ValueError("the model's parameters are sharded (FSDP), and rules need whole ones")
    others = [other for other in _attached.get(optimizer, []) if other.shares(own.values())]
    check_together([*(rule for other in others for rule in other.rules), *rules])
    for target in targets:
        shapes = {name: parameter.shape for name, parameter in target.named_parameters()}
        if shapes != {name: parameter.shape for name, parameter in own.items()}:
            raise ValueError(f"a target has other parameters than the model: {type(target).__name__}")
    for rule in rules:
        if "fresh" in rule.needs:
            _check_fresh(model, rule)
        if rule.of_plain_sgd and not _is_plain_sgd(optimizer):
            raise ValueError(f"{rule.name} is an optimiser of its own: give it SGD without momentum and decay")
        if overrides(rule, "before_step") and any(parameter.layout != torch.strided for parameter in own.values()):
            raise ValueError(f"{rule.name} changes gradients, and some of them are sparse")


def _is_plain_sgd(optimizer: torch.optim.Optimizer) -> bool:
    return type(optimizer) is torch.optim.SGD and not any(
        group["momentum"] or group["weight_decay"] for group in optimizer.param_groups
    )


def _check_fresh(model: nn.Module, rule: Rule) -> None:
    for name, module in model.named_modules():
        has_own = next(iter(module._parameters.values()), None) is not None
        if has_own and not hasattr(module, "reset_parameters"):
            raise ValueError(
                f"{rule.name} needs newly initialised weights, and {name or type(model).__name__} "
                f"({type(module).__name__}) has no reset_parameters() that would draw them"
            )


def _arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    return (example if isinstance(example, tuple) else (example,)), {}


def _is_skipped(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a GradScaler has found gradients that are not finite, so that a fused step does nothing."""
    found = getattr(optimizer, "found_inf", None)
    return isinstance(found, Tensor) and bool(found.item())
