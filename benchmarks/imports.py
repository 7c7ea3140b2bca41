"""What `import adalin` costs beyond `import torch`."""

import statistics
import subprocess
import sys
from collections.abc import Iterator

from benchmarks._measure import Result, at_most

PROGRAM = (
    "import time, torch; start = time.process_time(); from adalin import AdaLin; print(time.process_time() - start)"
)


def measure() -> Iterator[Result]:
    seconds = [float(subprocess.check_output([sys.executable, "-c", PROGRAM])) for _ in range(5)]
    yield at_most(100, "import adalin beyond import torch", 1000 * statistics.median(seconds), "ms")
