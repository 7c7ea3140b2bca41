"""Runs of SAC in an environment."""

from dataclasses import dataclass

from adalin.settings._setting import Settings, setting


@dataclass(frozen=True, kw_only=True)
class SACSettings(Settings):
    """How an agent is trained; the defaults are CleanRL's. A row is made after every period."""

    steps: int = setting(1_000_000, least=1, defines=False, is_scale=True)
    """Steps in the environment, a multiple of the period; a finished run can be given more, and goes on."""
    period: int = setting(5_000, least=1)
    """Steps in the environment between rows."""
    replay_ratio: int = setting(1, least=1, most=1_000)
    """Updates per step in the environment, each with a batch of its own."""
    layer_norm: bool = setting(False)
    """Layer normalisation before each activation."""
    batch_size: int = setting(256, least=1)
    """Batch size: transitions per update."""
    buffer_size: int = setting(1_000_000, least=1)
    """Transitions that the replay buffer keeps."""
    learning_starts: int = setting(5_000, least=0)
    """Steps with random actions, before the first update."""
    gamma: float = setting(0.99, share=True)
    """Discount of future rewards."""
    tau: float = setting(0.005, share=True)
    """Share of the critics that target networks take over in each update."""
    policy_lr: float = setting(3e-4, positive=True)
    """Learning rate of the actor."""
    q_lr: float = setting(1e-3, positive=True)
    """Learning rate of the critics and of the entropy coefficient."""
    policy_frequency: int = setting(2, least=1, most=100)
    """Updates of the critics between updates of the actor, which then makes as many."""
    eval_episodes: int = setting(3, least=1)
    """Episodes with the deterministic policy after each period."""
    simulator: str | None = setting(None, is_option=False)
    """Versions that an environment's numbers depend on, so that a run with others is another run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps % self.period:
            raise ValueError(
                f"steps must be a multiple of {self.period:,}, after which rows are made, not {self.steps:,}"
            )

    @property
    def rows(self) -> int:
        return self.steps // self.period
