"""`python -m adalin.native`: which kernels this installation has."""

import sys

from adalin.native import describe

try:
    print(describe())
except (ImportError, ValueError) as refused:
    sys.exit(f"adalin: {refused}")
