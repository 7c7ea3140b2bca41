"""watch, status."""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from tyro.conf import Positional

from adalin.cli._shared import WithPlugins

if TYPE_CHECKING:
    from adalin.executors import StatusReader


PAUSE_SECONDS = 10.0
"""Longest pause between the parts of a sweep, a search or a recipe; after a longer one nothing more is expected."""


@dataclass(frozen=True, kw_only=True)
class WatchCommand(WithPlugins):
    """What the runs in a folder are doing, live, from any machine that sees it. Ctrl-C ends the view, not the runs."""

    folder: Positional[Path] = Path("runs")
    """Folder of the runs."""
    every: float = 2.0
    """Seconds between looks."""

    def __call__(self, console: Console) -> int:
        self.import_plugins()
        from adalin.report import status_view

        if not 0 < self.every <= 3600:
            raise ValueError(f"every must be a number of seconds above 0 and at most 3,600, not {self.every}")
        reader = _reader(self.folder)
        status, active = reader.read(), -math.inf
        try:
            with Live(status_view(status), console=console, auto_refresh=False) as live:
                while True:
                    if status.counts["running"] or status.counts["waiting"]:
                        active = time.monotonic()
                    elif time.monotonic() - active > PAUSE_SECONDS:
                        break
                    time.sleep(self.every)
                    status = reader.read()
                    live.update(status_view(status), refresh=True)
        except KeyboardInterrupt:
            return 0
        return 1 if status.counts["failed"] or status.problems else 0


@dataclass(frozen=True, kw_only=True)
class StatusCommand(WithPlugins):
    """What the runs in a folder are doing, once; the exit code is 1 if some have failed."""

    folder: Positional[Path] = Path("runs")
    """Folder of the runs."""
    json: bool = False
    """Output as JSON, for scripts."""

    def __call__(self, console: Console) -> int:
        self.import_plugins()
        from adalin.report import status_json, status_view

        status = _reader(self.folder).read()
        if self.json:
            print(json.dumps(status_json(status), indent=2))
        else:
            console.print(status_view(status))
        return 1 if status.counts["failed"] or status.problems else 0


def _reader(folder: Path) -> "StatusReader":
    from adalin.executors import StatusReader
    from adalin.runs import shown_path

    if not folder.is_dir():
        raise ValueError(f"there is no folder {shown_path(folder)}")
    return StatusReader(folder)
