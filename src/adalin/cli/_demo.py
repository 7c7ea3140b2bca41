"""demo."""

from dataclasses import dataclass
from pathlib import Path

from adalin.cli._shared import Output


@dataclass(frozen=True, kw_only=True)
class DemoCommand:
    """A network stops learning, the monitor finds out, it is treated, and learns again. Bundled digits, a minute."""

    tasks: int = 12
    """Number of tasks; the network is treated after two thirds of them."""
    epochs: int = 60
    """Epochs per task."""
    images: int = 400
    """Images per task."""
    seeds: tuple[int, ...] = (3, 4, 5)
    """Seeds, with one network for each."""
    out: Path = Path("runs/demo")
    """Folder of the picture."""
    picture: Path | None = None
    """File of the picture: its name ends in .png, .pdf or .svg; by default demo.png in the folder."""

    def __call__(self, console: Output) -> int:
        import torch

        from adalin.report import check_figure_path, save_figure
        from adalin.studies import draw_story, tell_story

        picture = check_figure_path(self.picture or self.out / "demo.png")

        torch.set_num_threads(1)  # for matrices of this size a second one costs more than it brings

        def tell(text: str) -> None:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

        tell(f"In every task {self.images:,} digits get new random labels. By chance the accuracy is 0.10.\n")
        story = tell_story(self.seeds, tasks=self.tasks, images=self.images, epochs=self.epochs, tell=tell)
        self.out.mkdir(parents=True, exist_ok=True)
        save_figure(draw_story(story), picture)
        alone, treated = (
            sum(course.accuracies[-1] for course in courses) / len(courses) for courses in (story.alone, story.treated)
        )
        lost = sum(diagnosis.state == "lost" for diagnosis in story.before)
        tell(
            f"Verdict: {lost} of {len(story.before)} networks had lost plasticity after task {story.treated_after}. "
            f"In the last task the accuracy of those left alone is {alone:.2f}, that of the treated ones {treated:.2f}."
        )
        tell(f"picture: {picture}")
        tell("Try next: adalin run random-label-mnist --methods baseline adalin crelu --tasks 10 --picture curves.png")
        return 0
