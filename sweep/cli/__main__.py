"""``python -m sweep.cli``."""

from sweep.cli import main

main()
