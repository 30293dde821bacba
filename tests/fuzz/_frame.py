"""Frame of the fuzz scripts: cases run in child processes with limits, outcomes become a table.

A script maps the name of a target to a function that prepares it in the child and returns a
function from a seed to an outcome: ``"refused"``, ``"accepted"``, or a text that begins with
``"escape"``. A child that dies (signal, limit of time or memory) is an escape of the seed it was
working on; another child goes on with the next.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SECONDS_PER_CASE = 20
MEMORY_BYTES = 4 << 30
MIXED = "mixed"
BATCH = 10_000  # a child takes seconds to start

Case = Callable[[int], str]
Target = Callable[[Path], Case]


@dataclass
class Row:
    """Counts of one target, and the escapes with their seeds."""

    target: str
    inputs: int = 0
    counts: Counter = field(default_factory=Counter)
    escapes: list[tuple[int, str]] = field(default_factory=list)

    def add(self, seed: int, outcome: str) -> None:
        self.inputs += 1
        if outcome.startswith("escape"):
            self.escapes.append((seed, outcome))
        else:
            self.counts[outcome] += 1


def run_target(script: Path, target: str, seeds: range, folder: Path) -> Row:
    """Run the seeds of one target in children, one after the other."""
    row = Row(target)
    waiting = list(seeds)
    failed_starts = 0
    while waiting:
        batch = waiting[:BATCH]
        command = [sys.executable, "-P", str(script), "--child", target, "--folder", str(folder)]
        done = subprocess.run(
            command, input="\n".join(map(str, batch)), capture_output=True, text=True, check=False,
            cwd=folder, env={**os.environ, "PYTHONSAFEPATH": "1"},
        )  # fmt: skip
        lines = done.stdout.splitlines()
        outcomes = [json.loads(line) for line in lines if line.startswith('["outcome",')]
        if not outcomes and '["ready"]' not in lines:
            failed_starts += 1
            if failed_starts > 1:
                raise RuntimeError(f"the child of {target} does not start:\n{done.stderr[-2000:]}")
            continue
        for seed, (_, outcome) in zip(batch, outcomes, strict=False):
            row.add(seed, outcome)
        if len(outcomes) < len(batch):
            row.add(batch[len(outcomes)], f"escape: the process ended with {done.returncode}")
            waiting = waiting[len(outcomes) + 1 :]
        else:
            waiting = waiting[len(batch) :]
    return row


def serve(target: Target, folder: Path) -> None:
    """Answer the seeds on standard input, in a child with limits."""
    case = target(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    print(json.dumps(["ready"]), flush=True)
    for line in sys.stdin:
        # Processor time, not the clock: a busy machine is not a hang.
        signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_CASE)
        try:
            outcome = case(int(line))
        except MemoryError:
            outcome = "escape: MemoryError"
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(["outcome", outcome]), flush=True)


def table(rows: list[Row]) -> str:
    """Markdown table of inputs and escapes."""
    lines = ["| target | inputs | refused | accepted | escapes |", "|---|--:|--:|--:|--:|"]
    lines += [
        f"| {row.target} | {row.inputs:,} | {row.counts['refused']:,} | "
        f"{row.counts['accepted']:,} | {len(row.escapes)} |"
        for row in rows
    ]
    return "\n".join(lines)


def mixed(targets: dict[str, Target]) -> Target:
    """Return one target of all: a seed takes them in turn, and one child serves for all."""

    def prepare(folder: Path) -> Case:
        cases = [target(folder) for target in targets.values()]
        return lambda seed: cases[seed % len(cases)](seed)

    return prepare


def save(path: Path, rows: list[Row]) -> None:
    """Add rows to a file of results; a row replaces an earlier one of the same target."""
    known = json.loads(path.read_text()) if path.exists() else {}
    for row in rows:
        known[row.target] = {"inputs": row.inputs, **row.counts, "escapes": len(row.escapes)}
    path.write_text(json.dumps(known, indent=1) + "\n")


def table_of(path: Path) -> str:
    """Markdown table of a file of results."""
    rows = [
        Row(name, found["inputs"], Counter(found), [(0, "")] * found["escapes"])
        for name, found in json.loads(path.read_text()).items()
    ]
    return table(rows)


def main(script: str, targets: dict[str, Target], *, inputs: int) -> None:
    """Command line of a fuzz script: all targets, or one as a child."""
    targets = {**targets, MIXED: mixed(targets)}
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=inputs, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument(
        "--targets", nargs="+", choices=list(targets), default=[*targets][:-1], metavar="NAME",
        help=f"some of {', '.join(targets)}; '{MIXED}' takes all in turn",
    )  # fmt: skip
    parser.add_argument("--results", type=Path, help="JSON file to add the counts to")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        serve(targets[asked.child], asked.folder)
        return
    rows = []
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for name in asked.targets:
            seeds = range(asked.seed, asked.seed + asked.inputs)
            rows.append(run_target(Path(script).resolve(), name, seeds, Path(folder)))
            if asked.results:
                save(asked.results, rows[-1:])
    print(table(rows))
    escapes = [(row.target, *escape) for row in rows for escape in row.escapes]
    for name, seed, outcome in escapes[:50]:
        print(f"{name} seed {seed}: {outcome[:300]}", file=sys.stderr)
    sys.exit(1 if escapes else 0)
