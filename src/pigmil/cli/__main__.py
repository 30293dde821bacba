"""``python -m pigmil.cli``."""

import os
import sys

# ``-m`` puts the working folder first on the path. Nothing in it may be imported, so it goes before
# any module is imported that a file there could shadow, such as pickle or numpy.
if not sys.flags.safe_path:
    here = os.path.realpath(os.getcwd())
    sys.path[:] = [path for path in sys.path if path and os.path.realpath(path) != here]

from pigmil.cli import main

main()
