"""The page of a reproduction: what matches, what does not, and why."""

import json
import math
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from pigmil._core.json import to_json_safe
from pigmil._core.version import __version__
from pigmil.evaluation.exports import markdown_page, markdown_table
from pigmil.reproduction.claims import Claim
from pigmil.reproduction.printed_tables import REAL, SYNTHETIC

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas", "matplotlib",
            "scikit-posthocs")  # fmt: skip
SIGNS = {"+": "▲", "-": "▼", "=": "≈", "new": "new", "failed": "failed"}

# Why a claim may fail, by what it is about; shown only where one did.
REASONS = {
    "Table I": "The paper prints one number a cell, in steps of 5 (one instance of 20), so of one "
    "draw; it prints neither the geometry of the sets nor a deviation over draws. Ours are means "
    "over draws of sets whose geometry was fitted to the baselines of its table.",
    "Table II": "The paper gives no parameters of the baselines but 'linear SVM', and with its "
    "gamma_d = 1 on z-scored features the embedding of PIGMIL underflows in many dimensions: "
    "`PIGMIL|paper` is then a matter of chance. `PIGMIL` measures lengths in a unit that grows "
    "with the dimension and embeds bags by all training instances, scaled alike.",
    "Ratio": "With alpha and beta at 10 or more the printed weight is dominated by consistency, "
    "and the logarithm in beta takes back part of any scaling, so the curve is flat in the first "
    "reading. In the second, D beyond the size of S + C drives most edge weights to 0.",
    "Noise": "The paper does not say whether relabelled instances move between bags; the two "
    "readings fall differently, and neither is known to be its own.",
    "Working set": "On these draws a few instances of a bag suffice, so that no size near 40 % "
    "stands out; large working sets let in the tight cluster of negatives that the positive bags "
    "of BASIC share, which can then win.",
    "Data sets": "A working set of 60 % of 8 instances holds 5, of which 4 can be positive.",
    "CSDG": "The score of a vertex also grows with the confidence of its own classifier and the "
    "scores of its neighbours, not with its edges alone.",
}


