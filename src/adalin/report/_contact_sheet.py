"""A trained agent in one picture."""

import numpy as np
from matplotlib.figure import Figure

from adalin.rl import Episode, SACRun, environment_of

ROWS, COLUMNS = 3, 5


def contact_sheet(run: SACRun, episode: Episode) -> Figure:
    """Frames evenly spread over an episode's time."""
    steps = len(episode.frames) - 1
    figure = Figure(figsize=(2 * COLUMNS, 2.15 * ROWS + 0.4), layout="constrained")
    chosen = np.linspace(0, steps, ROWS * COLUMNS).round().astype(int)
    for axes, step in zip(figure.subplots(ROWS, COLUMNS).flat, chosen, strict=True):
        axes.imshow(episode.frames[step])
        axes.set_title(f"step {step}", fontsize="small")
        axes.axis("off")
    about = f"{environment_of(run)}, {run.method}, replay ratio {run.settings.replay_ratio}, seed {run.seed}"
    figure.suptitle(f"{about}: return {episode.episode_return:,.0f} in {steps:,} steps", fontsize="medium")
    return figure
