"""PIGMIL with one piece left out at a time: what each piece adds, and what it costs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from reproduction.detection import (
    CONFIGURATIONS,
    FRESH,
    Detection,
    Runner,
    run_detections,
)
from reproduction.printed import SYNTHETIC

Changes = tuple[tuple[str, Any], ...]

# What is left out: parameters of PIGMIL, and fields of its reading.
PIECES: dict[str, tuple[Changes, Changes]] = {
    "nothing": ((), ()),
    "value of S": ((), (("similarity_use", "edges"),)),
    "S": ((), (("similarity_use", "none"),)),
    "C": ((), (("alpha", 0.0),)),
    "D": ((), (("beta", 0.0),)),
    "working sets": ((("working_set_fraction", 1.0),), ()),
    "working bags": ((), (("t_threshold", None),)),
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


def ablation(run: Runner, *, seeds: int = 10, labelled: Sequence[str] = LABELLED_SETS) -> Any:
    """Leave out each piece of PIGMIL in turn and measure detection and cost.

    Parameters
    ----------
    run : Runner
        Runs the fits.
    seeds : int, default=10
        Draws of each synthetic set.
    labelled : sequence of str
        Real sets with labelled instances; one fit each.

    Returns
    -------
    pandas.DataFrame
        One row per configuration, piece left out and set: ``method``, ``left_out``, ``data``,
        ``pool`` and ``every_bag`` (accuracy in per cent), ``change`` of ``pool`` from the whole
        method over the same draws with its standard error ``change_error``, ``seconds`` of
        processor time and ``tries`` per fit, and ``fits``.
    """
    cells = []
    for sets, n in ((SYNTHETIC_SETS, seeds), (labelled, 1)):
        wanted = [
            (piece, Detection(data, name, parameters=parameters, weighing=weighing))
            for name in CONFIGURATIONS
            for piece, (parameters, weighing) in PIECES.items()
            for data in sets
        ]
        rows = run_detections([what for _, what in wanted], range(n), run)
        pieces = [piece for piece, _ in wanted for _ in range(n)]
        cells += [
            {
                **{name: row[name] for name in ("method", "data", "seed", "seconds", "tries")},
                "left_out": piece,
                "pool": 100 * row["detection_accuracy"],
                "every_bag": 100 * row["every_bag_accuracy"],
            }
            for piece, row in zip(pieces, rows, strict=True)
            if "error" not in row
        ]
    frame = pd.DataFrame(cells)
    whole = frame[frame["left_out"] == "nothing"].set_index(["method", "data", "seed"])["pool"]
    keys = pd.MultiIndex.from_frame(frame[["method", "data", "seed"]])
    frame["change"] = frame["pool"] - whole.reindex(keys).to_numpy()
    groups = frame.groupby(["method", "left_out", "data"], sort=False)
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
