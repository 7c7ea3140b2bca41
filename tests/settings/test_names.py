"""The settings' own lists of names, which they have without importing the rooms whose names they are."""

import subprocess
import sys

from adalin import models, settings, streams


def test_scalings_are_those_of_streams() -> None:
    assert tuple(settings.SCALINGS) == tuple(streams.SCALINGS)


def test_inits_are_those_of_models() -> None:
    assert tuple(settings.INITS) == tuple(models.INITS)


def test_settings_are_known_without_torch() -> None:
    program = "import sys, adalin.settings; assert 'torch' not in sys.modules; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
