"""Callbacks for libraries with a loop of their own: each makes a `Monitor` when training begins."""

from importlib import import_module
from typing import Any

from torch import nn

from adalin.monitor._monitor import Monitor


def sb3_callback(**options: Any) -> Any:
    """A callback for Stable-Baselines3: watches the actor and each critic, or whatever the policy trains.

    Looks and probes go to the agent's own logger too. Targets follow the critics and are not watched.

    Args:
        options: those of `Monitor`. `callback.monitor` is the monitor, once training has begun.
    """
    base = import_module("stable_baselines3.common.callbacks").BaseCallback

    class SB3MonitorCallback(base):  # type: ignore[misc, valid-type]
        monitor: Monitor | None = None

        def _on_training_start(self) -> None:
            if self.monitor is None:
                logs = options.get("log")
                logs = [] if logs is None else list(logs) if isinstance(logs, list | tuple) else [logs]
                self.monitor = Monitor(_networks_of(self.model), **{**options, "log": [*logs, self._record]})

        def _on_step(self) -> bool:
            return True

        def _record(self, row: dict[str, float]) -> None:
            for name, value in row.items():
                if name != "step":
                    self.logger.record(name, value)

    return SB3MonitorCallback()


def _networks_of(agent: Any) -> dict[str, nn.Module]:
    policy = agent.policy
    if hasattr(policy, "actor") and hasattr(policy, "critic"):
        critics = getattr(policy.critic, "q_networks", None) or getattr(policy.critic, "quantile_critics", None)
        named = {f"critic{i}": network for i, network in enumerate(critics or [policy.critic])}
        return {"actor": policy.actor, **named}
    if hasattr(policy, "q_net"):
        return {"q_net": policy.q_net}
    return {"policy": policy}


def lightning_callback(**options: Any) -> Any:
    """A callback for Lightning: watches every module of the `LightningModule` that is trained, by its attribute.

    Args:
        options: those of `Monitor`. `callback.monitor` is the monitor, once training has begun.
    """
    try:
        base = import_module("lightning.pytorch").Callback
    except ImportError:
        base = import_module("pytorch_lightning").Callback

    class LightningMonitorCallback(base):  # type: ignore[misc, valid-type]
        monitor: Monitor | None = None

        def on_fit_start(self, trainer: Any, pl_module: nn.Module) -> None:
            self.monitor = Monitor(_trained_children(pl_module), **options)

        def on_fit_end(self, trainer: Any, pl_module: nn.Module) -> None:
            if self.monitor is not None:
                self.monitor.close()

    return LightningMonitorCallback()


def _trained_children(module: nn.Module) -> dict[str, nn.Module]:
    # The module itself holds its trainer, of which a probe must make no copy.
    children = dict(module.named_children())
    trained = {name: m for name, m in children.items() if any(p.requires_grad for p in m.parameters())}
    return trained or {"": module}


def huggingface_callback(**options: Any) -> Any:
    """A callback for the Trainer of Hugging Face's transformers: watches its model.

    Args:
        options: those of `Monitor`. `callback.monitor` is the monitor, once training has begun.
    """
    base = import_module("transformers").TrainerCallback

    class TrainerMonitorCallback(base):  # type: ignore[misc, valid-type]
        monitor: Monitor | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.monitor = Monitor(more["model"], **options)

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if self.monitor is not None:
                self.monitor.close()

    return TrainerMonitorCallback()
