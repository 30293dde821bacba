"""The sections of the page: one per table, study and figure."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pigmil.report import Table
from reproduction.ablation import EXPLANATIONS, ablation_text
from reproduction.claims import HOLDS, Claim, mean_and_error
from reproduction.detection import CONFIGURATIONS, DISPLAY_NAMES, FRESH
from reproduction.printed import REAL, SYNTHETIC, TABLE_II

SIGNS = {"+": "▲", "-": "▼", "=": "≈", "new": "new", "failed": "failed"}

# Why a claim may not be confirmed, by what it is about; shown only where one was not.
REASONS = {
    "Table I": "The paper prints one number per cell, in steps of 5 (one instance of 20), so of "
    "one draw; it prints neither the geometry of the sets nor a deviation over draws. Ours are "
    "means over draws of sets whose geometry was fitted to the baselines of its table.",
    "Table II": "The paper gives no parameters of the baselines but 'linear SVM'. With its "
    "gamma_d = 1 on z-scored features the embedding underflows in many dimensions, so that "
    "`PIGMIL.paper()` classifies by chance there.",
    "Ratio": "The measures of the final graphs above explain the curves. With alpha on C the "
    "consistency term is far larger than the other two, so that scaling D within the formula "
    "changes little; beta stays at its lower bound of 10, so the logarithm has no part in this. "
    "Rescaled to the size of S + C or beyond, D drives edge weights to 0, and without edges the "
    "ranking follows the self-confidence alone.",
    "Noise": "The paper does not say whether relabelled instances move between bags; the two "
    "readings fall differently, and neither is known to be its own.",
    "Working set": "Where the curve is at 100 % for every size no best size can be seen. On BASIC "
    "large working sets let in the tight cluster of negatives that its positive bags share.",
    "Data sets": "A working set of 60 % of 8 instances holds 5, of which 4 can be positive.",
    "CSDG": "The score of a vertex also grows with its own confidence and with the scores of its "
    "neighbours, not with its edges alone.",
}


def markdown_table(text: Any, corner: str = "data set") -> str:
    """Return a data frame of texts as a Markdown table, its index as the first column."""
    columns = [corner, *text.columns]
    return Table(columns, text.reset_index().to_numpy(), left=range(len(columns))).markdown()


def table1_section(table: Any, claims: Sequence[Claim]) -> str:
    """Return the section of Table I."""
    seeds = int(table["seeds"].max())
    methods = list(dict.fromkeys(table["method"]))

    def text(column: str, std: str, paper: bool) -> str:
        cells = [
            f"{getattr(row, column):.1f}"
            + ("" if math.isnan(getattr(row, std)) else f" ± {getattr(row, std):.1f}")
            + (f" (paper {row.paper:.3g})" if paper and not math.isnan(row.paper) else "")
            for row in table.itertuples()
        ]
        wide = table.assign(cell=cells).pivot(index="data", columns="method", values="cell")
        wide = wide.loc[[*SYNTHETIC, "Average", FRESH], methods]
        return markdown_table(wide.rename(columns=DISPLAY_NAMES))

    covered = ", ".join(
        f"{DISPLAY_NAMES[row.method]} {row.covered:.0f} %"
        for row in table[table["data"] == "BASIC"].itertuples()
        if row.method in CONFIGURATIONS
    )
    return "\n\n".join(
        [
            "## Table I: detection of true positive instances",
            f"Share of the detected instances that are truly positive, %, mean ± standard "
            f"deviation over {seeds} draws of each set; in brackets what the paper prints. As in "
            "the paper, PIGMIL is judged by its pool, which has one instance of every working bag "
            f"and none of the bags it sets aside (on BASIC it covers: {covered} of the positive "
            "bags). The other methods detect in every positive bag.",
            text("ours", "std", True),
            "Like with like: the best-scored instance of every positive bag.",
            text("every_bag", "every_bag_std", False),
            "The negatives in the positive bags of RHOMBUS are copies of instances of negative "
            "bags. Discrimination gives an exact copy minus infinity, so copies are easy to "
            "refuse; the last row has fresh draws in their place and is not in the average. "
            "Numbers: [table1.csv](table1.csv).",
            *verdicts(claims, "Table I"),
        ]
    )


def pools_summary(table: Any) -> str:
    """Return one sentence on bag accuracy with the detected and with other pools."""
    sentences = []
    for kind, rows in _pool_groups(table):
        mean = rows[["detected", "random", "worst"]].mean()
        sentences.append(
            f"on {len(rows)} {kind} {mean['detected']:.1f} % of the bags are labelled correctly by "
            f"the detected pool, {mean['random']:.1f} % by a random instance of each of its bags, "
            f"{mean['worst']:.1f} % by the worst-scored one"
        )
    return f"Classification by the pool: {'; '.join(sentences)}."


def _pool_groups(table: Any) -> list[tuple[str, Any]]:
    printed = table["data"].isin(list(REAL))
    groups = (
        ("sets of the paper", table[printed]),
        ("sets with labelled instances", table[~printed]),
    )
    return [(kind, rows) for kind, rows in groups if len(rows)]


def pools_section(table: Any) -> str:
    """Return the section on bag accuracy with the detected and with other pools."""
    blocks = [
        "## Bag accuracy with the detected pool and with others",
        "Does what was detected matter for classifying bags? "
        '`PIGMIL(prototypes="pool+hard_negatives")`, which has one instance of every working bag, '
        "with its pool and with a random or the worst-scored instance of each of the same bags in "
        "its place; the bag classifier is trained anew each time, everything chosen on training "
        f"bags. Accuracy, %, over {int(table['folds'].max())} folds; ± is the standard error of "
        "the difference over the same folds, corrected for their overlap. Hard negatives, chosen "
        "relative to the pool, join it in all three columns.",
    ]
    for kind, rows in _pool_groups(table):
        text = rows.set_index("data")
        cells = text[["detected", "random", "worst"]].map(lambda value: f"{value:.1f}")
        for pool in ("random", "worst"):
            pairs = zip(text[f"over_{pool}"], text[f"over_{pool}_error"], strict=True)
            cells[f"detected - {pool}"] = [f"{gain:+.1f} ± {error:.1f}" for gain, error in pairs]
        if set(text.index) <= set(REAL):
            cells["paper's PIGMIL"] = [f"{TABLE_II['PIGMIL'][name][0]:.1f}" for name in text.index]
        gain, error = mean_and_error(rows["over_random"])
        best = int((rows["detected"] >= rows[["random", "worst"]].max(axis=1)).sum())
        blocks += [
            markdown_table(cells.rename(index=REAL)),
            f"On average over the {kind} the detected pool is {gain:+.1f} ± {error:.1f} points "
            f"against the random one (± over sets); it is best of the three on {best} of "
            f"{len(rows)}.",
        ]
    return "\n\n".join([*blocks, "Numbers: [pools.csv](pools.csv)."])


def ablation_section(table: Any) -> str:
    """Return the section of the ablation."""
    blocks = [
        "## Ablation: one piece left out at a time",
        f"Share of the pool that is truly positive, %, and in brackets the change from the whole "
        f"method with its standard error over the same {int(table['fits'].max())} draws; real sets "
        "with labelled instances have one fit and no error. CPU seconds and scored replacements "
        "are means per fit over all sets.",
        bullets(f"*{piece}*: {text}" for piece, text in EXPLANATIONS.items()),
    ]
    for name, text in ablation_text(table).items():
        blocks += [f"`{DISPLAY_NAMES[name]}`:", markdown_table(text, corner="left out")]
    return "\n\n".join([*blocks, "Numbers: [ablation.csv](ablation.csv)."])


def table2_section(table: Any, results: Any, drawn: bool, claims: Sequence[Claim]) -> str:
    """Return the section of Table II."""
    text = table.assign(cell=[_cell(row) for row in table.itertuples()])
    text = text.pivot(index="data", columns="method", values="cell")
    rows = [data for data in REAL if data in text.index]
    text = text.loc[rows, list(dict.fromkeys(table["method"]))]
    text = text.rename(index=REAL, columns=DISPLAY_NAMES)
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
    parts += results.notes()
    return "\n\n".join([*parts, *verdicts(claims, "Table II")])


def table2_summary(table: Any) -> str:
    """Return sentences on the bag accuracy of PIGMIL beside the printed one."""
    own = table[table["method"] == "PIGMIL"]
    if own.empty:
        return ""
    short = own[own["difference"] < 0].sort_values("difference")
    listed = "; ".join(
        f"{REAL[row.data]} {row.difference:+.1f} (standard deviation over folds {row.std:.1f})"
        for row in short.itertuples()
    )
    below = f" It is below on {listed}." if listed else ""
    return (
        f"Bags: on {len(own)} real sets `PIGMIL()` labels {own['ours'].mean():.1f} % of the bags "
        f"correctly on average, the paper prints {own['paper'].mean():.1f}; it is at or above the "
        f"printed mean on {len(own) - len(short)} of them.{below}"
    )


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


def figure_section(outcome: Any) -> str:
    """Return the section of a figure."""
    about = {claim.about for claim in outcome.claims}
    parts = [
        f"## {outcome.title}",
        f"![{outcome.title}]({outcome.name}.png)",
        f"Numbers: [{outcome.name}.csv]({outcome.name}.csv); "
        f"[{outcome.name}.svg]({outcome.name}.svg). {outcome.notes}".strip(),
    ]
    for name in sorted(about):
        parts += verdicts(outcome.claims, name)
    return "\n\n".join(parts)


def verdicts(claims: Sequence[Claim], about: str) -> list[str]:
    """Return the claims about a table or figure with their checks, and why some fail."""
    chosen = [claim for claim in claims if claim.about == about]
    if not chosen:
        return []
    lines = [f"**{claim.text}**: {claim.verdict}.\n{_check_lines(claim)}" for claim in chosen]
    parts = ["The paper's claims:", bullets(lines)]
    if about in REASONS and any(claim.verdict != HOLDS for claim in chosen):
        parts.append(f"Why: {REASONS[about]}")
    return parts


def _check_lines(claim: Claim) -> str:
    lines = []
    for check in claim.checks:
        where = [DISPLAY_NAMES.get(check.configuration, ""), check.reading]
        place = ", ".join(filter(None, where))
        lines.append(f"  - {place + ': ' if place else ''}{check.verdict}; {check.numbers}.")
    return "\n".join(lines)


def bullets(lines: Iterable[str]) -> str:
    """Return a Markdown list."""
    return "\n".join(f"- {line}" for line in lines)