def environment(command: str, *, seconds: float, n_jobs: int | None) -> dict[str, Any]:
    """Return the versions and the machine behind the numbers."""
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(seconds, 1),
        "n_jobs": n_jobs or 1,
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pigmil": __version__,
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def strict_json(value: Any) -> str:
    """JSON text, values that are no number as null."""
    return json.dumps(to_json_safe(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def page(
    sections: Sequence[tuple[str, Any]],
    claims: Sequence[Claim],
    facts: dict[str, Any],
    left_out: Sequence[str],
) -> str:
    """Return the whole page in Markdown."""
    held = sum(claim.holds for claim in claims)
    parts = [
        "# What matches the paper, what does not, and why",
        f"Made by `{facts['command']}` on {facts['date']} with pigmil {facts['pigmil']}, Python "
        f"{facts['python']}, {facts['processors']} processors; the versions of all packages are in "
        "[environment.json](environment.json). Every number and verdict below was computed by that "
        "command.",
        f"**{held} of {len(claims)} checks of the paper's claims hold.** `PIGMIL` is the default "
        "configuration of this library, `PIGMIL|paper` the one that is literal where the paper can "
        "be taken literally (`PIGMIL.paper()`).",
    ]
    if left_out:
        parts.append("Left out of this run:\n\n" + _bullets(left_out))
    for kind, content in sections:
        parts += {"table1": _table1, "table2": _table2, "figure": _figure}[kind](content, claims)
    return "\n\n".join(parts) + "\n"


def _table1(table: Any, claims: Sequence[Claim]) -> list[str]:
    text = table.assign(
        cell=[f"{row.ours:.1f} ± {row.std:.1f} (paper {row.paper:g})" for row in table.itertuples()]
    ).pivot(index="data", columns="method", values="cell")
    text = text.loc[list(SYNTHETIC), list(dict.fromkeys(table["method"]))]
    seeds = int(table["seeds"].max())
    covered = "; ".join(
        f"{row.method} on {row.data} detects in {row.covered:.0f} % of the positive bags, and "
        f"{row.every_bag:.1f} % of its best instances of all positive bags are right"
        for row in table[table["method"].str.startswith("PIGMIL")].itertuples()
    )
    return [
        "## Table I: detection of true positive instances",
        f"Share of the detected instances that are truly positive, %, mean ± standard deviation "
        f"over {seeds} draws of each set; in brackets what the paper prints.",
        markdown_table(text),
        "The other methods detect one instance of every positive bag, PIGMIL one of every working "
        f"bag and none of the bags it sets aside: {covered}.",
        *_verdicts(claims, "Table I"),
    ]


def _table2(content: Any, claims: Sequence[Claim]) -> list[str]:
    table, results, drawn = content
    text = table.assign(cell=[_cell(row) for row in table.itertuples()])
    text = text.pivot(index="data", columns="method", values="cell")
    rows = [data for data in REAL if data in text.index]
    text = text.loc[rows, list(dict.fromkeys(table["method"]))].rename(index=REAL)
    counts = table["mark"].value_counts()
    outcome = results.significance()
    parts = [
        "## Table II: accuracy on bags",
        f"Ours, %, mean ± standard deviation over {int(table['cells'].max())} cells of "
        "cross-validation; in brackets the paper's. ▲ and ▼: ours is higher or lower by more than "
        "1.96 standard errors of both, corrected for overlapping folds; ≈: it is not; new: the "
        "paper's cell is blank.",
        markdown_table(text),
        ", ".join(f"{SIGNS[mark]} {count}" for mark, count in counts.items())
        + f" of {len(table)} cells.",
        *_lower(table),
    ]
    if not math.isnan(outcome.friedman_p):
        parts.append(
            f"Average ranks over {outcome.n_datasets} sets: "
            + ", ".join(f"{name} {rank:.2f}" for name, rank in outcome.ranks.sort_values().items())
            + f". Friedman p = {outcome.friedman_p:.3g}; ranks that differ by more than "
            f"{outcome.critical_difference:.2f} differ by the Nemenyi test at 0.05."
        )
    if drawn:
        parts.append("![Average ranks and critical difference](table2_ranks.png)")
    notes = markdown_page(results, "accuracy").split("\n\n", 1)
    if len(notes) > 1:
        parts.append(notes[1].strip())
    return [*parts, *_verdicts(claims, "Table II")]


def _lower(table: Any) -> list[str]:
    """List the cells of the default configurations that are below the paper's."""
    own = table[~table["method"].str.contains("|", regex=False)]
    short = own[own["difference"] < -2].sort_values("difference")
    if short.empty:
        return ["No default configuration is more than two points below the paper's mean."]
    listed = "; ".join(
        f"{row.method} on {REAL[row.data]} {row.difference:+.1f}{'' if row.mark == '-' else ' (≈)'}"
        for row in short.itertuples()
    )
    return [
        f"More than two points below the paper's mean, {len(short)} of {len(own)}: {listed}. "
        "`pigmil methods NAME` says why, where a reason is known."
    ]


def _cell(row: Any) -> str:
    if math.isnan(row.ours):
        return "failed"
    paper = "blank" if math.isnan(row.paper) else f"{row.paper:.1f}"
    missing = f", {row.failed} cells failed" if row.failed else ""
    return f"{row.ours:.1f} ± {row.std:.1f} ({paper}) {SIGNS[row.mark]}{missing}"


def _figure(outcome: Any, claims: Sequence[Claim]) -> list[str]:
    about = {claim.about for claim in outcome.claims}
    parts = [
        f"## {outcome.title}",
        f"![{outcome.title}]({outcome.name}.png)",
        f"Numbers: [{outcome.name}.csv]({outcome.name}.csv); "
        f"[{outcome.name}.svg]({outcome.name}.svg). {outcome.notes}".strip(),
    ]
    for name in sorted(about):
        parts += _verdicts(claims, name)
    return parts


def _verdicts(claims: Sequence[Claim], about: str) -> list[str]:
    mine = [claim for claim in claims if claim.about == about]
    if not mine:
        return []
    lines = [
        f"{'Holds' if claim.holds else '**Does not hold**'} ({claim.variant}): {claim.text}. "
        f"Seen: {claim.numbers}."
        for claim in mine
    ]
    parts = ["The paper's claims:", _bullets(lines)]
    if about in REASONS and not all(claim.holds for claim in mine):
        parts.append(f"Why: {REASONS[about]}")
    return parts


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
