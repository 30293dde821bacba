"""``python -m reproduction table1 --quick``."""

import argparse
import sys
from pathlib import Path

import pandas as pd
from rich.console import Console

from pigmil.report import Table
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
    parser.add_argument("--seeds", type=int, help="draws of each synthetic set")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="parallel fits")
    options = parser.parse_args()
    if options.seeds is not None and options.seeds < 1:
        parser.error("--seeds must be at least 1")
    written = reproduce(
        options.which,
        options.output,
        quick=options.quick,
        seeds=options.seeds,
        n_jobs=options.jobs,
        callback=_show,
    )
    print(file=sys.stderr)
    for path in written:
        if path.name in ("table1.csv", "table2.csv"):
            Console().print(_beside_paper(path).rich())
    print("\n".join(f"wrote {path}" for path in written))


def _show(done: int, total: int, what: str) -> None:
    print(f"\r{done} of {total}  {what[:60]:60}", end="", file=sys.stderr, flush=True)


def _beside_paper(path: Path) -> Table:
    """Return a table of our means, with the printed ones in brackets."""
    table = pd.read_csv(path)
    pairs = zip(table["ours"], table["paper"], strict=True)
    cells = [f"{ours:.1f} ({paper:.1f})".replace("(nan)", "(-)") for ours, paper in pairs]
    wide = table.assign(cell=cells).pivot(index="method", columns="data", values="cell")
    wide = wide.loc[table["method"].unique(), table["data"].unique()].fillna("-")
    return Table(["method", *wide], wide.reset_index().to_numpy())


if __name__ == "__main__":
    main()
