"""`python -m tests.native.sanitize`: the native tests under address and undefined-behaviour sanitizers.

What follows is given to pytest, instead of all of them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SANITIZERS = "address,undefined"


def main(*arguments: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        source, build = Path(folder, "src"), Path(folder, "build")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.so"))
        native = source / "adalin" / "native"
        subprocess.run(["cmake", "-S", native, "-B", build, f"-DSANITIZE={SANITIZERS}"], check=True)
        subprocess.run(["cmake", "--build", build, "--parallel"], check=True)
        for library in build.glob("*.so"):
            shutil.copy(library, native)
        compiler = os.environ.get("CXX", "g++")
        runtimes = [
            subprocess.check_output([compiler, f"-print-file-name={name}.so"], text=True).strip()
            for name in ("libasan", "libubsan")
        ]
        environment = os.environ | {
            "PYTHONPATH": str(source),
            "LD_PRELOAD": " ".join(runtimes),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
            "ADALIN_SANITIZE": SANITIZERS,
        }
        engine = ROOT / "tests" / "engine"
        tests = [ROOT / "tests" / "native", engine / "test_native_net.py", engine / "test_native_cnn.py"]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(arguments or tests)]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
