"""`python -m adalin` is the command `adalin`."""

from adalin.cli import main

main()
