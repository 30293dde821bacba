"""``python -m pigmil.cli``."""

from pigmil.cli import main

main()
