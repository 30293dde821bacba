"""PIGMIL with one piece left out at a time: what each piece adds, and what it costs."""

from collections.abc import Callable, Sequence
from typing import Any

from pigmil._core.optional import import_optional
from pigmil.evaluation._exports import latex_text
from pigmil.evaluation._store import Store
from pigmil.reproduction._detection import (
    CONFIGURATIONS,
    DISPLAY_NAMES,
    FRESH,
    Detection,
    run_detections,
)
from pigmil.reproduction._printed_tables import SYNTHETIC

Changes = tuple[tuple[str, Any], ...]

# What is left out: parameters of PIGMIL, and fields of its reading.
PIECES: dict[str, tuple[Changes, Changes]] = {
    "nothing": ((), ()),
    "value of S": ((), (("similarity_use", "edges"),)),
    "S": ((), (("similarity_use", "none"),)),
    "C": ((), (("alpha", 0.0),)),
    "D": ((), (("beta", 0.0),)),
    "working sets": ((("working_set_fraction", 1.0),), ()),
    "working bags": ((), (("t_test", None),)),
    "updating": ((("max_updates", 0),), ()),
}
EXPLANATIONS = {
    "nothing": "the whole method",
    "value of S": "similarity decides which pairs are edges, but does not weigh them",
    "S": "all pairs are edges, so that consistency is the same for all",
    "C": "no consistency: edges weigh S + beta D",
    "D": "no discrimination: edges weigh S + alpha C",
    "working sets": "all instances of a working bag are candidates",
    "working bags": "no bag is set aside",
    "updating": "the first pool is the last",
}
SYNTHETIC_SETS = (*SYNTHETIC, FRESH)
LABELLED_SETS = (
    "letter_frost_e",
    "letter_frost_o",
    "newsgroups11_hockey",
    "birds_filtered_winter_wren",
    "birds_filtered_brown_creeper",
    "gitte_spam_13",
)


def ablation(
    *,
    seeds: int = 10,
    labelled: Sequence[str] = LABELLED_SETS,
    n_jobs: int | None = None,
    store: Store,
    callback: Callable[..., None] | None = None,
) -> Any:
    """Leave out each piece of PIGMIL in turn and measure detection and cost.

    Parameters
    ----------
    seeds : int, default=10
        Draws of each synthetic set.
    labelled : sequence of str
        Real sets with labelled instances; one fit each.
    n_jobs : int, optional
        Parallel fits.
    store : Store
        Where finished fits are kept.
    callback : callable, optional
        Called with a :class:`pigmil.evaluation.Progress` after every fit.

    Returns
    -------
    pandas.DataFrame
        One row per configuration, piece left out and set: ``method``, ``left_out``, ``data``,
        ``pool`` and ``every_bag`` (accuracy in per cent), ``change`` of ``pool`` from the whole
        method over the same draws with its standard error ``change_error``, ``seconds`` of
        processor time and ``tries`` per fit, and ``fits``.
    """
    pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")

    def run(sets: Sequence[str], n: int) -> list[dict[str, Any]]:
        wanted = [
            (piece, Detection(data, name, parameters=parameters, weighing=weighing))
            for name in CONFIGURATIONS
            for piece, (parameters, weighing) in PIECES.items()
            for data in sets
        ]
        rows = run_detections(
            "ablation", [what for _, what in wanted], range(n), store, n_jobs=n_jobs,
            callback=callback,
        )  # fmt: skip
        pieces = [piece for piece, _ in wanted for _ in range(n)]
        return [
            {
                "method": row["method"],
                "left_out": piece,
                "data": row["data"],
                "seed": row["seed"],
                "pool": 100 * row["metrics"]["detection_accuracy"],
                "every_bag": 100 * row["metrics"]["every_bag_accuracy"],
                "seconds": row["metrics"]["seconds"],
                "tries": row["metrics"]["tries"],
            }
            for piece, row in zip(pieces, rows, strict=True)
            if row["status"] == "done"
        ]

    cells = pd.DataFrame(run(SYNTHETIC_SETS, seeds) + run(labelled, 1))
    whole = cells[cells["left_out"] == "nothing"].set_index(["method", "data", "seed"])["pool"]
    keys = pd.MultiIndex.from_frame(cells[["method", "data", "seed"]])
    cells["change"] = cells["pool"] - whole.reindex(keys).to_numpy()
    groups = cells.groupby(["method", "left_out", "data"], sort=False)
    table = groups[["pool", "every_bag", "change", "seconds", "tries"]].mean()
    table.insert(3, "change_error", groups["change"].sem())
    table["fits"] = groups.size()
    return table.reset_index()


def ablation_text(table: Any) -> dict[str, Any]:
    """Return one table of texts per configuration: accuracy, and change against its error.

    Returns
    -------
    dict of str to pandas.DataFrame
        One row per piece left out, one column per set, and the cost of a fit.
    """
    found = {}
    for name, part in table.groupby("method", sort=False):
        part = part.assign(cell=[_cell(row) for row in part.itertuples()])
        text = part.pivot(index="left_out", columns="data", values="cell")
        text = text.loc[list(PIECES), list(dict.fromkeys(part["data"]))]
        cost = part.groupby("left_out")[["seconds", "tries"]].mean().loc[list(PIECES)]
        text["CPU s"] = [f"{value:.2f}" for value in cost["seconds"]]
        text["tries"] = [f"{value:.0f}" for value in cost["tries"]]
        found[name] = text
    return found


def _cell(row: Any) -> str:
    if row.left_out == "nothing":
        return f"{row.pool:.1f}"
    error = "" if row.fits < 2 else f" ± {row.change_error:.1f}"
    return f"{row.pool:.1f} ({row.change:+.1f}{error})"


def ablation_latex(table: Any) -> str:
    """Return the ablation in LaTeX, one block per configuration."""
    lines: list[str] = []
    for name, text in ablation_text(table).items():
        if not lines:
            lines = [
                rf"\begin{{tabular}}{{l{'r' * len(text.columns)}}}",
                r"\toprule",
                " & ".join(["left out", *map(latex_text, text.columns)]) + r" \\",
            ]
        title = latex_text(DISPLAY_NAMES[name])
        lines += [r"\midrule", rf"\multicolumn{{{len(text.columns) + 1}}}{{l}}{{{title}}} \\"]
        for piece, row in text.iterrows():
            cells = [latex_text(cell).replace("±", r"$\pm$") for cell in row]
            lines.append(" & ".join([latex_text(piece), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"
