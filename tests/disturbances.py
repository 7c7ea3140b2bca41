"""A plugin with which files in the folder of runs make training slow or deadly, on whatever machine.

OUT/slow             holds the seconds that every row takes longer
RUN/poison           holds how often the process that writes a row of this run kills itself
RUN/bug              makes it raise an error instead
"""

import functools
import os
import signal
import time
from typing import Any

from adalin.runs import RunFolder

_append_row = RunFolder.append_row


@functools.wraps(_append_row)
def _disturbed(self: RunFolder, row: dict[str, Any]) -> None:
    poison, slow = self.path / "poison", self.path.joinpath("../../../slow")
    if poison.exists() and (deaths := int(poison.read_text())):
        poison.write_text(str(deaths - 1))
        os.kill(os.getpid(), signal.SIGKILL)
    if (self.path / "bug").exists():
        raise RuntimeError("a bug in one run")
    _append_row(self, row)
    if slow.exists():
        time.sleep(float(slow.read_text()))


RunFolder.append_row = _disturbed  # type: ignore[method-assign]
