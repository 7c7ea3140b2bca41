import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _workers_import_what_tests_import() -> None:
    """Processes that an engine starts get the environment, not the path of this one."""
    tests = Path(__file__).parents[1]
    places = (str(tests.parent / "src"), str(tests), os.environ.get("PYTHONPATH"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
