"""``python -m reproduction table1 --quick``."""

import argparse
import sys
from pathlib import Path

from reproduction.run import PARTS, reproduce


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="Reproduce the tables and figures of the PIGMIL paper next to the printed "
        "ones. After Ctrl-C, run it again with the same folder to continue.",
    )
    parser.add_argument("which", nargs="?", default="all", choices=PARTS)
    parser.add_argument("-o", "--output", type=Path, default=Path("pigmil-reproduction"),
                        help="folder for tables, figures and numbers")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a subset of a few minutes")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="parallel fits")
    options = parser.parse_args()
    written = reproduce(
        options.which,
        options.output,
        quick=options.quick,
        n_jobs=options.jobs,
        callback=_show,
    )
    print(file=sys.stderr)
    print("\n".join(f"wrote {path}" for path in written))


def _show(done: int, total: int, what: str) -> None:
    print(f"\r{done} of {total}  {what[:60]:60}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
